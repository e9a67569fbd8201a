// What one thread keeps of one pool: blocks at hand for each stream that it uses, and what it has counted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "impl/core/lease.h"
#include "impl/core/resident_mutex.h"
#include "impl/core/thread.h"
#include "impl/memory/lane.h"
#include "impl/memory/slab.h"
#include "impl/memory/ticks.h"

namespace kina {

class PoolResource;

// Guards which caches belong to which pool, which logging resource each is told of, and whether a pool that nobody
// refers to any more still has live blocks.
Mutex& caches_mutex() noexcept;

// A lock that its owner, one thread, takes by two plain stores. Who visits says so, fences all threads unless the owner
// cannot be on its way in, and waits until it is out. Visitors come one at a time, for a trim, an exhausted pool or its
// end. No fork waits for it: a child leaves alone what another thread held.
class OwnersLock {
 public:
  void lock() noexcept {
    is_held_.store(true, std::memory_order_relaxed);
    fence_lease();
    if (has_visitor_.load(std::memory_order_acquire)) [[unlikely]]
      give_way();
  }
  // False where a visitor is near.
  bool try_lock() noexcept {
    is_held_.store(true, std::memory_order_relaxed);
    fence_lease();
    if (!has_visitor_.load(std::memory_order_acquire)) [[likely]]
      return true;
    unlock();
    return false;
  }
  void unlock() noexcept { is_held_.store(false, std::memory_order_release); }

  void announce_visit() noexcept { has_visitor_.store(true, std::memory_order_relaxed); }
  bool is_held() const noexcept { return is_held_.load(std::memory_order_acquire); }
  void await_owner() const noexcept;
  void leave() noexcept { has_visitor_.store(false, std::memory_order_release); }

 private:
  void give_way() noexcept;
  std::atomic<bool> is_held_{false};
  std::atomic<bool> has_visitor_{false};
};

// Two stacks of blocks of one size: where the first is empty or full, the other one takes its place, and only where
// that is so as well a batch moves from or to the lane. Blocks from other threads' caches lie beside these and go on by
// themselves: a record shares its line with the next ones, which the thread that took it is likely to have.
struct Magazine {
  Block* loaded = nullptr;
  Block* spare = nullptr;
  Block* foreign = nullptr;
  uint16_t count = 0;
  uint16_t spare_count = 0;
  uint16_t foreign_count = 0;
  uint16_t limit = 0;

  Block* pop() noexcept {
    if (loaded == nullptr) {
      if (spare == nullptr) return nullptr;
      std::swap(loaded, spare);
      std::swap(count, spare_count);
    }
    --count;
    return std::exchange(loaded, loaded->next);
  }
  // False where both are full.
  bool push(Block& block) noexcept {
    if (count == limit) {
      if (spare != nullptr) return false;
      std::swap(loaded, spare);
      std::swap(count, spare_count);
    }
    block.next = std::exchange(loaded, &block);
    ++count;
    return true;
  }
  bool push_foreign(Block& block) noexcept {
    if (foreign_count == limit) return false;
    block.next = std::exchange(foreign, &block);
    ++foreign_count;
    return true;
  }
  bool keep(Block& block, bool is_foreign) noexcept { return is_foreign ? push_foreign(block) : push(block); }
};

// What callers called a pool and a stream when they were last looked up.
struct CallNames {
  uint64_t resource = 0, stream = 0;
  const std::atomic<uint64_t>* resource_place = nullptr;
  const std::atomic<uint64_t>* stream_place = nullptr;  // NULL: no stream was named
  const Device* device = nullptr;
  const Stream* bound = nullptr;  // by a scope, where no stream was named

  // Whether they still name the same.
  bool are(uint64_t source, uint64_t ordered, const ThreadBlock& thread) const noexcept {
    if (resource != source || stream != ordered || source == 0) return false;
    if (resource_place->load(std::memory_order_acquire) != source) return false;
    if (stream_place == nullptr) return thread.scopes.bound_stream(*device) == bound;
    return stream_place->load(std::memory_order_acquire) == ordered;
  }
};

// The magazines of one thread for one lane.
struct alignas(128) StreamCache {
  StreamCache(Lane& of, uint32_t cache, const SizeClasses& sizes) noexcept : lane(of), number(cache) {
    for (uint32_t i = 0; i < SizeClasses::kCount; ++i) magazines[i].limit = static_cast<uint16_t>(sizes.batch_of(i));
  }

  Lane& lane;
  const uint32_t number;  // of the cache that it belongs to
  StreamCache* next = nullptr;
  CallNames names;
  std::array<Magazine, SizeClasses::kCount> magazines;
};

// Counted by one thread, read by all.
class CacheCounters {
 public:
  // Both say whether so much has been counted here that it has to be added to what all see: the bound of
  // KINA-RESOURCE-30, which no peak lies above for longer.
  [[nodiscard]] bool taken(uint64_t bytes) noexcept {
    add(allocations, 1);
    const auto live = static_cast<int64_t>(add(live_bytes, bytes));
    if (live <= high_bytes.load(std::memory_order_relaxed)) [[likely]]
      return false;
    high_bytes.store(live, std::memory_order_relaxed);
    return live > kBound;
  }
  [[nodiscard]] bool given(uint64_t bytes) noexcept {
    add(deallocations, 1);
    return static_cast<int64_t>(add(live_bytes, uint64_t{0} - bytes)) < -kBound;
  }
  void missed() noexcept { add(misses, 1); }

  // Moves all but the bytes and their peak to what all see.
  void fold_calls(ResourceCounters& to) noexcept;
  // Adds everything to a report of what all see so far; `peak` is of bytes that were live at once.
  void add_to(KinaResourceInfo& info, int64_t& peak) const noexcept;

  std::atomic<uint64_t> live_bytes{0};  // changes since the last fold; below zero where others allocated
  std::atomic<int64_t> high_bytes{0};
  std::atomic<uint64_t> allocations{0}, deallocations{0};
  std::atomic<uint64_t> misses{0};   // allocations that were no hits
  std::atomic<uint64_t> streams{0};  // that have magazines here

 private:
  static constexpr int64_t kBound = 1 << 20;
  static uint64_t add(std::atomic<uint64_t>& counter, uint64_t value) noexcept {
    const uint64_t sum = counter.load(std::memory_order_relaxed) + value;
    counter.store(sum, std::memory_order_relaxed);
    return sum;
  }
};

// What its thread takes and gives through a logging resource right above the pool.
struct LoggedCalls {
  LoggingResource* resource = nullptr;  // there at least until it is taken away here; guarded by the cache's lock
  CacheCounters counters;               // of this resource
  CallNames names;                      // what the thread called it, and the stream
  const Stream* stream = nullptr;
  uint64_t thread = 0;  // as rows have it
  RowClock<SystemClocks> clock;
};

// Belongs to its thread, which may look at it when the pool is gone. All but names and the serial is guarded by `lock`;
// it opens and closes under the lock of all caches as well.
class alignas(128) PoolCache {
 public:
  PoolCache(const ThreadBlock* thread, uint32_t of_all) noexcept
      : number(of_all), raw_word(Block::word_of({0, 0, BlockUse::raw}, Stamp::kNothing, of_all)), owner(thread) {}
  PoolCache(const PoolCache&) = delete;
  PoolCache& operator=(const PoolCache&) = delete;
  ~PoolCache();

  // Whether such blocks lie in the magazines of `current`, whichever stream asks.
  bool has_magazines(uint64_t bytes, uint64_t alignment) const noexcept {
    return bytes - 1 < small_bytes && (alignment & (alignment - 1)) == 0 && sizes.are_aligned(alignment);
  }
  // The record of the block of the pool at `data`, of that class unless it is the newest one; NULL where none starts
  // there.
  Block* find(const void* data, uint32_t size_class) const noexcept {
    if (!Block::may_start_at(data)) return nullptr;
    if (newest->is_of(data, tag)) return newest;  // what was taken last is often given back first
    Block* block = Slab::find_record(data, size_class, sizes);
    if (block == nullptr) return nullptr;
    ask_to_write(block);
    return block->is_of(data, tag) ? block : nullptr;
  }

  OwnersLock lock;
  bool is_open = false;     // closed: `pool` may be gone
  bool is_ordered = false;  // what follows is the pool's
  const uint32_t number;  // 1 to Block::kCacheMask; caches that have the same one take each other's blocks for own ones
  const uint64_t raw_word;    // of a raw block from here, less the bytes
  uint64_t small_bytes = 0;   // what is served from `current` at once; 0 where it is not so simple
  Block* newest = &no_block;  // that was taken at hand
  uint64_t tag = 0;
  StreamCache* current = nullptr;  // of the stream that it was used for last
  SizeClasses sizes{kStorageAlignment};
  PoolResource* pool = nullptr;
  uint64_t serial = 0;  // of the pool that it was opened for last
  CacheCounters counters;
  void use(StreamCache* chosen) noexcept {
    current = chosen;
    const bool is_simple = chosen != nullptr && is_open && !is_ordered && tag != 0 && sizes.serves(1);
    small_bytes = is_simple ? SizeClasses::kLargest : 0;
  }

  // These are of its thread alone: the names of `current`, where it has some, and what the pool was called last.
  CallNames names;
  uint64_t pool_name = 0;
  LoggedCalls logged;
  void forget_names() noexcept {
    names = logged.names = {};
    pool_name = 0;
  }

  // With the lock, for the stream of `current`, where nothing has to be ordered: a block at hand, NULL where there is
  // none; and back, with a block that is over and came from the cache of that number.
  Block* take(uint64_t bytes, BlockUse use) noexcept;
  void give(Block& block, uint32_t size_class, uint32_t taker, uint64_t bytes) noexcept;

  StreamCache* streams = nullptr;
  const ThreadBlock* const owner;
  Residence residence{owner};  // of the thread, in the pool
  PoolCache* next_of_thread = nullptr;
  PoolCache* previous = nullptr;  // in the pool's list
  PoolCache* next = nullptr;
};

// All caches of one thread.
class PoolCaches final : public ThreadPart {
 public:
  ~PoolCaches() override;
  PoolCache* first = nullptr;
};
PoolCache* first_cache(const ThreadBlock& thread) noexcept;

}  // namespace kina
