// Streams as objects: their table, their end, and what they were announced to capture with.
#include "impl/core/lease.h"
#include "impl/core/scope.h"
#include "impl/core/stream.h"

namespace kina {

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

// A scope that binds it has said so before the fence, or waits for the device's mutex after it.
Stream::Ending Stream::end() noexcept {
  if (name_.load(std::memory_order_relaxed) == Name::ended) return Ending::had_ended;
  name_.store(Name::ending, std::memory_order_seq_cst);
  fence_all_threads_surely();
  const bool is_in_use = is_bound(*this);
  name_.store(is_in_use ? Name::live : Name::ended, std::memory_order_release);
  return is_in_use ? Ending::is_bound : Ending::ended;
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
