// The fast ways of the two raw block functions: for a thread that used this pool and stream before, and nothing
// unusual.
#pragma once

#include "impl/memory/pool.h"

namespace kina {

// What the newest cache does not serve at once. NULL or false: the ordinary way decides, with nothing changed.
void* take_near(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept;
bool give_near(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept;
// The same through a logging resource right above the pool, which is told of each block.
void* take_logged(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept;
bool give_logged(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept;
// From here on those two serve the calling thread, which owns `cache`, under these names.
void learn_logged(PoolCache& cache, LoggingResource& logging, const CallNames& names, const Stream& place) noexcept;
// The ordinary way has served the calling thread under these names; `stream` stands for `place`.
void learn_names(Resource& source, uint64_t resource, uint64_t stream, const Stream& place) noexcept;

// How the functions below end where it takes longer. The cache, the calling thread's newest one, is locked.
bool give_remote(Block& block, uint64_t bytes) noexcept;  // false, with nothing changed: `give_near` is next
void keep_and_leave(PoolCache& cache, Block& block, uint64_t bytes) noexcept;
void fold_and_leave(PoolCache& cache) noexcept;

inline PoolCache* newest_cache(uint64_t resource, uint64_t stream) noexcept {
  const auto* thread = static_cast<const ThreadBlock*>(t_cache);
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  return cache != nullptr && cache->names.are(resource, stream, *thread) ? cache : nullptr;
}

// These two are in place where they are called, and call others last of all: they have little to keep meanwhile. False,
// with nothing changed: `take_near` is next.
[[gnu::always_inline]] inline bool take_at_once(void** out, uint64_t resource, uint64_t bytes, uint64_t alignment,
                                                uint64_t stream) noexcept {
  PoolCache* cache = newest_cache(resource, stream);
  if (cache == nullptr || out == nullptr || !cache->lock.try_lock()) [[unlikely]]
    return false;
  Block* block = nullptr;
  if (cache->has_magazines(bytes, alignment)) [[likely]]
    block = cache->current->magazines[cache->sizes.class_of(bytes)].pop();
  if (block == nullptr) [[unlikely]] {
    cache->lock.unlock();
    return false;
  }
  cache->newest = block;
  block->take_as(cache->raw_word | bytes);
  *out = block->address();
  if (cache->counters.taken(bytes)) [[unlikely]] {
    fold_and_leave(*cache);
    return true;
  }
  cache->lock.unlock();
  return true;
}

// Where a block went that came back; `nowhere`: `give_near` is next; `remote`: another cache gave it out, or it cannot
// be given back like this, and `give_remote` finds out with the lock that is still held.
enum class Given : uint8_t { nowhere, here, remote };

[[gnu::always_inline]] inline Given give_at_once(Block*& block, uint64_t resource, void* data, uint64_t bytes,
                                                 uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = newest_cache(resource, stream);
  if (cache == nullptr || !cache->lock.try_lock()) [[unlikely]]
    return Given::nowhere;
  const bool is_small = cache->has_magazines(bytes, alignment);
  const uint32_t size_class = is_small ? cache->sizes.class_of(bytes) : 0;
  block = is_small ? cache->find(data, size_class) : nullptr;
  if (block == nullptr) [[unlikely]] {
    cache->lock.unlock();
    return Given::nowhere;
  }
  if (!block->give_as(cache->raw_word | bytes)) [[unlikely]]
    return Given::remote;
  if (!cache->current->magazines[size_class].push(*block)) [[unlikely]] {
    keep_and_leave(*cache, *block, bytes);
    return Given::here;
  }
  if (cache->counters.given(bytes)) [[unlikely]] {
    fold_and_leave(*cache);
    return Given::here;
  }
  cache->lock.unlock();
  return Given::here;
}

}  // namespace kina
