// Free blocks of a pool that wait for their neighbours, so that no two threads get blocks whose records share lines.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "impl/memory/lane.h"
#include "impl/memory/slab.h"

namespace kina {

class Apart {
 public:
  // A list of blocks that any threads may have the neighbours of; costs as much as a batch that goes to a lane.
  void put(uint32_t size_class, Block* list, uint32_t count) noexcept { lists_.put(size_class, list, count, 0); }
  // Lays the blocks of one list apart. Fours that are whole then go to `lane`, in batches of `most` blocks at most.
  // False where there was no list.
  bool lay_next(Lane& lane, uint32_t size_class, uint32_t most) noexcept;
  // How many lie apart, as far as those who lay blocks are done with it.
  uint32_t count(uint32_t size_class) const noexcept {
    return static_cast<uint32_t>(std::max(counts_[size_class].load(std::memory_order_relaxed), 0));
  }

  // With the lock of the pool that has these slabs: blocks of one of them as a list of `most` at most, whoever has
  // their neighbours; NULL where none lies apart.
  Block* take(Slab* slabs, uint32_t size_class, uint32_t most, uint32_t& count) noexcept;
  // A slab of which nothing is in use ends.
  void forget(Slab& slab) noexcept;

 private:
  Lane lists_{nullptr, Stamp::kNothing};
  std::array<std::atomic<int32_t>, SizeClasses::kCount> counts_{};
  std::array<Slab*, SizeClasses::kCount> places_{};  // where some lay last; NULL: look from the first slab on
};

}  // namespace kina
