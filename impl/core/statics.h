// Statics of functions are made under one lock, which a fork takes: no child inherits one that another thread was
// making.
#pragma once

namespace kina {

class StaticsLock {
 public:
  static void lock() noexcept;
  static bool try_lock() noexcept;
  static void unlock() noexcept;
};

}  // namespace kina
