// Claims before the upstream is asked, so that racing requests cannot pass the bound together.
#include "impl/memory/limit.h"

namespace kina {

bool LimitResource::claim(uint64_t bytes) noexcept {
  uint64_t claimed = claimed_bytes_.load(std::memory_order_relaxed);
  while (bytes <= maximum_bytes_ && claimed <= maximum_bytes_ - bytes)
    if (claimed_bytes_.compare_exchange_weak(claimed, claimed + bytes, std::memory_order_relaxed)) return true;
  return false;
}

Allocation LimitResource::do_take(const Request& request, Stream& stream) noexcept {
  if (!claim(request.bytes)) {
    count_unasked();
    return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
  }
  const Allocation made = AdaptorResource::do_take(request, stream);
  if (made.status != KINA_SUCCESS) unclaim(request.bytes);
  return made;
}

Return LimitResource::do_give_after(std::span<const Point> uses, void* data, const Request& request,
                                    Stream& stream) noexcept {
  const Return answer = AdaptorResource::do_give_after(uses, data, request, stream);
  if (answer == Return::done) unclaim(request.bytes);
  return answer;
}

void LimitResource::leak(void* data, uint64_t bytes, uint64_t alignment) noexcept {
  AdaptorResource::leak(data, bytes, alignment);
  if (data != nullptr) unclaim(bytes);
}

void LimitResource::describe(KinaResourceInfo& info) const noexcept {
  AdaptorResource::describe(info);
  info.metadata_bytes += sizeof(*this) - sizeof(AdaptorResource);
  info.maximum_bytes = maximum_bytes_;
}

}  // namespace kina
