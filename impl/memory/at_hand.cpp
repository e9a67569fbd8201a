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
  if (!cache->is_open || cache->pool != wanted || cache->is_ordered || cache->current == nullptr) return {};
  if (!cache->sizes.serves(bytes) || kStorageAlignment > cache->sizes.granule()) return {};
  Block* block = cache->current->magazines[cache->sizes.class_of(bytes)].pop();
  if (block == nullptr) [[unlikely]]
    return {};
  block->take({bytes, 0, BlockUse::internal}, Stamp::kNothing, cache->number);
  cache->counters.taken(bytes, true);
  if (cache->counters.is_full()) [[unlikely]]
    cache->pool->fold_bytes(*cache);
  return {cache->pool, block->address()};
}

bool give_at_hand(void* data, uint64_t bytes) noexcept {
  PoolCache* cache = newest_cache();
  Slab* slab = cache == nullptr ? nullptr : Slab::find(data);
  if (slab == nullptr) return false;
  const std::lock_guard lock(cache->lock);
  if (!cache->is_open || slab->pool() != cache->serial || cache->is_ordered || cache->current == nullptr) return false;
  Block* block = slab->block_at(data);
  uint32_t taker = 0;
  if (block == nullptr || !block->give_own({bytes, 0, BlockUse::internal}, taker)) return false;
  if (!cache->current->magazines[slab->size_class()].keep(*block, taker != cache->number)) [[unlikely]]
    cache->pool->keep(*cache->current, *block, slab->size_class(), taker);
  cache->counters.given(bytes);
  if (cache->counters.is_full()) [[unlikely]]
    cache->pool->fold_bytes(*cache);
  return true;
}

}  // namespace kina
