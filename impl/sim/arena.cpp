// Mapping, first fit and poison of a simulated device's memory.
#include "impl/sim/arena.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <new>

namespace kina::sim {
namespace {

constexpr uint64_t kGranule = 256;
constexpr uint64_t kBehind = 4096;
constexpr int kPoison = 0xDB;

std::byte* map(uint64_t bytes, int protection) {
  void* data = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(data);
}

constexpr uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

// Two ranges of one size: the outer one only names bytes, so that touching it from outside faults. Nothing else lies
// right behind it, where a pointer past the end points.
Arena::Arena(uint64_t bytes)
    : bytes_(round_up(bytes == 0 ? 1 : bytes, uint64_t{1} << 16)),
      outer_(map(bytes_ + kBehind, PROT_NONE)),
      inner_(map(bytes_, PROT_READ | PROT_WRITE)) {
  free_.emplace(0, bytes_);
}

void* Arena::allocate(uint64_t bytes, uint64_t alignment) noexcept {
  if (bytes == 0 || bytes > bytes_ || alignment > bytes_) return nullptr;
  const uint64_t size = round_up(bytes, kGranule);
  const auto base = reinterpret_cast<uint64_t>(outer_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [start, room] = *range;
    const uint64_t skip = round_up(base + start, alignment) - base - start;
    if (skip > room || size > room - skip) continue;
    try {
      if (skip != 0 && size != room - skip) free_.emplace(start + skip + size, room - skip - size);
    } catch (...) {
      return nullptr;
    }
    const uint64_t offset = start + skip;
    if (skip != 0) {
      range->second = skip;
    } else {
      auto node = free_.extract(range);
      if (size != room) {
        node.key() = offset + size;
        node.mapped() = room - size;
        free_.insert(std::move(node));
      }
    }
    used_bytes_ += size;
    poison(offset, size);
    return outer_ + offset;
  }
  return nullptr;
}

void Arena::deallocate(void* data, uint64_t bytes) noexcept {
  uint64_t offset = static_cast<uint64_t>(static_cast<std::byte*>(data) - outer_);
  uint64_t size = round_up(bytes, kGranule);
  poison(offset, size);
  used_bytes_ -= size;
  const auto next = free_.lower_bound(offset);
  const bool joins_next = next != free_.end() && next->first == offset + size;
  const auto previous = next == free_.begin() ? free_.end() : std::prev(next);
  const bool joins_previous = previous != free_.end() && previous->first + previous->second == offset;
  if (joins_previous) {
    previous->second += size;
    if (joins_next) {
      previous->second += next->second;
      free_.erase(next);
    }
  } else if (joins_next) {
    auto node = free_.extract(next);
    node.key() = offset;
    node.mapped() += size;
    free_.insert(std::move(node));
  } else {
    try {
      free_.emplace(offset, size);
    } catch (...) {
      used_bytes_ += size;  // no memory to remember it: the range is out of use for good
    }
  }
}

bool Arena::contains(const void* address) const noexcept {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= outer_ && byte <= outer_ + bytes_;
}

std::byte* Arena::inside(const void* address) const noexcept {
  return inner_ + (static_cast<const std::byte*>(address) - outer_);
}

void Arena::poison(uint64_t offset, uint64_t bytes) noexcept { std::memset(inner_ + offset, kPoison, bytes); }

}  // namespace kina::sim
