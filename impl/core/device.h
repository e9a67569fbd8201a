// The devices of the process, found at the first use and never torn down.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "impl/core/imports.h"
#include "impl/core/mutex.h"
#include "impl/core/resource.h"
#include "impl/core/stream.h"

namespace kina {

class Device {
 public:
  Device(Backend& backend, int32_t id);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Backend& backend() const noexcept { return backend_; }
  bool is_asynchronous() const noexcept { return is_asynchronous_; }  // as the backend says
  int32_t type() const noexcept { return type_; }
  int32_t id() const noexcept { return id_; }
  DLDevice name() const noexcept { return {static_cast<DLDeviceType>(type()), id_}; }

  // The main stream, made once, and the stable stream of phase n.
  Stream& main() const noexcept { return *main_; }
  Ref<Stream> phase(int32_t n);
  // A stream for one caller, until it is checked in.
  Ref<Stream> checkout();
  // Ends the name of a checked-out stream; the stream itself is given out again under another one.
  void checkin(Stream& stream, uint64_t handle, Argument argument);
  // The stream of a native handle of the caller, one for every import of it, and the end of one import.
  Stream& import(NativeStream native);
  void end_import(Stream& stream, uint64_t handle, Argument argument);
  // See imports.h; the library's own streams serve without a count.
  void begin_service(Stream& stream);
  void end_service(Stream& stream) noexcept;
  // All streams that the device has, those that are checked in included: work may still be on them.
  std::vector<Ref<Stream>> all_streams() const;

  // The built-in default resource, and the default in force, which is that or an installed one; NULL until somebody has
  // needed one. Both change under the mutex of defaults, which guards kept_default as well.
  std::atomic<Resource*> built_in_default{nullptr};
  std::atomic<Resource*> default_in_force{nullptr};
  Ref<Resource> kept_default;  // the default in force, where nothing else keeps it
  mutable Mutex mutex;         // guards the streams

 private:
  Stream::Ending end_checkout(Stream& stream, uint64_t handle, Argument argument);

  Backend& backend_;
  const int32_t type_;
  const int32_t id_;
  const bool is_asynchronous_;
  Ref<Stream> main_;
  std::map<int32_t, Ref<Stream>> phases_;
  std::vector<Ref<Stream>> pooled_;
  Imports imports_{*this};
  std::vector<Stream*> idle_;  // of these, checked in; room for all, so that a checkin never allocates
};

// The devices that some call has found, for which nearly every call asks; DLPack's types are small.
inline constexpr uint32_t kKnownTypes = 32, kKnownIds = 16;
inline constinit std::array<std::atomic<Device*>, size_t{kKnownTypes} * kKnownIds> known_devices{};
// NULL says nothing.
inline Device* known_device(int32_t type, int32_t id) noexcept {
  const auto row = static_cast<uint32_t>(type), place = static_cast<uint32_t>(id);
  if (row >= kKnownTypes || place >= kKnownIds) return nullptr;
  return known_devices[row * kKnownIds + place].load(std::memory_order_acquire);
}

// The device of a type and id: a type without devices is UNSUPPORTED, an id outside is INVALID_ARGUMENT.
Device& find_device(int32_t device_type, int32_t device_id, Argument type_argument, Argument id_argument);
inline Device& require_device(int32_t device_type, int32_t device_id, Argument type_argument, Argument id_argument) {
  Device* known = known_device(device_type, device_id);
  return known != nullptr ? *known : find_device(device_type, device_id, type_argument, id_argument);
}

// Memory that the host reads itself: its own, page-locked and managed. Work on it runs on the host, whatever its device
// id.
constexpr bool is_read_by_host(int32_t device_type) noexcept {
  return device_type == kDLCPU || device_type == kDLCUDAHost || device_type == kDLCUDAManaged;
}

// As above, where the rest of tier 3 lies between the two halves: first an id outside, last a type without devices.
void require_device_id(int32_t device_type, int32_t device_id, Argument id_argument);
void require_device_type(int32_t device_type, Argument type_argument);
[[noreturn]] void refuse_device_type(int32_t device_type, const char* clause, Argument argument);

// How many devices a type has; 0 for every type that this build does not know.
int32_t device_count(int32_t device_type) noexcept;

// The host.
Device& host_device();

// DEVICE_LOST where the device can do no more work, as can happen to those whose work runs behind the call.
void require_not_lost(const Device& device);
inline void require_alive(const Device& device) {
  if (device.is_asynchronous()) require_not_lost(device);
}

// The stream of a call that names none: rules 1 and 2, else main. With operands, see operation.h.
Stream& current_stream(Device& device) noexcept;

// The composition root's list, NULL-terminated. Defined in impl/backends.cpp.
Backend* const* backends() noexcept;

}  // namespace kina
