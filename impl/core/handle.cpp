// Slots of names: given out, ended, and passed on between threads in batches.
#include "impl/core/handle.h"

#include <algorithm>
#include <mutex>

#include "impl/core/error.h"

namespace kina {

SlotCache::~SlotCache() {
  if (table != nullptr) table->take_back(*this, 0);
}

SlotTable::~SlotTable() {
  for (std::atomic<Slot*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

uint32_t SlotTable::take_more_slots(SlotCache* cache) {
  const std::lock_guard lock(mutex_);
  const uint32_t slot = take_shared();
  if (cache == nullptr) return slot;
  cache->table = this;
  // Others may be found free or fresh; that none is left stops nobody yet.
  for (uint32_t more = 1; more < SlotCache::kBatch && (first_free_ != kNone || used_ % kChunk != 0); ++more)
    cache->slots[cache->count++] = take_shared();
  std::reverse(cache->slots.begin(), cache->slots.begin() + cache->count);
  return slot;
}

void SlotTable::give_slot_back(uint32_t slot, SlotCache* cache) noexcept {
  if (cache == nullptr) {
    const std::lock_guard lock(mutex_);
    return give_shared(slot);
  }
  take_back(*cache, SlotCache::kRoom - SlotCache::kBatch);
  cache->slots[cache->count++] = slot;
}

void SlotTable::take_back(SlotCache& cache, uint32_t kept) noexcept {
  const std::lock_guard lock(mutex_);
  while (cache.count > kept) give_shared(cache.slots[--cache.count]);
}

uint32_t SlotTable::take_shared() {
  if (first_free_ != kNone) {
    const uint32_t slot = first_free_;
    first_free_ = at(slot).next_free;
    return slot;
  }
  require<Message::out_of_handles>(used_ <= HandleParts::kSlotMask, "KINA-STATUS-44", {});
  const uint64_t first_handle = HandleParts::pack(kind_, copy_mark(), 0, used_);
  if (used_ % kChunk == 0) chunks_[used_ / kChunk].store(new Slot[kChunk], std::memory_order_release);
  at(used_).next_handle = first_handle;
  return static_cast<uint32_t>(used_++);
}

void SlotTable::give_shared(uint32_t slot) noexcept {
  at(slot).next_free = first_free_;
  first_free_ = slot;
}

uint64_t SlotTable::live() const noexcept {
  uint64_t count = 0;
  for (const std::atomic<Slot*>& place : chunks_) {
    const Slot* chunk = place.load(std::memory_order_acquire);
    if (chunk == nullptr) break;
    count += static_cast<uint64_t>(std::count_if(
        chunk, chunk + kChunk, [](const Slot& slot) { return slot.handle.load(std::memory_order_relaxed) != 0; }));
  }
  return count;
}

}  // namespace kina
