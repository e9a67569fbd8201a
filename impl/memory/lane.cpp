// Batches on their way between the caches of threads and their stream's lane.
#include "impl/memory/lane.h"

namespace kina {

Lane::~Lane() {
  while (used != nullptr) delete std::exchange(used, used->next);
}

void Lane::push(uint32_t size_class, Block* first) noexcept {
  Head& head = heads_[size_class];
  uint64_t seen = head.load(std::memory_order_relaxed);
  do {
    first->next_batch.store(block_of(seen), std::memory_order_relaxed);
  } while (!head.compare_exchange_weak(seen, after(seen, first), std::memory_order_acq_rel, std::memory_order_relaxed));
}

void Lane::put(uint32_t size_class, Block* first, uint32_t count, uint64_t position) noexcept {
  first->start_batch(count, position);
  push(size_class, first);
}

Block* Lane::take(uint32_t size_class, uint32_t& count) noexcept {
  Head& head = heads_[size_class];
  uint64_t seen = head.load(std::memory_order_acquire);
  while (Block* first = block_of(seen)) {
    const Block* following = first->next_batch.load(std::memory_order_relaxed);
    if (!head.compare_exchange_weak(seen, after(seen, following), std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    count = first->batch_count();
    return first;
  }
  return nullptr;
}

void Lane::gather() noexcept {
  for (uint32_t i = 0; i < SizeClasses::kCount; ++i) {
    uint64_t seen = heads_[i].load(std::memory_order_acquire);
    while (!heads_[i].compare_exchange_weak(seen, after(seen, nullptr), std::memory_order_acq_rel)) {
    }
    gathered[i] = block_of(seen);
  }
}

void Lane::scatter() noexcept {
  for (uint32_t i = 0; i < SizeClasses::kCount; ++i)
    while (Block* first = gathered[i]) {
      gathered[i] = first->next_batch.load(std::memory_order_relaxed);
      push(i, first);
    }
}

void Lane::put(UsedBlock* given) noexcept {
  const std::lock_guard lock(mutex);
  given->next = std::exchange(used, given);
}

}  // namespace kina
