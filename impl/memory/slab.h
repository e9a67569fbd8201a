// Slabs: runs of blocks of one size, whose records lie outside the memory and are found by a block's address.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "impl/core/prefetch.h"
#include "impl/core/resource.h"
#include "impl/memory/arena.h"

namespace kina {

// Of the blocks of a class, in granules.
constexpr uint32_t granules_of(uint32_t size_class) noexcept {
  return size_class < 8 ? size_class + 1 : (9 + size_class % 8) << (size_class / 8 - 1);
}

// Eight sizes for each doubling, in granules; nothing above `kLargest` bytes is cut from a slab.
class SizeClasses {
 public:
  static constexpr uint32_t kCount = 48;
  static constexpr uint64_t kLargest = 65536;
  static constexpr uint64_t kPage = 65536;  // a slab starts at a multiple, and has its pages for itself

  explicit SizeClasses(uint64_t granule) noexcept : shift_(std::countr_zero(granule)) {}

  uint64_t granule() const noexcept { return uint64_t{1} << shift_; }
  // Whether a granule is as aligned as that, a power of two or 0.
  bool are_aligned(uint64_t alignment) const noexcept { return alignment >> shift_ <= 1; }
  // Of a request that is as aligned as a granule.
  bool serves(uint64_t bytes) const noexcept { return bytes - 1 < kLargest && granule() <= kPage; }
  uint32_t class_of(uint64_t bytes) const noexcept { return kClasses[(bytes - 1) >> shift_]; }
  uint64_t bytes_of(uint32_t size_class) const noexcept { return uint64_t{granules_of(size_class)} << shift_; }
  // Which block of a slab of that class starts so many bytes behind its start.
  uint64_t index_of(uint64_t offset, uint32_t size_class) const noexcept {
    return (offset >> shift_) * kReciprocals[size_class] >> kReciprocalShift;
  }
  // Blocks of a slab: at least what fills a page, or a batch; at most a MiB.
  uint32_t least_blocks_of_slab(uint32_t size_class) const noexcept {
    return static_cast<uint32_t>(std::max(kPage / bytes_of(size_class), uint64_t{4}));
  }
  uint32_t most_blocks_of_slab(uint32_t size_class) const noexcept {
    return std::max(least_blocks_of_slab(size_class),
                    static_cast<uint32_t>(std::min(16 * kPage / bytes_of(size_class), uint64_t{64})));
  }
  // Blocks that move at once between a cache and its lane: whole lines of their records.
  uint32_t batch_of(uint32_t size_class) const noexcept {
    if (granule() > kPage) return 4;  // nothing is cut, and 64 bits need not hold the sizes
    return static_cast<uint32_t>(std::clamp(4 * kPage / bytes_of(size_class), uint64_t{4}, uint64_t{32})) & ~3U;
  }

 private:
  // By the granules of a request, less one.
  static constexpr auto kClasses = [] {
    std::array<uint8_t, 256> classes{};
    for (uint32_t last = 0, size_class = 0; last < classes.size(); ++last) {
      if (last + 1 > granules_of(size_class)) ++size_class;
      classes[last] = static_cast<uint8_t>(size_class);
    }
    return classes;
  }();
  // Rounded up, so that they are exact where a block starts.
  static constexpr int kReciprocalShift = 24;
  static constexpr auto kReciprocals = [] {
    std::array<uint32_t, kCount> reciprocals{};
    for (uint32_t i = 0; i < kCount; ++i)
      reciprocals[i] = ((uint32_t{1} << kReciprocalShift) + granules_of(i) - 1) / granules_of(i);
    return reciprocals;
  }();
  int shift_;
};
static_assert(granules_of(SizeClasses::kCount - 1) * kStorageAlignment == SizeClasses::kLargest);

// A few bits of a pool's serial that lie where the address of a block has none; 0 where the serial has more.
constexpr uint64_t pool_tag(uint64_t serial) noexcept {
  return serial >> 24 != 0 ? 0 : serial >> 8 << 48 | (serial & 0xFF);
}

// The record of one block. While it is live `word` says what was asked for, on which shelf's stream, and whose cache it
// came from. While it is free it is in one list of its pool; `word` then says nothing, or of the first one of a batch
// how many there are and how far the stream was that gave them up.
struct alignas(32) Block {
  Block* next = nullptr;
  std::atomic<Block*> next_batch{nullptr};
  std::atomic<uint64_t> word{0};
  // Its address and its pool's tag; written while the slab is made, when stray addresses are looked up too.
  std::atomic<uint64_t> place{0};

  // live | use (14 bits) | shelf (20) | cache (12) | bytes (17)
  static constexpr uint64_t kLive = uint64_t{1} << 63;
  static constexpr int kUseShift = 49;
  static constexpr int kShelfShift = 29;
  static constexpr int kCacheShift = 17;
  static constexpr uint64_t kMarks = kLive | uint64_t{kLastUse} << kUseShift;
  static constexpr uint64_t kShelfMask = 0xFFFFF;
  static constexpr uint64_t kCacheMask = 0xFFF;
  static constexpr uint64_t kBytesMask = (uint64_t{1} << kCacheShift) - 1;
  static constexpr int kCountShift = 56;  // of a batch
  static_assert(SizeClasses::kLargest <= kBytesMask);
  static uint64_t live_word(const Request& request) noexcept {
    return kLive | static_cast<uint64_t>(request.use) << kUseShift | request.bytes;
  }
  void take(const Request& request, uint32_t shelf, uint32_t cache) noexcept {
    take_as(word_of(request, shelf, cache));
  }
  static constexpr uint64_t kAddressMask = 0x0000'FFFF'FFFF'FF00;
  void* address() const noexcept {
    return reinterpret_cast<void*>(place.load(std::memory_order_relaxed) & kAddressMask);
  }
  // Elsewhere lie the bits of a tag: an address that has some would make up for another pool's.
  static bool may_start_at(const void* data) noexcept {
    return (reinterpret_cast<uint64_t>(data) & ~kAddressMask) == 0;
  }
  // Whether this is the record of the block at `data`, where one may start, in the pool of that tag, which is not 0.
  bool is_of(const void* data, uint64_t tag) const noexcept {
    return (place.load(std::memory_order_relaxed) ^ reinterpret_cast<uint64_t>(data)) == tag;
  }
  // Where a live block was taken.
  uint32_t shelf() const noexcept {
    return static_cast<uint32_t>(word.load(std::memory_order_relaxed) >> kShelfShift & kShelfMask);
  }
  // Of several callers exactly one ends a live block, and learns from whose cache it came.
  Return give(const Request& request, uint32_t& cache) noexcept {
    return exchange(request, [&](uint64_t seen) {
      cache = cache_of(seen);
      return uint64_t{0};
    });
  }
  // The same in one try, for a request that a magazine serves; false: `give` knows why.
  bool give_small(uint64_t bytes, BlockUse use, uint32_t& cache) noexcept {
    uint64_t seen = word.load(std::memory_order_relaxed);
    if ((seen & (kMarks | kBytesMask)) != live_word({bytes, 0, use})) return false;
    cache = cache_of(seen);
    return word.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  // From whose cache it came, by its word.
  static uint32_t cache_of(uint64_t seen) noexcept { return static_cast<uint32_t>(seen >> kCacheShift & kCacheMask); }
  // Both for a word that the caller has made, of a block that its own cache gave out; another one may have given out
  // what comes back.
  static uint64_t word_of(const Request& request, uint32_t shelf, uint32_t cache) noexcept {
    return live_word(request) | uint64_t{shelf} << kShelfShift | uint64_t{cache} << kCacheShift;
  }
  void take_as(uint64_t wanted) noexcept { word.store(wanted, std::memory_order_release); }
  bool give_as(uint64_t wanted, uint64_t& seen) noexcept {
    seen = word.load(std::memory_order_relaxed);
    return ((seen ^ wanted) & ~(kCacheMask << kCacheShift)) == 0 &&
           word.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  // The same, but the block stays live as one of `use`.
  Return change_use(const Request& request, BlockUse use) noexcept {
    return exchange(request, [&](uint64_t seen) { return (seen & ~kMarks) | live_word({0, 0, use}); });
  }
  // Why a block that was looked at does not end.
  Return refuse(BlockUse use) const noexcept { return refuse(use, word.load(std::memory_order_relaxed)); }
  static Return refuse(BlockUse use, uint64_t seen) noexcept {
    return (seen & kMarks) == live_word({0, 0, use}) ? Return::different : Return::unknown;
  }

  // The same for a block that only the caller can end, because a storage has it.
  bool give_own(const Request& request, uint32_t& cache) noexcept {
    const uint64_t seen = word.load(std::memory_order_relaxed);
    if ((seen & (kMarks | kBytesMask)) != live_word(request)) return false;
    cache = cache_of(seen);
    word.store(0, std::memory_order_release);
    return true;
  }

  void start_batch(uint32_t count, uint64_t position) noexcept {
    word.store(uint64_t{count} << kCountShift | position, std::memory_order_relaxed);
  }
  uint32_t batch_count() const noexcept {
    return static_cast<uint32_t>(word.load(std::memory_order_relaxed) >> kCountShift);
  }
  uint64_t batch_position() const noexcept {
    return word.load(std::memory_order_relaxed) & ((uint64_t{1} << kCountShift) - 1);
  }

 private:
  // From the word of a live block that is `request`'s to next_word(it).
  template <class Next>
  Return exchange(const Request& request, Next&& next_word) noexcept {
    const uint64_t wanted = live_word(request);
    uint64_t seen = word.load(std::memory_order_relaxed);
    while ((seen & (kMarks | kBytesMask)) == wanted && request.bytes <= kBytesMask)
      [[likely]] if (word.compare_exchange_weak(seen, next_word(seen), std::memory_order_acq_rel,
                                                std::memory_order_relaxed)) [[likely]] return Return::done;
    return refuse(request.use, seen);
  }
};

// Where there is no other.
inline constinit Block no_block;

// One run of blocks. Here lie their records, pairs of lines of the cache, so that threads which got different batches
// of a slab write no line together, and behind them a bit for each that lies apart. They are never returned to the
// heap, only used again for slabs of as many blocks: whoever looks up a stray address finds a record, even while the
// slab that it was ends.
class alignas(128) Slab {
 public:
  // The slab of `count` blocks at `base`, entered for its addresses; NULL when host memory is out.
  static Slab* make(uint64_t pool, void* base, uint32_t size_class, uint32_t count, const SizeClasses& sizes) noexcept;
  void end() noexcept;

  // The slab whose pages hold `data`, of whatever pool; NULL when there is none, or where no block can start.
  static Slab* find(const void* data) noexcept { return slab_of(page_of(data)); }
  // The record that a block of that class at `data` has, if there is one: of whatever pool, and whether the block
  // starts there is for the record to say. Nothing of the slab but the record is read.
  static Block* find_record(const void* data, uint32_t size_class, const SizeClasses& sizes) noexcept {
    const uint64_t page = page_of(data);
    const uint64_t offset =
        (page & kNumberMask) * SizeClasses::kPage + reinterpret_cast<uint64_t>(data) % SizeClasses::kPage;
    const uint64_t index = sizes.index_of(offset, size_class);
    if (page >> kClassShift != size_class || index >= (page >> kCountShift & kCountMask)) return nullptr;
    return slab_of(page)->blocks() + index;
  }

  uint64_t pool() const noexcept { return pool_.load(std::memory_order_relaxed); }
  uint32_t size_class() const noexcept { return size_class_.load(std::memory_order_relaxed); }
  uint32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  uint64_t bytes() const noexcept { return count() * block_bytes_.load(std::memory_order_relaxed); }
  // The record of the block that starts at `data`; NULL when none does: behind the slab its last page is others'.
  Block* block_at(const void* data) noexcept {
    const uint64_t offset = reinterpret_cast<uint64_t>(data) - base_.load(std::memory_order_relaxed);
    const uint64_t index = (offset >> 8) * reciprocal_.load(std::memory_order_relaxed) >> 24;
    if (index >= count()) return nullptr;
    Block* block = blocks() + index;
    ask_to_write(block);
    return block->address() == data ? block : nullptr;
  }
  // All blocks as one list.
  Block* blocks() noexcept { return reinterpret_cast<Block*>(this + 1); }
  void* base() const noexcept { return reinterpret_cast<void*>(base_.load(std::memory_order_relaxed)); }
  uint64_t metadata_bytes() const noexcept { return bytes_for(room_); }

  // Four blocks whose records share a pair of lines. Some of them may lie apart: free, but in no list. Any thread lays
  // them there.
  static constexpr uint32_t kFour = 4;
  // Of the blocks from the first of a four on, a bit for each.
  struct Fours {
    Block* blocks = nullptr;
    uint64_t bits = 0;
  };
  // Lays the first blocks of `list` apart, those of this slab and of one word, and counts them; `list` goes on behind
  // them. Takes out the fours that are whole now.
  Fours lay_apart(Block*& list, uint32_t& count) noexcept;
  // Takes some out, as a list of `most` at most; NULL where none lies apart.
  Block* take_apart(uint32_t most, uint32_t& count) noexcept;
  uint32_t count_apart() noexcept;

 private:
  // What is known of a page: class of its slab (6 bits) | number of blocks of it (10) | its address, a multiple of 128
  // (48) | which page of it this is (7). 0: no slab has it.
  using Page = std::atomic<uint64_t>;
  static constexpr int kClassShift = 58;
  static constexpr int kCountShift = 48;
  static constexpr uint64_t kCountMask = 0x3FF;
  static constexpr uint64_t kNumberMask = 0x7F;
  static constexpr uint64_t kSlabMask = (uint64_t{1} << kCountShift) - 1 - kNumberMask;
  struct Leaf {
    Page pages[65536];
  };
  static uint64_t page_of(const void* data) noexcept {
    const auto address = reinterpret_cast<uint64_t>(data);
    if (!Block::may_start_at(data)) return 0;
    const Leaf* leaf = leaves_[address >> 32].load(std::memory_order_acquire);
    return leaf == nullptr ? 0 : leaf->pages[address >> 16 & 0xFFFF].load(std::memory_order_acquire);
  }
  static Slab* slab_of(uint64_t page) noexcept { return reinterpret_cast<Slab*>(page & kSlabMask); }
  using Word = std::atomic<uint64_t>;
  static constexpr uint32_t kWord = 64;
  static constexpr uint32_t words_of(uint32_t count) noexcept { return (count + kWord - 1) / kWord; }
  static constexpr uint64_t bytes_for(uint32_t room) noexcept {
    return sizeof(Slab) + room * sizeof(Block) + words_of(room) * sizeof(Word);
  }
  std::span<Word> words() noexcept { return {reinterpret_cast<Word*>(blocks() + room_), words_of(room_)}; }

  explicit Slab(uint32_t room) noexcept : room_(room) {}
  static Slab* obtain(uint32_t room) noexcept;
  static bool reserve_pages(uint64_t base, uint64_t bytes) noexcept;
  // `first` is what the first page says; the others say the next numbers, or 0 as well.
  static void set_pages(uint64_t base, uint64_t bytes, uint64_t first) noexcept;

  static std::array<std::atomic<Leaf*>, 65536> leaves_;

  const uint32_t room_;
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> size_class_{0};
  std::atomic<uint64_t> pool_{0};
  std::atomic<uint64_t> base_{0};
  std::atomic<uint64_t> block_bytes_{1};
  std::atomic<uint64_t> reciprocal_{0};  // of the bytes of a block in units of 256, times 2^24

 public:
  // Of the pool that has it, guarded by its lock; nothing that a look-up reads.
  alignas(64) Slab* next = nullptr;
  uint32_t free_count = 0;  // while the pool collects: blocks in its lists, and what follows them
  bool is_stuck = false;
  Stamp stamp;
  Ref<Points> points;  // of the stamp, while they are gathered
};
static_assert(Slab::kFour * sizeof(Block) == alignof(Slab), "a batch is whole pairs of lines");

}  // namespace kina
