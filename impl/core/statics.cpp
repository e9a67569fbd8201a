// The compiler's calls around the making of a static, as the C++ ABI names them, with a lock that forks know.
#include "impl/core/statics.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace kina {
namespace {

// Recursive: the making of one static makes others.
std::recursive_mutex g_statics;

// The first byte of a guard says whether its static is made; what follows belongs to this file and stays unused.
std::atomic_ref<uint8_t> is_made(uint64_t& guard) noexcept {
  return std::atomic_ref<uint8_t>(*reinterpret_cast<uint8_t*>(&guard));
}

}  // namespace

bool StaticsLock::try_lock() noexcept { return g_statics.try_lock(); }
void StaticsLock::unlock() noexcept { g_statics.unlock(); }
void StaticsLock::renew() noexcept { new (&g_statics) std::recursive_mutex; }

}  // namespace kina

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are those of the ABI.
extern "C" {

// 1: the caller makes the static and calls one of the others.
int __cxa_guard_acquire(uint64_t* guard) {
  kina::g_statics.lock();
  if (kina::is_made(*guard).load(std::memory_order_acquire) == 0) return 1;
  kina::g_statics.unlock();
  return 0;
}

void __cxa_guard_release(uint64_t* guard) {
  kina::is_made(*guard).store(1, std::memory_order_release);
  kina::g_statics.unlock();
}

void __cxa_guard_abort(uint64_t*) { kina::g_statics.unlock(); }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
