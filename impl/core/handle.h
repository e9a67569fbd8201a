// Names for objects: 64-bit values of kind, library copy, generation and slot, never addresses and never used twice.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "impl/core/copy_mark.h"
#include "impl/core/counted.h"
#include "impl/core/error.h"
#include "impl/core/mutex.h"

namespace kina {

enum class Kind : uint8_t { tensor = 1, stream, scope, resource, weak, peer };

const char* word_of(Kind kind) noexcept;

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

// A table of live objects of one kind. `find` takes no lock; a slot whose generations are used up is never given out
// again.
template <class T>
class HandleTable {
 public:
  explicit HandleTable(Kind kind) : kind_(kind) {}

  // Gives `object` a name. Throws OUT_OF_MEMORY with nothing changed.
  uint64_t insert(T* object) {
    const uint64_t mark = copy_mark();
    const std::lock_guard lock(mutex_);
    const uint64_t slot = take_slot();
    Slot& entry = at(slot);
    entry.object.store(object, std::memory_order_relaxed);
    const uint64_t handle = HandleParts::pack(kind_, mark, entry.next_generation++, slot);
    entry.handle.store(handle, std::memory_order_release);
    ++live_;
    return handle;
  }

  // The live object that `handle` names, else NULL. The caller sees to it that nobody removes it meanwhile.
  T* find(uint64_t handle) const noexcept {
    const uint64_t slot = HandleParts::slot(handle);
    const Slot* chunk = chunks_[slot / kChunk].load(std::memory_order_acquire);
    if (chunk == nullptr || handle == 0) return nullptr;
    const Slot& entry = chunk[slot % kChunk];
    if (entry.handle.load(std::memory_order_acquire) != handle) return nullptr;
    return entry.object.load(std::memory_order_relaxed);
  }

  // A reference to the live object that `handle` names, safe against a concurrent removal; empty when there is none.
  Ref<T> acquire(uint64_t handle) const {
    const std::lock_guard lock(mutex_);
    return Ref<T>::try_share(find(handle));
  }

  // Ends the name. False when it was not live: of several callers exactly one wins.
  bool remove(uint64_t handle) noexcept {
    if (find(handle) == nullptr) return false;
    const std::lock_guard lock(mutex_);
    const uint64_t slot = HandleParts::slot(handle);
    Slot& entry = at(slot);
    if (entry.handle.load(std::memory_order_relaxed) != handle) return false;
    entry.handle.store(0, std::memory_order_release);
    entry.object.store(nullptr, std::memory_order_relaxed);
    --live_;
    if (entry.next_generation <= HandleParts::kGenerationMask) {
      entry.next_free = first_free_;
      first_free_ = slot;
    }
    return true;
  }

  uint64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> handle{0};
    std::atomic<T*> object{nullptr};  // read while another thread ends the name
    uint64_t next_free = kNone;
    uint64_t next_generation = 0;
  };
  static constexpr uint64_t kChunk = 4096;
  static constexpr uint64_t kNone = ~uint64_t{0};

  Slot& at(uint64_t slot) noexcept { return chunks_[slot / kChunk].load(std::memory_order_relaxed)[slot % kChunk]; }

  uint64_t take_slot() {
    if (first_free_ != kNone) {
      const uint64_t slot = first_free_;
      first_free_ = at(slot).next_free;
      return slot;
    }
    require<Message::out_of_handles>(used_ <= HandleParts::kSlotMask, "KINA-STATUS-44", {});
    if (used_ % kChunk == 0) chunks_[used_ / kChunk].store(new Slot[kChunk], std::memory_order_release);
    return used_++;
  }

  mutable Mutex mutex_{Mutex::Place::inner};
  std::array<std::atomic<Slot*>, (HandleParts::kSlotMask + 1) / kChunk> chunks_{};
  uint64_t first_free_ = kNone;
  uint64_t used_ = 0;
  uint64_t live_ = 0;
  Kind kind_;
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
