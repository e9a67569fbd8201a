// Who becomes the resident of a mutex, and how one is evicted.
#include "impl/core/resident_mutex.h"

#include <algorithm>
#include <thread>

#include "impl/core/thread_cache.h"

namespace kina {

void ResidentMutex::note(Residence& residence) noexcept {
  if (std::exchange(last_, &residence) != &residence) times_ = 0;
  if (resident_ != nullptr || ++times_ < wanted_times_) return;
  resident_ = &residence;
  residence.is_resident_.store(true, std::memory_order_relaxed);
}

void ResidentMutex::evict_unless_here() noexcept {
  if (resident_->thread_ != t_cache) {
    wanted_times_ = std::min(4 * wanted_times_, kMostTimes);
    while (!try_evict()) std::this_thread::yield();
  } else if (!resident_->is_resident_.load(std::memory_order_relaxed)) {
    resident_ = nullptr;  // a fork came, and who has the mutex is not inside without it
  }
}

// The resident sees that it is none, or is seen to be inside.
bool ResidentMutex::try_evict() noexcept {
  if (resident_ == nullptr) return true;
  if (resident_->is_resident_.exchange(false, std::memory_order_relaxed)) fence_all_threads_surely();
  times_ = 0;
  if (resident_->is_inside_.load(std::memory_order_acquire)) return false;
  resident_ = nullptr;
  return true;
}

void ResidentMutex::end(Residence& residence) noexcept {
  const std::lock_guard lock(static_cast<Mutex&>(*this));
  residence.is_resident_.store(false, std::memory_order_relaxed);
  if (resident_ == &residence) resident_ = nullptr;
  if (last_ == &residence) last_ = nullptr;
}

}  // namespace kina
