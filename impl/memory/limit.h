// An adaptor that refuses what would lift its live bytes above a bound.
#pragma once

#include "impl/memory/tracked.h"

namespace kina {

class LimitResource final : public AdaptorResource {
 public:
  LimitResource(const Ref<Resource>& upstream, uint64_t maximum_bytes)
      : AdaptorResource("limit", upstream), maximum_bytes_(maximum_bytes) {}
  void describe(KinaResourceInfo& info) const noexcept override;

 private:
  ~LimitResource() override = default;
  Allocation obtain(const Request& request, Stream& stream) noexcept override;
  bool give_back(void* data, const Request& request, Stream& stream) noexcept override;
  bool claim(uint64_t bytes) noexcept;

  const uint64_t maximum_bytes_;
  std::atomic<uint64_t> claimed_bytes_{0};  // live ones and those on their way: never above the maximum
};

}  // namespace kina
