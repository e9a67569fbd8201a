// Delivery of log messages, and the change of their listener.
#include "impl/core/log.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

#include "impl/core/callback.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

// Threads inside a callback are counted in one of two rooms; a change of listener opens the other one and waits until
// the old one is empty, while calls of the new listener go on.
struct Listener {
  std::mutex changes;  // one change at a time
  std::mutex mutex;
  std::condition_variable left;
  KinaLogCallback callback = nullptr;
  void* context = nullptr;
  size_t room = 0;
  std::array<uint64_t, 2> inside{};
};

std::atomic<KinaLogLevel> heard_level{KINA_LOG_OFF};

alignas(Listener) unsigned char listener_bytes[sizeof(Listener)];

// The locks may be held by threads that the child does not have: it starts with fresh ones, and without a callback.
void start_afresh() noexcept {
  new (listener_bytes) Listener;
  heard_level.store(KINA_LOG_OFF, std::memory_order_relaxed);
}

// Never destroyed: threads that outlive main still log.
Listener& listener() noexcept {
  static Listener* const made = [] {
    auto* first = new (listener_bytes) Listener;
    pthread_atfork(nullptr, nullptr, start_afresh);
    return first;
  }();
  return *made;
}

}  // namespace

void log_message(KinaLogLevel level, const char* text) noexcept {
  if (level > heard_level.load(std::memory_order_relaxed)) [[likely]]
    return;
  ThreadBlock* block = thread_block();
  if (block == nullptr || block->is_logging) return;
  Listener& to = listener();
  std::unique_lock lock(to.mutex);
  const KinaLogCallback callback = to.callback;
  void* const context = to.context;
  if (callback == nullptr || level > heard_level.load(std::memory_order_relaxed)) return;
  const size_t room = to.room;
  ++to.inside[room];
  lock.unlock();
  {
    const CallbackGuard guard;
    block->is_logging = true;
    callback(context, level, text);
    block->is_logging = false;
  }
  lock.lock();
  if (to.inside[room] == 0) return;  // the callback forked: this is the child, which counts afresh
  if (--to.inside[room] == 0) to.left.notify_all();
}

void log_failure(const char* function, const Error& error) noexcept {
  if (heard_level.load(std::memory_order_relaxed) < KINA_LOG_DEBUG) [[likely]]
    return;
  const StatusRow* row = find_status(error.status);
  const Part parts[] = {function, row == nullptr ? "UNKNOWN" : row->name, error.text,
                        error.clause == nullptr ? "" : error.clause};
  char text[kMessageBytes + 128];
  format(text, sizeof(text), "{}: {}: {} [{}]", parts, std::size(parts));
  log_message(KINA_LOG_DEBUG, text);
}

void listen(KinaLogCallback callback, void* context, KinaLogLevel level) noexcept {
  Listener& to = listener();
  const std::lock_guard change(to.changes);
  std::unique_lock lock(to.mutex);
  const size_t old_room = to.room;
  to.room = 1 - old_room;
  to.callback = callback;
  to.context = context;
  heard_level.store(callback == nullptr ? KINA_LOG_OFF : level, std::memory_order_relaxed);
  to.left.wait(lock, [&] { return to.inside[old_room] == 0; });
}

bool is_logging() noexcept {
  const ThreadBlock* block = thread_block();
  return block != nullptr && block->is_logging;
}

}  // namespace kina
