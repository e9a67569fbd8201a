// Which blocks are live, and the deallocations that are refused because of it.
#include "impl/memory/tracked.h"

namespace kina {

BlockTable::Shard& BlockTable::shard_of(const void* data) noexcept {
  const auto address = reinterpret_cast<uint64_t>(data);
  return shards_[((address >> 8) * 0x9E3779B97F4A7C15U) >> 60];
}

BlockTable::Entered BlockTable::enter(const void* data, const Request& request) noexcept {
  Shard& shard = shard_of(data);
  const std::lock_guard lock(shard.mutex);
  if (!shard.blocks.reserve_one()) return Entered::out_of_memory;
  return shard.blocks.insert(reinterpret_cast<uint64_t>(data), request) ? Entered::done : Entered::known;
}

Return BlockTable::leave(const void* data, const Request& request) noexcept {
  Shard& shard = shard_of(data);
  const std::lock_guard lock(shard.mutex);
  const Request* live = shard.blocks.find(reinterpret_cast<uint64_t>(data));
  if (live == nullptr || live->use != request.use) return Return::unknown;
  if (*live != request) return Return::different;
  shard.blocks.remove(live);
  return Return::done;
}

Return BlockTable::change_use(const void* data, const Request& request, BlockUse use) noexcept {
  Shard& shard = shard_of(data);
  const std::lock_guard lock(shard.mutex);
  Request* live = shard.blocks.find(reinterpret_cast<uint64_t>(data));
  if (live == nullptr || live->use != request.use) return Return::unknown;
  if (*live != request) return Return::different;
  live->use = use;
  return Return::done;
}

bool BlockTable::is_live(const void* data) noexcept {
  Shard& shard = shard_of(data);
  const std::lock_guard lock(shard.mutex);
  return shard.blocks.find(reinterpret_cast<uint64_t>(data)) != nullptr;
}

uint64_t BlockTable::bytes() const noexcept {
  uint64_t total = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    total += shard.blocks.bytes();
  }
  return total;
}

Allocation TrackedResource::do_take(const Request& request, Stream& stream) noexcept {
  const Allocation made = obtain(request, stream);
  if (made.status != KINA_SUCCESS || !is_remembered(request)) return made;
  switch (blocks_.enter(made.data, request)) {
    case BlockTable::Entered::done: return made;
    case BlockTable::Entered::known:  // the source gave a block out twice; giving it back would end the live one
      return {nullptr, KINA_ERROR_DEVICE};
    case BlockTable::Entered::out_of_memory: break;
  }
  if (!give_back(made.data, request, stream)) count_leaked(request.bytes);
  return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
}

Return TrackedResource::do_give(void* data, const Request& request, Stream& stream) noexcept {
  if (is_remembered(request)) {
    const Return answer = blocks_.leave(data, request);
    if (answer != Return::done) return answer;
  }
  count_given(request);
  if (!give_back(data, request, stream)) count_leaked(request.bytes);
  return Return::done;
}

Return TrackedResource::change_use(void* data, const Request& request, BlockUse use) noexcept {
  return blocks_.change_use(data, request, use);
}

void TrackedResource::describe(KinaResourceInfo& info) const noexcept {
  Resource::describe(info);
  info.metadata_bytes = sizeof(*this) + blocks_.bytes();
}

}  // namespace kina
