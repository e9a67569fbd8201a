// Entry points of the device chapter.
#include "impl/core/device.h"

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/capture.h"
#include "impl/core/check.h"
#include "impl/core/thread.h"
#include "impl/memory/pool.h"

using namespace kina;

KinaStatus runtime_device_count(int32_t* out, int32_t device_type) {
  return boundary(__func__, [&] {
    Pointer counted(out, {1, "out"});
    dereference(counted);
    *counted = device_count(device_type);
  });
}

KinaStatus runtime_device_info(KinaDeviceInfo* out, int32_t device_type, int32_t device_id) {
  return boundary(__func__, [&] {
    OutputStruct described(out, {1, "out"});
    dereference(described);
    const Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    KinaDeviceInfo info{};
    info.device_type = device.type();
    info.device_id = device.id();
    device.backend().describe(info, device.id());
    described.publish(info);
  });
}

KinaStatus runtime_device_can_access(int32_t* out, int32_t device_type, int32_t device_id, int32_t peer_id) {
  return boundary(__func__, [&] {
    Pointer answered(out, {1, "out"});
    dereference(answered);
    const Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    require_device_id(device_type, peer_id, {4, "peer_id"});
    *answered = device.backend().can_access(device_id, peer_id);
  });
}

KinaStatus runtime_device_synchronize(int32_t device_type, int32_t device_id) {
  return boundary(__func__, [&] {
    Device& device = require_device(device_type, device_id, {1, "device_type"}, {2, "device_id"});
    const std::vector<Ref<Stream>> streams = device.all_streams();
    for (const Ref<Stream>& stream : streams) require_no_capture(*stream);
    require_alive(device);
    for (const Ref<Stream>& stream : streams) wait_for(now(*stream));
    for (const Ref<Stream>& stream : streams) show_checks(*stream);
    shed_after_synchronise(device);
  });
}

namespace {

[[gnu::noinline]] KinaStatus push_device(const char* function, KinaScope* out, int32_t device_type, int32_t device_id) {
  return boundary(function, [&] {
    Pointer token(out, {1, "out"});
    dereference(token);
    Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    ScopeStack& scopes = demand_thread_block().scopes;
    Stream& bound = scopes.entry_stream(device);
    ScopeEntry entry(scopes, ScopeKind::device, &device);
    entry.bind(bound);
    *token = handle_of<KinaScope>(entry.enter());
  });
}

}  // namespace

KinaStatus runtime_device_push(KinaScope* out, int32_t device_type, int32_t device_id) {
  Device* device = known_device(device_type, device_id);
  ThreadBlock* thread = own_block();
  if (out != nullptr && device != nullptr && thread != nullptr && thread->scopes.enter_device_at_once(*out, *device))
      [[likely]]
    return KINA_SUCCESS;
  return push_device(__func__, out, device_type, device_id);
}
