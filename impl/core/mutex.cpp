// The list of mutexes that a fork takes.
#include "impl/core/mutex.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <array>
#include <new>
#include <utility>

#include "impl/core/lasting.h"
#include "impl/core/statics.h"

namespace kina {
struct MutexList {
  std::mutex mutex;
  Mutex* first = nullptr;

  // Never destroyed: threads that outlive main and the fork handlers use it.
  static MutexList& instance() noexcept {
    alignas(MutexList) static unsigned char bytes[sizeof(MutexList)];
    static MutexList* const made = [] {
      auto* list = new (bytes) MutexList;
      pthread_atfork([] { instance().take_all(); },
                     [] {
                       instance().leave_all();
                       StaticsLock::unlock();
                     },
                     [] {
                       fork_count.fetch_add(1, std::memory_order_relaxed);
                       instance().leave_all();
                       StaticsLock::unlock();
                     });
      return list;
    }();
    return *made;
  }

  void add(Mutex& added) noexcept {
    const std::lock_guard lock(mutex);
    added.is_listed_ = true;
    added.next_ = first;
    if (first != nullptr) first->previous_ = &added;
    first = &added;
  }

  void remove(Mutex& removed) noexcept {
    const std::lock_guard lock(mutex);
    if (!std::exchange(removed.is_listed_, false)) return;
    (removed.previous_ == nullptr ? first : removed.previous_->next_) = removed.next_;
    if (removed.next_ != nullptr) removed.next_->previous_ = removed.previous_;
  }

  // Threads nest these locks in various orders and make new ones inside them, so nothing is waited for with a lock in
  // hand: one that is taken sends everybody back to the start. None is held for long.
  void take_all() noexcept {
    for (;;) {
      mutex.lock();
      Mutex* taken = first;
      const bool has_statics = StaticsLock::try_lock();
      bool is_alone = has_statics;
      while (is_alone && taken != nullptr && taken->try_lock()) {
        is_alone = taken->try_evict();
        taken = taken->next_;
      }
      if (is_alone && taken == nullptr) return Mutex::is_fork_near.store(false, std::memory_order_relaxed);
      for (Mutex* held = first; held != taken; held = held->next_) held->unlock();
      if (has_statics) StaticsLock::unlock();
      mutex.unlock();
      Mutex::is_fork_near.store(true, std::memory_order_relaxed);
      sched_yield();
    }
  }

  void leave_all() noexcept {
    for (Mutex* held = first; held != nullptr; held = held->next_) held->unlock();
    mutex.unlock();
  }
};

// Forks are prepared for from the start: the first static may be under way when the first of them comes.
__attribute__((constructor)) static void prepare_forks() noexcept { MutexList::instance(); }

void Mutex::stand_back() noexcept {
  for (int i = 0; i < 10 && is_fork_near.load(std::memory_order_relaxed); ++i) {
    const timespec short_while{0, 100'000};
    nanosleep(&short_while, nullptr);
  }
}

Mutex::Mutex(Place place) : place_(place) { enter_list(); }
Mutex::~Mutex() { leave_list(); }
void Mutex::enter_list() { MutexList::instance().add(*this); }
void Mutex::leave_list() noexcept { MutexList::instance().remove(*this); }

Mutex& shared_mutex_of(const void* object) noexcept {
  static Lasting<std::array<Mutex, 16>> all;
  return (*all)[(reinterpret_cast<uintptr_t>(object) / 64) % 16];
}

// The thread that held it is not in this process, and its mutex cannot be destroyed.
void TurnMutex::renew() noexcept {
  const std::lock_guard lock(shared_mutex_of(this));
  if (!is_inherited()) return;
  new (&mutex_) std::mutex;
  forks_.store(forks(), std::memory_order_release);
}

}  // namespace kina
