// The compiler's calls around the making of a static, as the C++ ABI names them, with a lock that forks know.
#include "impl/core/statics.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace kina {
namespace {

// Recursive, because the making of one static makes others. A child of fork can unlock it, which std::recursive_mutex
// does not promise: its owner is known by an id that the child keeps.
struct Recursive {
  std::mutex mutex;
  std::atomic<pthread_t> owner{};
  int depth = 0;  // the owner's

  bool is_mine() const noexcept { return owner.load(std::memory_order_relaxed) == pthread_self(); }
  void enter() noexcept {
    owner.store(pthread_self(), std::memory_order_relaxed);
    ++depth;
  }
};

// Ready before any code of the library runs, and there for threads that outlive main.
union Undying {
  constexpr Undying() : lock{} {}
  ~Undying() {}  // NOLINT(modernize-use-equals-default): some platforms destroy mutexes
  Recursive lock;
};
constinit Undying g_statics;

// The first byte of a guard says whether its static is made; the rest stays unused.
bool is_made(const uint64_t* guard) noexcept {
  return __atomic_load_n(reinterpret_cast<const uint8_t*>(guard), __ATOMIC_ACQUIRE) != 0;
}

}  // namespace

void StaticsLock::lock() noexcept {
  Recursive& all = g_statics.lock;
  if (!all.is_mine()) all.mutex.lock();
  all.enter();
}

bool StaticsLock::try_lock() noexcept {
  Recursive& all = g_statics.lock;
  if (!all.is_mine() && !all.mutex.try_lock()) return false;
  all.enter();
  return true;
}

void StaticsLock::unlock() noexcept {
  Recursive& all = g_statics.lock;
  if (--all.depth > 0) return;
  all.owner.store(pthread_t{}, std::memory_order_relaxed);
  all.mutex.unlock();
}

}  // namespace kina

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are those of the ABI.
extern "C" {

// 1: the caller makes the static and calls one of the others.
int __cxa_guard_acquire(uint64_t* guard) {
  kina::StaticsLock::lock();
  if (!kina::is_made(guard)) return 1;
  kina::StaticsLock::unlock();
  return 0;
}

void __cxa_guard_release(uint64_t* guard) {
  __atomic_store_n(reinterpret_cast<uint8_t*>(guard), uint8_t{1}, __ATOMIC_RELEASE);
  kina::StaticsLock::unlock();
}

void __cxa_guard_abort(uint64_t*) { kina::StaticsLock::unlock(); }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
