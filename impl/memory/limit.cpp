// Claims before the upstream is asked, so that racing requests cannot pass the bound together.
#include "impl/memory/limit.h"

namespace kina {

bool LimitResource::claim(uint64_t bytes) noexcept {
  uint64_t claimed = claimed_bytes_.load(std::memory_order_relaxed);
  while (bytes <= maximum_bytes_ && claimed <= maximum_bytes_ - bytes)
    if (claimed_bytes_.compare_exchange_weak(claimed, claimed + bytes, std::memory_order_relaxed)) return true;
  return false;
}

Allocation LimitResource::obtain(const Request& request, Stream& stream) noexcept {
  if (!claim(request.bytes)) return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
  const Allocation made = AdaptorResource::obtain(request, stream);
  if (made.status != KINA_SUCCESS) claimed_bytes_.fetch_sub(request.bytes, std::memory_order_relaxed);
  return made;
}

bool LimitResource::give_back(void* data, const Request& request, Stream& stream) noexcept {
  const bool is_back = AdaptorResource::give_back(data, request, stream);
  claimed_bytes_.fetch_sub(request.bytes, std::memory_order_relaxed);
  return is_back;
}

void LimitResource::describe(KinaResourceInfo& info) const noexcept {
  TrackedResource::describe(info);
  info.metadata_bytes += sizeof(*this) - sizeof(TrackedResource);
  info.maximum_bytes = maximum_bytes_;
}

}  // namespace kina
