// A mutex that no child inherits locked: a fork takes all of them first, so that the child finds them free and what
// they guard whole.
#pragma once

#include <mutex>

namespace kina {

// For what lives long: tables, devices, streams, resources. Construction and destruction pass a lock of the process.
class Mutex {
 public:
  Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex();

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  // For condition variables.
  std::mutex& native() noexcept { return mutex_; }

 private:
  friend struct MutexList;
  std::mutex mutex_;
  Mutex* previous_ = nullptr;
  Mutex* next_ = nullptr;
};

}  // namespace kina
