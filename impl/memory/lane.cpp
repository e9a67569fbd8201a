// Batches on their way between the caches of threads and their stream's lane.
#include "impl/memory/lane.h"

namespace kina {

Lane::~Lane() {
  while (used != nullptr) delete std::exchange(used, used->next);
}

void Lane::put(uint32_t size_class, Block* first, uint32_t count, uint64_t position) noexcept {
  first->start_batch(count, position);
  const std::lock_guard lock(mutex);
  first->next_batch = std::exchange(batches[size_class], first);
}

void Lane::put(UsedBlock* given) noexcept {
  const std::lock_guard lock(mutex);
  given->next = std::exchange(used, given);
}

Block* Lane::take(uint32_t size_class, uint32_t& count) noexcept {
  const std::lock_guard lock(mutex);
  Block* first = batches[size_class];
  if (first == nullptr) return nullptr;
  batches[size_class] = first->next_batch;
  count = first->batch_count();
  return first;
}

}  // namespace kina
