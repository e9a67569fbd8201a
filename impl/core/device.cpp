// Enumeration of devices and their lasting streams.
#include "impl/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "impl/core/capture.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

const char* why_absent(int32_t device_type) noexcept {
  for (Backend* const* backend = backends(); *backend != nullptr; ++backend)
    if ((*backend)->device_type() == device_type) return (*backend)->why_absent();
  return nullptr;
}

Ref<Stream> make_stream(Device& device, StreamOrigin origin) {
  Backend& backend = device.backend();
  // Ended again unless a stream with a name has it.
  struct Pending {
    Backend& backend;
    NativeStream native;
    ~Pending() {
      if (native != nullptr) backend.end_stream(native);
    }
  } pending{backend, backend.is_asynchronous() ? backend.make_stream(device.id()) : nullptr};
  Ref<Stream> stream = make_counted<Stream>(device, pending.native, origin);
  stream->handle = streams().insert(stream.get());
  pending.native = nullptr;
  return stream;
}

// The devices of each type, in the order of their ids.
class Devices {
 public:
  Devices() {
    for (Backend* const* backend = backends(); *backend != nullptr; ++backend)
      for (int32_t id = 0; id < (*backend)->device_count(); ++id)
        rows_.at(static_cast<size_t>((*backend)->device_type())).push_back(new Device(**backend, id));
    for (size_t type = 0; type < rows_.size(); ++type)
      for (size_t id = 0; id < std::min<size_t>(rows_[type].size(), kKnownIds); ++id)
        known_devices[type * kKnownIds + id].store(rows_[type][id], std::memory_order_release);
  }
  Device* find(int32_t type, int32_t id) const noexcept {
    if (static_cast<uint32_t>(type) >= rows_.size()) return nullptr;
    const std::vector<Device*>& row = rows_[static_cast<size_t>(type)];
    return static_cast<uint32_t>(id) < row.size() ? row[static_cast<size_t>(id)] : nullptr;
  }

 private:
  std::array<std::vector<Device*>, kKnownTypes> rows_;
};

const Devices& devices() {
  static const Devices& found = *new Devices;
  return found;
}

}  // namespace

Device::Device(Backend& backend, int32_t id)
    : backend_(backend),
      type_(backend.device_type()),
      id_(id),
      is_asynchronous_(backend.is_asynchronous()),
      main_(make_stream(*this, StreamOrigin::main)) {}

Ref<Stream> Device::phase(int32_t n) {
  const std::lock_guard lock(mutex);
  if (const auto found = phases_.find(n); found != phases_.end()) return found->second;
  std::map<int32_t, Ref<Stream>> made;  // its room comes first: a stream that has a name stays
  Ref<Stream>& stream = made[n];
  stream = make_stream(*this, StreamOrigin::phase);
  phases_.merge(made);
  return stream;
}

Ref<Stream> Device::checkout() {
  const std::lock_guard lock(mutex);
  if (!idle_.empty()) {
    Stream* stream = idle_.back();
    stream->handle = streams().insert(stream);
    idle_.pop_back();
    stream->reopen();
    return Ref<Stream>::share(stream);
  }
  if (pooled_.size() == pooled_.capacity()) pooled_.reserve(2 * pooled_.size() + 8);
  idle_.reserve(pooled_.capacity());
  pooled_.push_back(make_stream(*this, StreamOrigin::pooled));
  return pooled_.back();
}

void Device::checkin(Stream& stream, uint64_t handle, Argument argument) {
  require<Message::stream_not_checked_out>(stream.origin() == StreamOrigin::pooled, "KINA-STREAM-5", argument,
                                           argument.name);
  require<Message::stream_in_use>(!captures(stream), "KINA-STREAM-6", argument, argument.name);
  while (end_checkout(stream, handle, argument) == Stream::Ending::is_bound)
    require<Message::stream_in_use>(end_dead_threads(), "KINA-STREAM-6", argument, argument.name);
}

Stream::Ending Device::end_checkout(Stream& stream, uint64_t handle, Argument argument) {
  const std::lock_guard lock(mutex);
  // Another thread may have checked it in meanwhile, and a third one may have it out again under a new name.
  require<Message::stale_handle>(stream.handle == handle, "KINA-STATUS-26", argument, argument.name,
                                 word_of(Kind::stream));
  const Stream::Ending ending = stream.end();
  if (ending == Stream::Ending::is_bound) return ending;
  require<Message::stale_handle>(ending == Stream::Ending::ended, "KINA-STATUS-26", argument, argument.name,
                                 word_of(Kind::stream));
  streams().remove(handle);
  idle_.push_back(&stream);
  return ending;
}

std::vector<Ref<Stream>> Device::all_streams() const {
  const std::lock_guard lock(mutex);
  std::vector<Ref<Stream>> found = pooled_;
  for (const auto& phase : phases_) found.push_back(phase.second);
  imports_.append_to(found);
  found.push_back(main_);
  return found;
}

Stream& Device::import(NativeStream native) {
  require_alive(*this);
  const std::lock_guard lock(mutex);
  Stream& stream = imports_.add(native);
  note_foreign(stream);
  return stream;
}

void Device::end_import(Stream& stream, uint64_t handle, Argument argument) {
  const auto remove = [&] {
    const std::lock_guard lock(mutex);
    return imports_.remove(stream, handle, argument);
  };
  while (remove() == Stream::Ending::is_bound)
    require<Message::stream_in_use>(end_dead_threads(), "KINA-STREAM-50", argument, argument.name);
}

void Device::begin_service(Stream& stream) {
  if (stream.origin() != StreamOrigin::imported) return;
  const std::lock_guard lock(mutex);
  imports_.begin_service(stream);
}

void Device::end_service(Stream& stream) noexcept {
  if (stream.origin() != StreamOrigin::imported) return;
  const std::lock_guard lock(mutex);
  imports_.end_service(stream);
}

int32_t device_count(int32_t device_type) noexcept {
  for (Backend* const* backend = backends(); *backend != nullptr; ++backend)
    if ((*backend)->device_type() == device_type) return (*backend)->device_count();
  return 0;
}

void require_device_id(int32_t device_type, int32_t device_id, Argument id_argument) {
  if (known_device(device_type, device_id) != nullptr) [[likely]]
    return;
  const int32_t count = device_count(device_type);
  require<Message::device_id_outside>(count == 0 || (device_id >= 0 && device_id < count), "KINA-STATUS-24",
                                      id_argument, device_of(device_type, device_id), count);
}

void require_device_type(int32_t device_type, Argument type_argument) {
  if (device_count(device_type) == 0) [[unlikely]]
    refuse_device_type(device_type, "KINA-STATUS-24", type_argument);
}

void refuse_device_type(int32_t device_type, const char* clause, Argument argument) {
  const auto type = static_cast<DLDeviceType>(device_type);
  if (const char* why = why_absent(device_type)) refuse<Message::device_type_absent_why>(clause, argument, type, why);
  refuse<Message::device_type_absent>(clause, argument, type);
}

Device& find_device(int32_t device_type, int32_t device_id, Argument type_argument, Argument id_argument) {
  require_device_id(device_type, device_id, id_argument);
  require_device_type(device_type, type_argument);
  if (Device* device = devices().find(device_type, device_id)) return *device;
  refuse<Message::internal>("KINA-STATUS-24", type_argument, "a counted device was not enumerated");
}

Device& host_device() {
  static Device& host = require_device(kDLCPU, 0, {}, {});
  return host;
}

void require_not_lost(const Device& device) {
  require<Message::device_lost>(!device.backend().is_lost(device.id()), "KINA-DEVICE-21", {}, device.name());
}

Stream& current_stream(Device& device) noexcept {
  const ThreadBlock* block = thread_block();
  Stream* bound = block == nullptr ? nullptr : block->scopes.bound_stream(device);
  return bound == nullptr ? device.main() : *bound;
}

}  // namespace kina
