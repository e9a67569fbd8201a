// The fast ways of the two raw block functions through a logging resource right above a pool of the host.
#include <algorithm>
#include <mutex>

#include "impl/memory/logging.h"
#include "impl/memory/raw_blocks.h"

namespace kina {
namespace {

using CacheLock = std::lock_guard<OwnersLock>;

// The calling thread's cache under these names, and the logging resource for the length of the call.
struct Logged {
  PoolCache* cache = nullptr;
  Lease<LoggingResource> resource;
};

Logged look_up_logged(uint64_t resource, uint64_t stream) noexcept {
  ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  if (cache == nullptr || !cache->logged_names.are(resource, stream, *thread)) return {};
  const auto find = [&]() -> LoggingResource* {
    return cache->logged_names.resource_place->load(std::memory_order_acquire) == resource ? cache->logging : nullptr;
  };
  return {cache, lease<LoggingResource>(&thread->leases, find, [] { return Ref<LoggingResource>(); })};
}

}  // namespace

void* take_logged(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  const Logged logged = look_up_logged(resource, stream);
  if (!logged.resource || !logged.resource->try_retain()) return nullptr;
  PoolCache& cache = *logged.cache;
  void* data = nullptr;
  {
    const CacheLock lock(cache.lock);
    Block* block =
        cache.has_magazines(bytes, alignment) ? cache.take(bytes, logged.resource->use_of_callers()) : nullptr;
    if (block != nullptr) data = block->address();
  }
  if (data == nullptr) {
    logged.resource->release();
    return nullptr;
  }
  logged.resource->tell_taken(data, {bytes, logged.resource->alignment(), BlockUse::raw}, *cache.logged_stream);
  return data;
}

bool give_logged(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  const Logged logged = look_up_logged(resource, stream);
  if (!logged.resource) return false;
  PoolCache& cache = *logged.cache;
  {
    const CacheLock lock(cache.lock);
    if (!cache.has_magazines(bytes, alignment)) return false;
    const uint32_t size_class = cache.sizes.class_of(bytes);
    Block* block = cache.find(data, size_class);
    const Request request{bytes, 0, logged.resource->use_of_callers()};
    uint32_t taker = 0;
    if (block == nullptr || block->give(request, taker) != Return::done) return false;
    // While nobody else can be given the block.
    logged.resource->tell_given(data, {bytes, logged.resource->alignment(), BlockUse::raw}, *cache.logged_stream);
    cache.give(*block, size_class, taker, bytes);
  }
  logged.resource->release();  // what the block kept
  return true;
}

}  // namespace kina
