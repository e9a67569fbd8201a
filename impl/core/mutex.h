// A mutex that no child inherits locked: a fork takes all of them first, so that the child finds them free and what
// they guard whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace kina {

// For what lives long: tables, devices, streams, resources. Construction and destruction pass a lock of the process.
class Mutex {
 public:
  // Inner ones are taken while another is held; they do not stand back before a fork.
  enum class Place : uint8_t { outer, inner };

  explicit Mutex(Place place = Place::outer);
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  virtual ~Mutex();

  void lock() {
    if (place_ == Place::outer && is_fork_near.load(std::memory_order_relaxed)) [[unlikely]]
      stand_back();
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  // Locked, for condition variables.
  std::unique_lock<std::mutex> own() {
    lock();
    return {mutex_, std::adopt_lock};
  }

 protected:
  // For a derived one, which no fork may meet half made: it enters the list itself, and leaves it first.
  struct Unlisted {};
  Mutex(Place place, Unlisted) noexcept : place_(place) {}
  void enter_list();
  void leave_list() noexcept;  // where it is there

 private:
  // With the mutex: false while a thread still is inside that came in without it.
  virtual bool try_evict() noexcept { return true; }
  // Leaves a fork that waits for all mutexes its chance, but not for ever: the caller may hold one of them.
  static void stand_back() noexcept;

  static inline std::atomic<bool> is_fork_near{false};
  friend struct MutexList;
  const Place place_;
  std::mutex mutex_;
  bool is_listed_ = false;  // this and its place: guarded by the list's mutex
  Mutex* previous_ = nullptr;
  Mutex* next_ = nullptr;
};

// Counts the forks that led to this process: threads of its ancestors do not run here. Alike from one fork to the next
// once there is a Mutex.
inline constinit std::atomic<uint64_t> fork_count{0};
inline uint64_t forks() noexcept { return fork_count.load(std::memory_order_relaxed); }

// The mutex of an object that comes and goes too often for one of its own. Others share it: it is held for a moment,
// and only one of them at a time.
Mutex& shared_mutex_of(const void* object) noexcept;

// A lock that is held while devices are waited for, so that no fork can wait for it. A child finds it free, whoever
// held it: what it guards has to be changed under a Mutex as well.
class TurnMutex {
 public:
  void lock() {
    if (is_inherited()) renew();
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  bool is_inherited() const noexcept { return forks_.load(std::memory_order_acquire) != forks(); }
  void renew() noexcept;

  std::mutex mutex_;
  std::atomic<uint64_t> forks_{forks()};
};

}  // namespace kina
