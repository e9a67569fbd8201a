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

constexpr uint32_t kLine = 4;  // records

// Slabs without memory, by the quarter of their room.
struct Unused {
  Mutex mutex{Mutex::Place::inner};
  std::array<Slab*, 256 / kLine + 1> slabs{};
};
Unused& unused() noexcept {
  static Lasting<Unused> all;
  return *all;
}

}  // namespace

std::array<std::atomic<Slab::Leaf*>, 65536> Slab::leaves_;

Slab* Slab::obtain(uint32_t room) noexcept {
  {
    Unused& all = unused();
    const std::lock_guard lock(all.mutex);
    Slab*& first = all.slabs[room / kLine];
    if (first != nullptr) return std::exchange(first, first->next);
  }
  void* memory = ::operator new (sizeof(Slab) + room * sizeof(Block), std::align_val_t{alignof(Slab)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  Slab* made = new (memory) Slab(room);
  std::uninitialized_default_construct_n(made->blocks(), room);
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
  Slab* made = obtain((count + kLine - 1) / kLine * kLine);
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
  stamp = {};
  points = nullptr;
  Unused& all = unused();
  const std::lock_guard lock(all.mutex);
  Slab*& first = all.slabs[room_ / kLine];
  next = std::exchange(first, this);
}

}  // namespace kina
