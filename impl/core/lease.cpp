// Which objects calls look at, and those that wait for such calls to end.
#include "impl/core/lease.h"

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"
#include "impl/core/thread_cache.h"

namespace kina {
namespace {

#if defined(__linux__)
bool ask_kernel(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

bool enable_remote_fences() noexcept {
  return ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool ask_for_fences() noexcept { return ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || enable_remote_fences(); }
#else
bool enable_remote_fences() noexcept { return false; }
bool ask_for_fences() noexcept { return false; }
#endif

}  // namespace

bool fence_all_threads() noexcept {
  if (fences_are_remote.load(std::memory_order_relaxed)) return ask_for_fences();
  fence_fully();
  return true;
}

void fence_all_threads_surely() noexcept {
  if (!fence_all_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// All rows, and the objects without references that wait for leases to end.
class LeaseBook {
 public:
  static LeaseBook& instance() noexcept {
    static Lasting<LeaseBook> book;
    return *book;
  }

  LeaseBook() noexcept {
    fences_are_remote.store(enable_remote_fences(), std::memory_order_relaxed);
    // The child has the forking thread alone.
    pthread_atfork(nullptr, nullptr, [] { instance().forget_other_threads(); });
  }

  void add(LeaseRow& row) noexcept {
    const std::lock_guard lock(mutex_);
    row.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &row;
    first_ = &row;
  }

  void remove(LeaseRow& row) noexcept {
    const std::lock_guard lock(mutex_);
    if (row.previous_ == nullptr && first_ != &row) return;  // forgotten
    (row.previous_ == nullptr ? first_ : row.previous_->next_) = row.next_;
    if (row.next_ != nullptr) row.next_->previous_ = row.previous_;
  }

  void wait(const Leasable& object) noexcept {
    const std::lock_guard lock(mutex_);
    object.next_ = waiting_;
    waiting_ = &object;
    objects_wait.store(true, std::memory_order_relaxed);
  }

  // One that nobody leases any more, to be ended; NULL when there is none.
  const Leasable* take_unleased() noexcept {
    const std::lock_guard lock(mutex_);
    if (waiting_ == nullptr || !fence_all_threads()) return nullptr;
    const Leasable** at = &waiting_;
    while (*at != nullptr && is_leased(*at)) at = &(*at)->next_;
    const Leasable* found = *at;
    if (found != nullptr) *at = found->next_;
    objects_wait.store(waiting_ != nullptr, std::memory_order_relaxed);
    return found;
  }

  static void end(const Leasable* object) noexcept { delete object; }

 private:
  bool is_leased(const Leasable* object) const noexcept {
    for (const LeaseRow* row = first_; row != nullptr; row = row->next_)
      if (row->holds(object)) return true;
    return false;
  }

  void forget_other_threads() noexcept {
    LeaseRow* own = t_cache == nullptr ? nullptr : &t_cache->leases;
    for (LeaseRow* row = first_; row != nullptr;) {
      LeaseRow* next = row->next_;
      row->previous_ = row->next_ = nullptr;
      row = next;
    }
    first_ = own;
  }

  Mutex mutex_{Mutex::Place::inner};
  LeaseRow* first_ = nullptr;
  const Leasable* waiting_ = nullptr;
};

namespace {

// As the library is loaded, when the kernel has few threads to reach and no fork can come in between.
__attribute__((constructor)) void open_book() noexcept { LeaseBook::instance(); }

}  // namespace

LeaseRow::LeaseRow() noexcept { LeaseBook::instance().add(*this); }
LeaseRow::~LeaseRow() { LeaseBook::instance().remove(*this); }

void Leasable::last_reference_gone() const noexcept {
  LeaseBook::instance().wait(*this);
  end_waiting_objects();
}

void end_waiting_objects() noexcept {
  while (const Leasable* object = LeaseBook::instance().take_unleased()) LeaseBook::end(object);
}

}  // namespace kina
