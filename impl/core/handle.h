// Names for objects: 64-bit values of kind, library copy, generation and slot, never addresses and never used twice.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "impl/core/copy_mark.h"
#include "impl/core/counted.h"
#include "impl/core/maker.h"
#include "impl/core/mutex.h"

namespace kina {

enum class Kind : uint8_t { tensor = 1, stream, scope, resource, weak, peer };

constexpr const char* word_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::tensor: return "tensor";
    case Kind::stream: return "stream";
    case Kind::scope: return "scope";
    case Kind::resource: return "resource";
    case Kind::weak: return "weak reference";
    case Kind::peer: return "peer";
  }
  return "object";
}

// kind (4 bits) | copy mark (10) | generation (24) | slot (26)
struct HandleParts {
  static constexpr int kSlotBits = 26;
  static constexpr int kGenerationBits = 24;
  static constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
  static constexpr uint64_t kGenerationMask = (uint64_t{1} << kGenerationBits) - 1;

  static uint64_t pack(Kind kind, uint64_t mark, uint64_t generation, uint64_t slot) noexcept {
    return static_cast<uint64_t>(kind) << 60 | mark << 50 | generation << kSlotBits | slot;
  }
  static uint64_t slot(uint64_t handle) noexcept { return handle & kSlotMask; }
  static uint64_t generation(uint64_t handle) noexcept { return handle >> kSlotBits & kGenerationMask; }
};

class SlotTable;

// Free slots that one thread keeps of one table, so that most names come and go without a lock. They go back when the
// thread ends; those of a thread that a fork left behind stay unused in the child.
struct SlotCache {
  static constexpr uint32_t kRoom = 64;
  static constexpr uint32_t kBatch = kRoom / 2;

  SlotTable* table = nullptr;  // set at the first use
  Maker* const maker;          // the thread; NULL: its names end by locked instructions
  uint32_t count = 0;
  std::array<uint32_t, kRoom> slots;

  explicit SlotCache(Maker* thread = nullptr) noexcept : maker(thread) {}
  SlotCache(const SlotCache&) = delete;
  SlotCache& operator=(const SlotCache&) = delete;
  ~SlotCache();
};

// The table behind HandleTable: names of objects of any type. `find` takes no lock; a slot whose generations are used
// up is never given out again.
class SlotTable {
 public:
  explicit SlotTable(Kind kind) : kind_(kind) {}
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // Slots come from `cache`, the calling thread's, and go back to it; without one every name passes the table's lock.
  // Throws OUT_OF_MEMORY with nothing changed.
  uint64_t insert(void* object, SlotCache* cache = nullptr) { return insert(take_slot(cache), object, cache); }
  // In two steps, for who has nothing to name while the first may still fail.
  uint32_t take_slot(SlotCache* cache) {
    if (cache != nullptr && cache->count > 0) [[likely]]
      return cache->slots[--cache->count];
    return take_more_slots(cache);
  }
  uint64_t insert(uint32_t number, void* object, SlotCache* cache) noexcept {
    Slot& slot = at(number);
    slot.object.store(object, std::memory_order_release);
    slot.maker.store(cache == nullptr || cache->maker == nullptr ? 0 : cache->maker->number(),
                     std::memory_order_relaxed);
    const uint64_t handle = slot.next_handle;
    slot.handle.store(handle, std::memory_order_release);
    return handle;
  }
  // The live object that `handle` names, else NULL; and where the name stands: as long as it is there, it names that
  // object.
  void* find(uint64_t handle, const std::atomic<uint64_t>*& place) const noexcept {
    const Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->handle.load(std::memory_order_acquire) != handle) return nullptr;
    place = &slot->handle;
    void* object = slot->object.load(std::memory_order_acquire);
    return slot->handle.load(std::memory_order_relaxed) == handle ? object : nullptr;  // not of a later name
  }
  void* find(uint64_t handle) const noexcept {
    const std::atomic<uint64_t>* place = nullptr;
    return find(handle, place);
  }
  // Where a live name stands: as long as `handle` is there it is live. Lasts as long as the table.
  const std::atomic<uint64_t>* place_of(uint64_t handle) const noexcept {
    const std::atomic<uint64_t>* place = nullptr;
    return find(handle, place) == nullptr ? nullptr : place;
  }
  // Ends the name; NULL when it was not live: of several callers exactly one gets the object.
  void* remove(uint64_t handle, SlotCache* cache = nullptr) noexcept {
    Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->handle.load(std::memory_order_acquire) != handle) [[unlikely]]
      return nullptr;
    void* object = slot->object.load(std::memory_order_acquire);
    const bool is_ended = change_alone(cache == nullptr ? nullptr : cache->maker, slot->maker, [slot] {
      slot->handle.store(0, std::memory_order_release);  // the thread itself has just seen the name here
    });
    uint64_t expected = handle;
    if (!is_ended && !slot->handle.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) [[unlikely]]
      return nullptr;
    leave(*slot, handle, cache);
    return object;
  }
  uint64_t live() const noexcept;

  // Takes slots out of `cache` until `kept` are left.
  void take_back(SlotCache& cache, uint32_t kept) noexcept;

 private:
  struct Slot {
    std::atomic<uint64_t> handle{0};
    std::atomic<void*> object{nullptr};  // read while another thread ends the name
    uint64_t next_handle = 0;            // the owner of the free slot alone looks at this and what follows
    uint32_t next_free = 0;
    std::atomic<Maker::Number> maker{0};  // of the live name
  };
  static constexpr uint64_t kChunk = 4096;
  static constexpr uint32_t kNone = ~uint32_t{0};

  // The slot that `handle` speaks of, if there is one: it may be of another name by now.
  Slot* slot_of(uint64_t handle) const noexcept {
    Slot* chunk = chunks_[HandleParts::slot(handle) / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr || handle == 0 ? nullptr : chunk + HandleParts::slot(handle) % kChunk;
  }
  Slot& at(uint64_t slot) const noexcept {
    return chunks_[slot / kChunk].load(std::memory_order_relaxed)[slot % kChunk];
  }
  void leave(Slot& slot, uint64_t handle, SlotCache* cache) noexcept {
    slot.object.store(nullptr, std::memory_order_relaxed);
    if (HandleParts::generation(handle) == HandleParts::kGenerationMask) [[unlikely]]
      return;  // used up
    slot.next_handle = handle + (uint64_t{1} << HandleParts::kSlotBits);
    const auto number = static_cast<uint32_t>(HandleParts::slot(handle));
    if (cache == nullptr || cache->count == SlotCache::kRoom) [[unlikely]]
      return give_slot_back(number, cache);
    cache->table = this;
    cache->slots[cache->count++] = number;
  }
  uint32_t take_more_slots(SlotCache* cache);
  void give_slot_back(uint32_t slot, SlotCache* cache) noexcept;
  // With the lock held.
  uint32_t take_shared();
  void give_shared(uint32_t slot) noexcept;

  mutable Mutex mutex_{Mutex::Place::inner};
  std::array<std::atomic<Slot*>, (HandleParts::kSlotMask + 1) / kChunk> chunks_{};
  uint32_t first_free_ = kNone;
  uint64_t used_ = 0;
  const Kind kind_;
};

// A table of live objects of one kind.
template <class T>
class HandleTable : public SlotTable {
 public:
  using SlotTable::SlotTable;

  uint64_t insert(T* object, SlotCache* cache = nullptr) { return SlotTable::insert(object, cache); }
  uint64_t insert(uint32_t slot, T* object, SlotCache* cache) noexcept {
    return SlotTable::insert(slot, object, cache);
  }
  // The caller sees to it that nobody ends the object while it is looked at.
  T* find(uint64_t handle) const noexcept { return static_cast<T*>(SlotTable::find(handle)); }
  T* find(uint64_t handle, const std::atomic<uint64_t>*& place) const noexcept {
    return static_cast<T*>(SlotTable::find(handle, place));
  }
  T* remove(uint64_t handle, SlotCache* cache = nullptr) noexcept {
    return static_cast<T*>(SlotTable::remove(handle, cache));
  }

  // For counted objects: a reference to the live one that `handle` names, safe against `end_name` on another thread;
  // empty when there is none.
  Ref<T> acquire(uint64_t handle) const {
    const std::lock_guard lock(ends_);
    return Ref<T>::try_share(find(handle));
  }
  // As `remove`, when nobody is about to take a reference by this name.
  T* end_name(uint64_t handle) noexcept {
    const std::lock_guard lock(ends_);
    return remove(handle);
  }

 private:
  mutable Mutex ends_{Mutex::Place::inner};
};

// The table of all live objects of a kind, made at the first call and never destroyed: a load and a branch afterwards.
template <class T, Kind kKind>
class TheTable {
 public:
  static HandleTable<T>& get() {
    HandleTable<T>* made = known();
    return made != nullptr ? *made : make();
  }
  // NULL before the first call.
  static HandleTable<T>* known() noexcept { return made_.load(std::memory_order_acquire); }

 private:
  [[gnu::cold, gnu::noinline]] static HandleTable<T>& make() {
    static auto& table = *new HandleTable<T>(kKind);
    made_.store(&table, std::memory_order_release);
    return table;
  }
  static inline constinit std::atomic<HandleTable<T>*> made_{nullptr};
};

template <class Handle>
uint64_t value_of(Handle* handle) noexcept {
  return reinterpret_cast<uint64_t>(handle);
}

template <class Handle>
Handle handle_of(uint64_t value) noexcept {
  return reinterpret_cast<Handle>(value);
}

}  // namespace kina
