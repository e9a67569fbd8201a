// A stream: where a device's work is ordered. Host streams are real handles that are always idle.
#pragma once

#include <atomic>

#include "impl/backend/backend.h"
#include "impl/core/counted.h"
#include "impl/core/handle.h"
#include "impl/core/order.h"

namespace kina {

class Device;

enum class StreamOrigin : uint8_t { main, phase, pooled, imported };

class Stream final : public Counted {
 public:
  Stream(Device& device, NativeStream native, StreamOrigin origin);

  Device& device() const noexcept { return device_; }
  NativeStream native() const noexcept { return native_; }
  StreamOrigin origin() const noexcept { return origin_; }
  uint64_t serial() const noexcept { return serial_; }  // never reused; handles may come and go

  uint64_t handle = 0;
  Timeline timeline;
  std::atomic<int32_t> pushes{0};  // scopes in which it is bound: a pushed stream cannot be checked in

 private:
  ~Stream() override = default;
  Device& device_;
  NativeStream native_;
  StreamOrigin origin_;
  uint64_t serial_;
};

HandleTable<Stream>& streams();

}  // namespace kina
