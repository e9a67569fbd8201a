// Numbers that one thread at a time changes, and that reports read meanwhile.
#pragma once

#include <atomic>
#include <cstdint>

namespace kina {

// Changed with some lock, read without it: who asks for a report keeps nobody from that lock.
class Figure {
 public:
  explicit Figure(uint64_t value = 0) noexcept : value_(value) {}
  Figure(const Figure&) = delete;
  Figure& operator=(const Figure&) = delete;

  uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(uint64_t more) noexcept { set(get() + more); }
  void subtract(uint64_t less) noexcept { set(get() - less); }

 private:
  std::atomic<uint64_t> value_;
};

}  // namespace kina
