// The base resource over a device's own raw memory: every request goes to the device, nothing is kept.
#pragma once

#include "impl/memory/tracked.h"

namespace kina {

class DeviceResource final : public TrackedResource {
 public:
  // `word` is its name: "host" for the host's heap.
  DeviceResource(Device& device, const char* word) : TrackedResource(device, nullptr, word) {}
  bool supports_streams() const noexcept override { return false; }

 private:
  ~DeviceResource() override = default;
  Allocation obtain(const Request& request, Stream& stream) noexcept override;
  bool give_back(void* data, const Request& request, Stream& stream) noexcept override;
};

// The base resource of a device: "host" on the host, "sim" on a simulated one.
Ref<Resource> make_device_resource(Device& device);

}  // namespace kina
