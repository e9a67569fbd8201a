// Statics of functions are made under one lock, which a fork takes: no child inherits one that another thread was
// making.
#pragma once

namespace kina {

class StaticsLock {
 public:
  static bool try_lock() noexcept;
  static void unlock() noexcept;
  // In the child of a fork, instead of `unlock`: the thread that locked it has another id there.
  static void renew() noexcept;
};

}  // namespace kina
