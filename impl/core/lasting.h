// Statics that are never destroyed: the library is called from atexit handlers and from threads that outlive main.
#pragma once

#include <new>

namespace kina {

// Made in place at its first use, without the heap, so that functions that must not throw may use it.
template <class T>
class Lasting {
 public:
  Lasting() noexcept(noexcept(T())) { new (storage_) T(); }
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }

 private:
  alignas(T) unsigned char storage_[sizeof(T)];
};

}  // namespace kina
