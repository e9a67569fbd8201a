// A mutex that one thread after another passes without a locked instruction: the one that takes it again and again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "impl/core/lease.h"
#include "impl/core/mutex.h"

namespace kina {

struct ThreadCache;

// What one thread has of a ResidentMutex. A resident goes in by plain stores, and is as bound by the order of locks
// while it is inside as if it had the mutex.
class Residence {
 public:
  explicit Residence(const ThreadCache* thread) noexcept : thread_(thread) {}
  Residence(const Residence&) = delete;
  Residence& operator=(const Residence&) = delete;

  // By its thread: goes in without the mutex; false where it is no resident, or is about to be none.
  bool try_lock() noexcept {
    if (!is_resident_.load(std::memory_order_relaxed)) return false;
    is_inside_.store(true, std::memory_order_relaxed);
    fence_lease();
    if (is_resident_.load(std::memory_order_acquire)) [[likely]]
      return true;
    unlock();
    return false;
  }
  void unlock() noexcept { is_inside_.store(false, std::memory_order_release); }

 private:
  friend class ResidentMutex;
  const ThreadCache* const thread_;
  std::atomic<bool> is_resident_{false};
  std::atomic<bool> is_inside_{false};
};

class ResidentMutex final : public Mutex {
 public:
  ResidentMutex() : Mutex(Place::outer, Unlisted()) { enter_list(); }
  ResidentMutex(const ResidentMutex&) = delete;
  ResidentMutex& operator=(const ResidentMutex&) = delete;
  ~ResidentMutex() override { leave_list(); }

  // For whoever comes seldom. Where another thread is the resident, it is one no longer.
  void lock() {
    Mutex::lock();
    evict_others();
  }
  // Locked, for condition variables.
  std::unique_lock<std::mutex> own() {
    std::unique_lock lock = Mutex::own();
    evict_others();
    return lock;
  }
  // Waits for `changed`, with a lock of `own`.
  void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock) {
    changed.wait(lock);
    evict_others();
  }
  // `residence` is nobody's any more, and its thread is not on its way in.
  void end(Residence& residence) noexcept;

 private:
  friend class ResidentLock;
  void lock_for(Residence& residence) {
    lock();
    note(residence);
  }
  void note(Residence& residence) noexcept;
  void evict_others() noexcept {
    if (resident_ != nullptr) [[unlikely]]
      evict_unless_here();
  }
  void evict_unless_here() noexcept;
  bool try_evict() noexcept override;

  // An eviction costs as much as some hundred locks, so each one makes the next resident wait longer: until it is
  // dear no more, however often it happens.
  static constexpr uint32_t kFirstTimes = 64;
  static constexpr uint32_t kMostTimes = 1 << 14;

  // Guarded by the mutex.
  Residence* resident_ = nullptr;
  const Residence* last_ = nullptr;
  uint32_t times_ = 0;  // that `last_` came in a row
  uint32_t wanted_times_ = kFirstTimes;
};

// Held by a thread that may be the resident, or become it.
class ResidentLock {
 public:
  ResidentLock(ResidentMutex& mutex, Residence& residence)
      : mutex_(residence.try_lock() ? nullptr : &mutex), residence_(residence) {
    if (mutex_ != nullptr) [[unlikely]]
      mutex_->lock_for(residence);
  }
  ResidentLock(const ResidentLock&) = delete;
  ResidentLock& operator=(const ResidentLock&) = delete;
  ~ResidentLock() {
    if (mutex_ == nullptr) [[likely]] {
      residence_.unlock();
    } else {
      mutex_->unlock();
    }
  }

 private:
  ResidentMutex* const mutex_;  // NULL: the thread is inside as the resident
  Residence& residence_;
};

}  // namespace kina
