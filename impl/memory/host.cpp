// Plain host memory, and the resource in force.
#include "impl/memory/host.h"

#include "impl/core/device.h"
#include "impl/core/thread.h"

namespace kina {

void* BaseResource::do_allocate(uint64_t bytes, uint64_t alignment, Stream&) {
  void* data = device().backend().allocate(device().id(), bytes, alignment);
  if (data == nullptr) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    refuse_out_of_memory(bytes);
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  live_blocks_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t live = live_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < live && !peak_bytes_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
  return data;
}

void BaseResource::do_deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream&) noexcept {
  device().backend().deallocate(device().id(), data, bytes, alignment);
  deallocations_.fetch_add(1, std::memory_order_relaxed);
  live_blocks_.fetch_sub(1, std::memory_order_relaxed);
  live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void BaseResource::describe(KinaResourceInfo& info) const {
  info.alignment = kStorageAlignment;
  info.live_bytes = live_bytes_.load(std::memory_order_relaxed);
  info.peak_bytes = peak_bytes_.load(std::memory_order_relaxed);
  info.live_blocks = live_blocks_.load(std::memory_order_relaxed);
  info.reserved_bytes = info.live_bytes;
  info.allocations = allocations_.load(std::memory_order_relaxed);
  info.deallocations = deallocations_.load(std::memory_order_relaxed);
  info.failures = failures_.load(std::memory_order_relaxed);
  info.upstream_calls = info.allocations + info.deallocations;
}

Ref<Resource> current_resource(Device& device) {
  const ThreadBlock* block = thread_block();
  if (Resource* bound = block == nullptr ? nullptr : block->scopes.bound_resource(device))
    return Ref<Resource>::share(bound);
  const std::lock_guard lock(device.mutex);
  if (!device.default_resource) {
    Ref<Resource> made = make_counted<BaseResource>(device);
    made->handle = resources().insert(made.get());
    device.default_resource = std::move(made);
  }
  return device.default_resource;
}

}  // namespace kina
