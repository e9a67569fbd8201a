// The handle table of streams, and the words for kinds of handles.
#include "impl/core/stream.h"

namespace kina {

const char* word_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::tensor: return "tensor";
    case Kind::stream: return "stream";
    case Kind::scope: return "scope";
    case Kind::resource: return "resource";
    case Kind::weak: return "weak reference";
    case Kind::peer: return "peer";
  }
  return "object";
}

Stream::Stream(Device& device, NativeStream native, StreamOrigin origin)
    : Counted(Life::lasting), device_(device), native_(native), origin_(origin) {
  static std::atomic<uint64_t> last{0};
  serial_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
  timeline.has_ended.store(origin == StreamOrigin::imported, std::memory_order_relaxed);  // until it stands for one
  static std::atomic<Stream*> newest{nullptr};
  older_ = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(older_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

HandleTable<Stream>& streams() {
  static auto& table = *new HandleTable<Stream>(Kind::stream);
  return table;
}

bool Stream::bind_if_open() noexcept {
  int64_t seen = bindings_.load(std::memory_order_relaxed);
  do {
    if (seen == kEnded) return false;
  } while (!bindings_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

Stream::Ending Stream::end() noexcept {
  int64_t seen = 0;
  if (bindings_.compare_exchange_strong(seen, kEnded, std::memory_order_acq_rel)) return Ending::ended;
  return seen == kEnded ? Ending::had_ended : Ending::is_bound;
}

void Stream::stand_for(NativeStream native) noexcept {
  const std::lock_guard lock(timeline.mutex);
  native_.store(native, std::memory_order_relaxed);
  timeline.known = {};
  timeline.has_ended.store(false, std::memory_order_release);
}

void Stream::announce(uint64_t scope, Resource& resource) {
  const std::lock_guard lock(timeline.mutex);
  announcements_.push_back({scope, &resource});
  is_announced_.store(true, std::memory_order_release);
}

void Stream::withdraw(uint64_t scope) noexcept {
  const std::lock_guard lock(timeline.mutex);
  std::erase_if(announcements_, [&](const Announcement& made) { return made.scope == scope; });
  is_announced_.store(!announcements_.empty(), std::memory_order_release);
}

Ref<Resource> Stream::announced_resource() const noexcept {
  if (!is_announced()) [[likely]]
    return nullptr;
  const std::lock_guard lock(timeline.mutex);
  return announcements_.empty() ? nullptr : Ref<Resource>::share(announcements_.back().resource);
}

}  // namespace kina
