// How blocks that threads gave back for others become whole fours again.
#include "impl/memory/apart.h"

#include <bit>

namespace kina {

bool Apart::lay_next(Lane& lane, uint32_t size_class, uint32_t most) noexcept {
  uint32_t count = 0;
  Block* list = lists_.take(size_class, count);
  if (list == nullptr) return false;
  Block* batch = nullptr;
  uint32_t in_batch = 0;
  int32_t more = 0;
  while (list != nullptr) {
    uint32_t laid = 0;
    Slab::Fours whole = Slab::find(list->address())->lay_apart(list, laid);
    more += static_cast<int32_t>(laid) - std::popcount(whole.bits);
    while (whole.bits != 0) {
      const int last = 63 - std::countl_zero(whole.bits);
      const int first = last - last % static_cast<int>(Slab::kFour);
      if (in_batch + Slab::kFour > most)
        lane.put(size_class, std::exchange(batch, nullptr), std::exchange(in_batch, 0), lane.position());
      for (int at = last; at >= first; --at, ++in_batch)
        whole.blocks[at].next = std::exchange(batch, &whole.blocks[at]);
      whole.bits &= (uint64_t{1} << first) - 1;
    }
  }
  if (batch != nullptr) lane.put(size_class, batch, in_batch, lane.position());
  if (more != 0) counts_[size_class].fetch_add(more, std::memory_order_relaxed);
  return true;
}

Block* Apart::take(Slab* slabs, uint32_t size_class, uint32_t most, uint32_t& count) noexcept {
  if (this->count(size_class) == 0) return nullptr;
  Slab*& place = places_[size_class];
  const auto look = [&](Slab* slab, const Slab* end) -> Block* {
    for (; slab != end; slab = slab->next) {
      Block* taken = slab->size_class() == size_class ? slab->take_apart(most, count) : nullptr;
      if (taken == nullptr) continue;
      place = slab;
      counts_[size_class].fetch_sub(static_cast<int32_t>(count), std::memory_order_relaxed);
      return taken;
    }
    return nullptr;
  };
  Slab* const start = place == nullptr ? slabs : place;
  Block* taken = look(start, nullptr);
  return taken != nullptr ? taken : look(slabs, start);
}

void Apart::forget(Slab& slab) noexcept {
  places_[slab.size_class()] = nullptr;
  counts_[slab.size_class()].fetch_sub(static_cast<int32_t>(slab.count_apart()), std::memory_order_relaxed);
}

}  // namespace kina
