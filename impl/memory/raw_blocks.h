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
void keep_and_leave(PoolCache& cache, Block& block, uint64_t bytes, uint32_t taker) noexcept;
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

[[gnu::always_inline]] inline bool give_at_once(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment,
                                                uint64_t stream) noexcept {
  PoolCache* cache = newest_cache(resource, stream);
  if (cache == nullptr || !cache->lock.try_lock()) [[unlikely]]
    return false;
  const bool is_small = cache->has_magazines(bytes, alignment);
  const uint32_t size_class = is_small ? cache->sizes.class_of(bytes) : 0;
  Block* block = is_small ? cache->find(data, size_class) : nullptr;
  const uint64_t wanted = cache->raw_word | bytes;
  uint64_t seen = 0;
  if (block == nullptr || !block->give_as(wanted, seen)) [[unlikely]] {
    cache->lock.unlock();
    return false;
  }
  const bool is_foreign = seen != wanted;
  // What lay behind it in the other cache was most likely taken next there, and comes back next.
  if (is_foreign && block->next != nullptr) ask_to_write(block->next);
  if (!cache->current->magazines[size_class].keep(*block, is_foreign)) [[unlikely]] {
    keep_and_leave(*cache, *block, bytes, Block::cache_of(seen));
    return true;
  }
  if (cache->counters.given(bytes)) [[unlikely]] {
    fold_and_leave(*cache);
    return true;
  }
  cache->lock.unlock();
  return true;
}

}  // namespace kina
