// An adaptor that refuses what would lift its live bytes above a bound.
#pragma once

#include "impl/memory/adaptor.h"

namespace kina {

class LimitResource final : public AdaptorResource {
 public:
  LimitResource(const Ref<Resource>& upstream, uint64_t maximum_bytes)
      : AdaptorResource("limit", upstream), maximum_bytes_(maximum_bytes) {}
  void describe(KinaResourceInfo& info) const noexcept override;
  Bound bound() const noexcept override { return {maximum_bytes_, claimed_bytes_.load(std::memory_order_relaxed)}; }
  void leak(void* data, uint64_t bytes, uint64_t alignment) noexcept override;

 private:
  ~LimitResource() override = default;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                       Stream& stream) noexcept override;
  bool claim(uint64_t bytes) noexcept;
  void unclaim(uint64_t bytes) noexcept { claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  const uint64_t maximum_bytes_;
  std::atomic<uint64_t> claimed_bytes_{0};  // live ones and those on their way: never above the maximum
};

}  // namespace kina
