// A memory resource: where bytes come from. Adaptors hold another one upstream.
#pragma once

#include "impl/core/counted.h"
#include "impl/core/handle.h"

namespace kina {

class Device;
class Stream;

inline constexpr uint64_t kStorageAlignment = 256;

class Resource : public Counted {
 public:
  explicit Resource(Device& device) : device_(device) {}

  Device& device() const noexcept { return device_; }

  // `bytes` bytes on the device, ordered after the work on `stream`; NULL for zero bytes. `alignment`: a power of two, 0
  // for the resource's own. Throws OUT_OF_MEMORY or what the upstream refused with.
  void* allocate(uint64_t bytes, uint64_t alignment, Stream& stream);
  // Gives back what `allocate` gave for the same numbers; the bytes are free for reuse once `stream` has passed.
  void deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream& stream) noexcept;

  virtual const char* name() const noexcept = 0;
  virtual bool supports_streams() const noexcept = 0;
  // Fills what the resource knows of `info`; sizes and counters, not the identity.
  virtual void describe(KinaResourceInfo& info) const = 0;
  virtual Resource* upstream() const noexcept { return nullptr; }
  // Gives unused bytes beyond `keep_bytes` back upstream; returns how many.
  virtual uint64_t trim(uint64_t keep_bytes) {
    (void)keep_bytes;
    return 0;
  }

  uint64_t handle = 0;  // 0: not named yet

 protected:
  virtual void* do_allocate(uint64_t bytes, uint64_t alignment, Stream& stream) = 0;
  virtual void do_deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream& stream) noexcept = 0;

 private:
  Device& device_;
};

HandleTable<Resource>& resources();

// The resource in force for a device on this thread: innermost push, else the device's default. Defined by impl/memory.
Ref<Resource> current_resource(Device& device);

}  // namespace kina
