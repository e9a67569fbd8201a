// Records of slabs and the table of pages.
#include "impl/memory/slab.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

// Slabs without memory, by the quarter of their room.
struct Unused {
  Mutex mutex{Mutex::Place::inner};
  std::array<Slab*, 256 / Slab::kFour + 1> slabs{};
};
Unused& unused() noexcept {
  static Lasting<Unused> all;
  return *all;
}

// All bits of the fours that are whole.
uint64_t whole_fours(uint64_t bits) noexcept {
  bits &= bits >> 1;
  bits &= bits >> 2;
  return (bits & 0x1111'1111'1111'1111) * 15;
}

}  // namespace

std::array<std::atomic<Slab::Leaf*>, 65536> Slab::leaves_;

Slab* Slab::obtain(uint32_t room) noexcept {
  {
    Unused& all = unused();
    const std::lock_guard lock(all.mutex);
    Slab*& first = all.slabs[room / kFour];
    if (first != nullptr) return std::exchange(first, first->next);
  }
  void* memory = ::operator new (bytes_for(room), std::align_val_t{alignof(Slab)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  Slab* made = new (memory) Slab(room);
  std::uninitialized_default_construct_n(made->blocks(), room);
  std::uninitialized_value_construct_n(made->words().data(), words_of(room));
  return made;
}

bool Slab::reserve_pages(uint64_t base, uint64_t bytes) noexcept {
  if ((base + bytes - 1) >> 48 != 0) return false;
  for (uint64_t high = base >> 32; high <= (base + bytes - 1) >> 32; ++high) {
    if (leaves_[high].load(std::memory_order_acquire) != nullptr) continue;
    auto* made = static_cast<Leaf*>(std::calloc(1, sizeof(Leaf)));  // zero pages that cost nothing until they are used
    if (made == nullptr) return false;
    Leaf* expected = nullptr;
    if (!leaves_[high].compare_exchange_strong(expected, made, std::memory_order_acq_rel)) std::free(made);
  }
  return true;
}

void Slab::set_pages(uint64_t base, uint64_t bytes, uint64_t first) noexcept {
  uint64_t said = first;
  for (uint64_t page = base >> 16; page <= (base + bytes - 1) >> 16; ++page, said += first == 0 ? 0 : 1)
    leaves_[page >> 16].load(std::memory_order_acquire)->pages[page & 0xFFFF].store(said, std::memory_order_release);
}

Slab* Slab::make(uint64_t pool, void* base, uint32_t size_class, uint32_t count, const SizeClasses& sizes) noexcept {
  const uint64_t block_bytes = sizes.bytes_of(size_class);
  const auto address = reinterpret_cast<uint64_t>(base);
  if (!reserve_pages(address, count * block_bytes)) return nullptr;
  for (uint64_t page = address; page < address + count * block_bytes; page += SizeClasses::kPage)
    if (find(reinterpret_cast<void*>(page)) != nullptr) return nullptr;  // inside a block of another pool's slab
  Slab* made = obtain((count + kFour - 1) / kFour * kFour);
  if (made == nullptr) return nullptr;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  made->base_.store(address, kRelaxed);
  made->block_bytes_.store(block_bytes, kRelaxed);
  made->reciprocal_.store(((uint64_t{1} << 24) + block_bytes / 256 - 1) / (block_bytes / 256), kRelaxed);
  made->count_.store(count, kRelaxed);
  made->size_class_.store(size_class, kRelaxed);
  made->pool_.store(pool, kRelaxed);
  for (uint32_t i = 0; i < count; ++i) {
    Block& block = made->blocks()[i];
    block.next = i + 1 < count ? &block + 1 : nullptr;
    block.next_batch.store(nullptr, kRelaxed);
    block.word.store(0, kRelaxed);
    block.place.store((address + i * block_bytes) | pool_tag(pool), kRelaxed);
  }
  set_pages(address, made->bytes(),
            uint64_t{size_class} << kClassShift | uint64_t{count} << kCountShift | reinterpret_cast<uint64_t>(made));
  return made;
}

void Slab::end() noexcept {
  const auto address = base_.load(std::memory_order_relaxed);
  set_pages(address, bytes(), 0);
  pool_.store(0, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  for (Word& word : words()) word.store(0, std::memory_order_relaxed);
  stamp = {};
  points = nullptr;
  Unused& all = unused();
  const std::lock_guard lock(all.mutex);
  Slab*& first = all.slabs[room_ / kFour];
  next = std::exchange(first, this);
}

// Behind the change of the word the blocks are no longer the caller's: the slab may end.
Slab::Fours Slab::lay_apart(Block*& list, uint32_t& count) noexcept {
  const auto index = static_cast<uint32_t>(list - blocks()) / kWord;
  Block* const first = blocks() + index * kWord;
  Block* const end = blocks() + std::min(room_, (index + 1) * kWord);
  uint64_t laid = 0;
  for (; list >= first && list < end; list = list->next, ++count) {
    __builtin_prefetch(list, 1);  // whoever gave it up wrote it last
    laid |= uint64_t{1} << (list - first);
  }
  const uint32_t present = this->count() - index * kWord;
  const uint64_t absent = present < kWord ? ~uint64_t{0} << present : 0;  // of the last four, which is shorter
  Word& word = words()[index];
  uint64_t seen = word.load(std::memory_order_relaxed);
  uint64_t whole = 0;
  do {
    whole = whole_fours(seen | laid | absent) & ~absent;
  } while (
      !word.compare_exchange_weak(seen, (seen | laid) & ~whole, std::memory_order_acq_rel, std::memory_order_relaxed));
  return {first, whole};
}

Block* Slab::take_apart(uint32_t most, uint32_t& count) noexcept {
  Block* first = blocks();
  for (Word& word : words()) {
    uint64_t seen = word.load(std::memory_order_relaxed);
    uint64_t taken = 0;
    do {
      taken = seen;
      while (static_cast<uint32_t>(std::popcount(taken)) > most) taken &= taken - 1;
    } while (taken != 0 &&
             !word.compare_exchange_weak(seen, seen & ~taken, std::memory_order_acq_rel, std::memory_order_relaxed));
    Block* list = nullptr;
    for (count = 0; taken != 0; taken &= taken - 1, ++count) {
      Block& block = first[std::countr_zero(taken)];
      block.next = std::exchange(list, &block);
    }
    if (list != nullptr) return list;
    first += kWord;
  }
  return nullptr;
}

// Who sees that all are free may make another slab of them: behind those who laid them there.
uint32_t Slab::count_apart() noexcept {
  int sum = 0;
  for (const Word& word : words()) sum += std::popcount(word.load(std::memory_order_acquire));
  return static_cast<uint32_t>(sum);
}

}  // namespace kina
