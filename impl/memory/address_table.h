// A hash table from addresses to small values: open addressing, no allocation on removal, failure instead of
// exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace kina {

// Not synchronised. Address 0 is no key.
template <class Value>
class AddressTable {
 public:
  // Makes room for one more entry; false when host memory is out, with nothing changed.
  bool reserve_one() noexcept { return (count_ + 1) * 4 <= capacity_ * 3 || grow(); }

  // Enters `key`, for which room was reserved. False when it is there already.
  bool insert(uint64_t key, const Value& value) noexcept {
    uint64_t slot = home(key);
    while (entries_[slot].key != 0) {
      if (entries_[slot].key == key) return false;
      slot = next(slot);
    }
    entries_[slot] = {key, value};
    ++count_;
    return true;
  }

  Value* find(uint64_t key) noexcept {
    if (capacity_ == 0 || key == 0) return nullptr;
    for (uint64_t slot = home(key); entries_[slot].key != 0; slot = next(slot))
      if (entries_[slot].key == key) return &entries_[slot].value;
    return nullptr;
  }

  // Removes the entry of a value that `find` gave. Entries behind it move up, so that no tombstones pile up.
  void remove(const Value* value) noexcept {
    const auto distance_bytes =
        reinterpret_cast<const char*>(value) - reinterpret_cast<const char*>(&entries_[0].value);
    uint64_t hole = static_cast<uint64_t>(distance_bytes) / sizeof(Entry);
    for (uint64_t slot = next(hole); entries_[slot].key != 0; slot = next(slot)) {
      const uint64_t distance = (slot - home(entries_[slot].key)) & (capacity_ - 1);
      if (distance < ((slot - hole) & (capacity_ - 1))) continue;
      entries_[hole] = entries_[slot];
      hole = slot;
    }
    entries_[hole] = Entry{};
    --count_;
  }

  uint64_t count() const noexcept { return count_; }
  uint64_t bytes() const noexcept { return capacity_ * sizeof(Entry); }

 private:
  struct Entry {
    uint64_t key = 0;
    Value value{};
  };

  // The addresses of blocks share their low bits; the multiplication spreads the others into the high ones.
  uint64_t home(uint64_t key) const noexcept { return (key * 0x9E3779B97F4A7C15U) >> shift_; }
  uint64_t next(uint64_t slot) const noexcept { return (slot + 1) & (capacity_ - 1); }

  bool grow() noexcept {
    const uint64_t capacity = capacity_ == 0 ? 16 : capacity_ * 2;
    std::unique_ptr<Entry[]> larger(new (std::nothrow) Entry[capacity]);
    if (!larger) return false;
    const std::unique_ptr<Entry[]> old = std::move(entries_);
    const uint64_t old_capacity = capacity_;
    entries_ = std::move(larger);
    capacity_ = capacity;
    shift_ = __builtin_clzll(capacity) + 1;
    count_ = 0;
    for (uint64_t slot = 0; slot < old_capacity; ++slot)
      if (old[slot].key != 0) insert(old[slot].key, old[slot].value);
    return true;
  }

  std::unique_ptr<Entry[]> entries_;
  uint64_t capacity_ = 0;
  uint64_t count_ = 0;
  int shift_ = 0;
};

}  // namespace kina
