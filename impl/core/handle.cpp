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

uint64_t SlotTable::insert(void* object) {
  const uint64_t mark = copy_mark();
  const uint32_t number = take_slot();
  Slot& slot = at(number);
  slot.object.store(object, std::memory_order_release);
  const uint64_t handle = HandleParts::pack(kind_, mark, slot.next_generation++, number);
  slot.handle.store(handle, std::memory_order_release);
  return handle;
}

void* SlotTable::remove(uint64_t handle) noexcept {
  void* object = find(handle);
  if (object == nullptr) return nullptr;
  Slot& slot = *slot_of(handle);
  uint64_t expected = handle;
  if (!slot.handle.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return nullptr;
  leave(slot, handle);
  return object;
}

void SlotTable::remove_own(uint64_t handle) noexcept {
  Slot* slot = slot_of(handle);
  if (slot == nullptr) return;
  slot->handle.store(0, std::memory_order_release);
  leave(*slot, handle);
}

void SlotTable::leave(Slot& slot, uint64_t handle) noexcept {
  slot.object.store(nullptr, std::memory_order_relaxed);
  if (slot.next_generation <= HandleParts::kGenerationMask) give_slot(static_cast<uint32_t>(HandleParts::slot(handle)));
}

uint32_t SlotTable::take_slot() {
  SlotCache* cache = cache_ == nullptr ? nullptr : cache_();
  if (cache != nullptr && cache->count > 0) [[likely]]
    return cache->slots[--cache->count];
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

void SlotTable::give_slot(uint32_t slot) noexcept {
  SlotCache* cache = cache_ == nullptr ? nullptr : cache_();
  if (cache == nullptr) {
    const std::lock_guard lock(mutex_);
    return give_shared(slot);
  }
  cache->table = this;
  if (cache->count == SlotCache::kRoom) take_back(*cache, SlotCache::kRoom - SlotCache::kBatch);
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
  if (used_ % kChunk == 0) chunks_[used_ / kChunk].store(new Slot[kChunk], std::memory_order_release);
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
