// Which objects calls look at, and those that wait for such calls to end.
#include "impl/core/lease.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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
class LeaseRegistry : public ThreadRegistry<LeaseRegistry, LeaseRow> {
 public:
  LeaseRegistry() noexcept { fences_are_remote.store(enable_remote_fences(), std::memory_order_relaxed); }
  static LeaseRow* own() noexcept { return t_cache == nullptr ? nullptr : &t_cache->leases; }

  void wait(const Leasable& object) noexcept {
    const std::lock_guard lock(mutex());
    object.next_ = waiting_;
    waiting_ = &object;
    has_unfenced_ = true;
    objects_wait.store(true, std::memory_order_relaxed);
  }

  // One that nobody leases any more, to be ended; NULL when there is none. One fence is enough for each object: behind
  // it all leases of it are seen here, and who ends one sees that objects wait.
  const Leasable* take_unleased() noexcept {
    const std::lock_guard lock(mutex());
    if (waiting_ == nullptr) return nullptr;
    if (std::exchange(has_unfenced_, false)) fence_all_threads_surely();
    const Leasable** at = &waiting_;
    while (*at != nullptr && is_leased(*at)) at = &(*at)->next_;
    const Leasable* found = *at;
    if (found != nullptr) *at = found->next_;
    objects_wait.store(waiting_ != nullptr, std::memory_order_relaxed);
    return found;
  }

  static void end(const Leasable* object) noexcept { delete object; }

 private:
  bool is_leased(const Leasable* object) noexcept {
    return find([=](const LeaseRow& row) { return row.holds(object); }) != nullptr;
  }

  const Leasable* waiting_ = nullptr;
  bool has_unfenced_ = false;  // added since the last fence
};

namespace {

// As the library is loaded, when the kernel has few threads to reach and no fork can come in between.
__attribute__((constructor)) void open_registry() noexcept { LeaseRegistry::instance(); }

}  // namespace

LeaseRow::LeaseRow() noexcept { LeaseRegistry::instance().add(*this); }
LeaseRow::~LeaseRow() { LeaseRegistry::instance().remove(*this); }

void Leasable::last_reference_gone() const noexcept {
  LeaseRegistry::instance().wait(*this);
  end_waiting_objects();
}

void end_waiting_objects() noexcept {
  while (const Leasable* object = LeaseRegistry::instance().take_unleased()) LeaseRegistry::end(object);
}

}  // namespace kina
