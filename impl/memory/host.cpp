// Requests to the device, one for one.
#include "impl/memory/host.h"

#include "impl/core/device.h"

namespace kina {

Ref<Resource> make_device_resource(Device& device) {
  return make_counted<DeviceResource>(device, device.type() == kDLCPU ? "host" : "sim");
}

Allocation DeviceResource::obtain(const Request& request, Stream&) noexcept {
  counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
  void* data = device().backend().allocate(device().id(), request.bytes, request.alignment);
  return {data, data == nullptr ? KINA_ERROR_OUT_OF_MEMORY : KINA_SUCCESS};
}

// The device takes memory back at once, so what was enqueued on the stream has to be over. Where that cannot be learned
// the block is not given back.
bool DeviceResource::give_back(void* data, const Request& request, Stream& stream) noexcept {
  if (!settle(stream)) return false;
  counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
  device().backend().deallocate(device().id(), data, request.bytes, request.alignment);
  return true;
}

}  // namespace kina
