// What the two raw block functions do where their blocks are at hand, but not at once.
#include "impl/memory/raw_blocks.h"

#include "impl/core/device.h"

namespace kina {
namespace {

using CacheLock = std::lock_guard<OwnersLock>;

// Locks a cache that has magazines under these names, and makes them the current ones.
bool turn(PoolCache& cache, uint64_t resource, uint64_t stream, const ThreadBlock& thread) noexcept {
  if (cache.pool_name != resource) return false;
  cache.lock.lock();
  for (StreamCache* known = cache.is_open ? cache.streams : nullptr; known != nullptr; known = known->next) {
    if (!known->names.are(resource, stream, thread)) continue;
    cache.names = known->names;
    cache.use(known);
    return true;
  }
  cache.lock.unlock();
  return false;
}

// The cache of a pool and a stream that the thread used before, locked. Most often it is the newest one.
[[gnu::noinline]] PoolCache* turn_to(uint64_t resource, uint64_t stream) noexcept {
  auto* thread = static_cast<ThreadBlock*>(t_cache);
  if (thread == nullptr || resource == 0) return nullptr;
  PoolCache* newest = thread->newest_pool_cache;
  if (newest != nullptr && turn(*newest, resource, stream, *thread)) return newest;
  for (PoolCache* cache = first_cache(*thread); cache != nullptr; cache = cache->next_of_thread)
    if (cache != newest && turn(*cache, resource, stream, *thread)) return thread->newest_pool_cache = cache;
  return nullptr;
}

// A request for no bytes, or one during which a callback asked for more, leaves the magazines of another stream.
bool is_at_hand_for(const PoolCache& cache, const Stream& place) noexcept {
  return cache.current != nullptr && (!cache.is_ordered || cache.current->lane.stream() == &place);
}

// Of the resource right above the pool of the newest cache that the thread calls through.
bool is_name_of_logging(uint64_t resource) noexcept {
  const auto* thread = static_cast<const ThreadBlock*>(t_cache);
  const PoolCache* newest = thread == nullptr ? nullptr : thread->newest_pool_cache;
  return newest != nullptr && newest->logged.names.resource == resource;
}

bool is_plain(uint64_t bytes, uint64_t alignment) noexcept { return bytes != 0 && (alignment & (alignment - 1)) == 0; }

}  // namespace

// Too large for a magazine, of another pool or stream than the newest, through a logging resource, or with a visitor in
// the way.
void* take_near(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = newest_cache(resource, stream);
  if (cache != nullptr) {
    cache->lock.lock();
  } else {
    if (is_name_of_logging(resource)) return take_logged(resource, bytes, alignment, stream);
    cache = turn_to(resource, stream);
    if (cache == nullptr) return nullptr;
  }
  const CacheLock lock(cache->lock, std::adopt_lock);
  const bool is_usual = cache->is_open && is_plain(bytes, alignment);
  return is_usual ? cache->pool->take_at_hand(*cache, bytes, alignment) : nullptr;
}

bool give_near(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = newest_cache(resource, stream);
  if (cache != nullptr) {
    cache->lock.lock();
  } else {
    if (is_name_of_logging(resource)) return give_logged(resource, data, bytes, alignment, stream);
    cache = turn_to(resource, stream);
    if (cache == nullptr) return false;
  }
  const CacheLock lock(cache->lock, std::adopt_lock);
  const bool is_usual = cache->is_open && is_plain(bytes, alignment) && data != nullptr;
  return is_usual && cache->pool->give_at_hand(*cache, data, bytes, alignment);
}

void keep_and_leave(PoolCache& cache, Block& block, uint64_t bytes, uint32_t taker) noexcept {
  const CacheLock lock(cache.lock, std::adopt_lock);
  cache.give(block, cache.sizes.class_of(bytes), taker, bytes);
}

void fold_and_leave(PoolCache& cache) noexcept {
  const CacheLock lock(cache.lock, std::adopt_lock);
  cache.pool->fold_bytes(cache);
}

void learn_names(Resource& source, uint64_t resource, uint64_t stream, const Stream& place) noexcept {
  const ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  if (cache == nullptr || cache->owner != thread) return;
  LoggingResource* logging = source.as_logging();
  const Resource* pool = logging == nullptr ? &source : source.upstream();
  std::unique_lock lock(cache->lock);
  if (!cache->is_open || cache->pool != pool || !is_at_hand_for(*cache, place)) return;
  CallNames learnt{resource,
                   stream,
                   resources().place_of(resource),
                   stream == 0 ? nullptr : streams().place_of(stream),
                   &place.device(),
                   stream == 0 ? thread->scopes.bound_stream(place.device()) : nullptr};
  if (learnt.resource_place == nullptr || (stream != 0 && learnt.stream_place == nullptr))
    learnt = {};  // another thread ended the name meanwhile
  if (logging == nullptr) {
    cache->names = cache->current->names = learnt;
    cache->pool_name = learnt.resource;
  } else {
    lock.unlock();
    learn_logged(*cache, *logging, learnt, place);
  }
}

}  // namespace kina
