// Plain host memory.
#pragma once

#include <atomic>

#include "impl/core/resource.h"

namespace kina {

// Every block straight from the device's raw allocator; counts what is live.
class BaseResource final : public Resource {
 public:
  explicit BaseResource(Device& device) : Resource(device) {}

  const char* name() const noexcept override { return "host"; }
  bool supports_streams() const noexcept override { return false; }
  void describe(KinaResourceInfo& info) const override;

 protected:
  void* do_allocate(uint64_t bytes, uint64_t alignment, Stream& stream) override;
  void do_deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream& stream) noexcept override;

 private:
  ~BaseResource() override = default;
  std::atomic<uint64_t> live_bytes_{0}, live_blocks_{0}, peak_bytes_{0}, allocations_{0}, deallocations_{0}, failures_{0};
};

}  // namespace kina
