// The memory of one simulated device: addresses that callers cannot touch, and the same bytes as the device sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace kina::sim {

class Arena {
 public:
  explicit Arena(uint64_t bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // First fit; NULL when nothing is left. The bytes are poisoned.
  void* allocate(uint64_t bytes, uint64_t alignment) noexcept;
  // Poisons the block and takes it back.
  void deallocate(void* data, uint64_t bytes) noexcept;

  bool contains(const void* address) const noexcept;
  // The address under which the device reaches a byte of this arena.
  std::byte* inside(const void* address) const noexcept;

  uint64_t total_bytes() const noexcept { return bytes_; }
  uint64_t free_bytes() const noexcept { return bytes_ - used_bytes_; }

 private:
  void poison(uint64_t offset, uint64_t bytes) noexcept;

  uint64_t bytes_;
  std::byte* outer_ = nullptr;         // what callers hold: no access
  std::byte* inner_ = nullptr;         // what the device uses
  std::map<uint64_t, uint64_t> free_;  // offset → bytes, merged
  uint64_t used_bytes_ = 0;
};

}  // namespace kina::sim
