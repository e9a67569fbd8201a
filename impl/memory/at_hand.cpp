// Blocks of storages that go out of the calling thread's cache and come back to it without a look at their pool.
#include "impl/core/device.h"
#include "impl/core/storage.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

PoolCache* newest_cache() noexcept {
  return t_cache == nullptr ? nullptr : static_cast<ThreadBlock*>(t_cache)->newest_pool_cache;
}

// An address alone: the pool is there if it is that of an open cache whose lock is held.
const Resource* in_force(const ThreadBlock& thread, const Device& device) noexcept {
  const Resource* bound = thread.scopes.bound_resource(device);
  return bound != nullptr ? bound : device.default_in_force.load(std::memory_order_acquire);
}

}  // namespace

// Work on the device may be under way in other pools' blocks: there the ordinary way decides.
BlockAtHand take_at_hand(uint64_t bytes, const Stream& stream) noexcept {
  PoolCache* cache = newest_cache();
  if (cache == nullptr || stream.is_announced()) return {};
  const Resource* wanted = in_force(static_cast<const ThreadBlock&>(*t_cache), stream.device());
  const std::lock_guard lock(cache->lock);
  if (cache->pool != wanted || !cache->has_magazines(bytes, kStorageAlignment)) return {};
  Block* block = cache->take(bytes, BlockUse::internal);
  if (block == nullptr) [[unlikely]]
    return {};
  return {cache->pool, block->address()};
}

bool give_at_hand(void* data, uint64_t bytes) noexcept {
  PoolCache* cache = newest_cache();
  if (cache == nullptr) return false;
  const std::lock_guard lock(cache->lock);
  if (!cache->has_magazines(bytes, kStorageAlignment)) return false;
  const uint32_t size_class = cache->sizes.class_of(bytes);
  Block* block = cache->find(data, size_class);
  uint32_t taker = 0;
  if (block == nullptr || !block->give_own({bytes, 0, BlockUse::internal}, taker)) return false;
  cache->give(*block, size_class, taker, bytes);
  return true;
}

}  // namespace kina
