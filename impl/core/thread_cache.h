// What the library keeps for one thread so that its hot calls neither lock nor count in shared places.
#pragma once

#include "impl/core/block_cache.h"
#include "impl/core/handle.h"
#include "impl/core/lease.h"
#include "impl/core/maker.h"

namespace kina {

// Numbers for the storages that the thread makes next: last + 1 … end.
struct StorageIds {
  uint64_t last = 0;
  uint64_t end = 0;
};

// No line of the cache has anything of another thread in it.
struct alignas(64) ThreadCache {
  LeaseRow leases;
  Maker maker;
  SlotCache tensor_slots{&maker};
  BlockCache blocks;
  StorageIds storage_ids;
};

// The calling thread's, once thread_block() has made it; NULL before, and while the thread ends.
#if defined(__ELF__)
extern constinit thread_local ThreadCache* t_cache __attribute__((tls_model("initial-exec")));
#else
extern constinit thread_local ThreadCache* t_cache;
#endif

// The calling thread as a maker of objects; NULL where it has no cache.
inline Maker* own_maker() noexcept { return t_cache == nullptr ? nullptr : &t_cache->maker; }

// A block of the calling thread's cache, or a new one. Throws bad_alloc. `own` is the cache where the caller has looked
// at it already.
inline void* take_block(size_t bytes, ThreadCache* own = t_cache) {
  if constexpr (kKeepsBlocks) {
    bytes = BlockCache::rounded(bytes);
    if (own != nullptr && bytes <= BlockCache::kLargest) [[likely]]
      if (void* kept = own->blocks.take(bytes)) [[likely]]
        return kept;
  }
  return ::operator new(bytes);
}

// The same number of bytes as it was taken for.
inline void give_block(void* block, size_t bytes, ThreadCache* own = t_cache) noexcept {
  if constexpr (kKeepsBlocks) {
    bytes = BlockCache::rounded(bytes);
    if (own != nullptr && bytes <= BlockCache::kLargest && own->blocks.keep(block, bytes)) [[likely]]
      return;
  }
  ::operator delete(block);
}

}  // namespace kina
