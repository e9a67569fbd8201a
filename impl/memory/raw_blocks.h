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
// The ordinary way has served the calling thread under these names; `stream` stands for `place`.
void learn_names(Resource& source, uint64_t resource, uint64_t stream, const Stream& place) noexcept;

// How the functions below end where it takes longer. The cache is locked.
void keep_and_leave(PoolCache& cache, Block& block, uint32_t size_class, uint32_t taker, uint64_t bytes) noexcept;
void fold_and_leave(PoolCache& cache) noexcept;

inline PoolCache* newest_cache(uint64_t resource, uint64_t stream) noexcept {
  const auto* thread = static_cast<const ThreadBlock*>(t_cache);
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  return cache != nullptr && cache->names.are(resource, stream, *thread) ? cache : nullptr;
}

// In place where they are called, and with nothing to keep for what comes after a call: the entry points need no frame.
// False, with nothing changed: the functions above are next.
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
  block->take({bytes, 0, BlockUse::raw}, Stamp::kNothing, cache->number);
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
  Block* block = nullptr;
  uint32_t size_class = 0;
  uint32_t taker = 0;
  if (cache->has_magazines(bytes, alignment)) [[likely]] {
    size_class = cache->sizes.class_of(bytes);
    block = cache->find(data, size_class);
  }
  if (block == nullptr || !block->give_small(bytes, BlockUse::raw, taker)) [[unlikely]] {
    cache->lock.unlock();
    return false;
  }
  if (!cache->current->magazines[size_class].keep(*block, taker != cache->number)) [[unlikely]] {
    keep_and_leave(*cache, *block, size_class, taker, bytes);
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
