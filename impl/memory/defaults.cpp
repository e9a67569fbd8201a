// Built-in defaults, and the resource that allocations of a thread come from.
#include "impl/memory/defaults.h"

#include <vector>

#include "impl/core/device.h"
#include "impl/core/mutex.h"
#include "impl/core/thread.h"
#include "impl/memory/configuration.h"
#include "impl/memory/host.h"

namespace kina {
namespace {

struct BuiltIn {
  Device* device;
  Ref<Resource> resource;
};
struct BuiltIns {
  Mutex mutex;
  std::vector<BuiltIn> made;

  Ref<Resource> find(const Device& device) const {
    for (const BuiltIn& entry : made)
      if (entry.device == &device) return entry.resource;
    return nullptr;
  }
};
BuiltIns& built_ins() {
  static auto& all = *new BuiltIns;
  return all;
}

Ref<Resource> make_built_in(Device& device) {
  const DevicePlan* plan = environment_configuration().find(device.type());
  Ref<Resource> made = plan == nullptr ? make_device_resource(device) : make_planned(*plan, device);
  name_resource(*made);
  return made;
}

// It is made outside the lock: its maker may log, start a thread or allocate. Of two threads that make it, one wins.
Ref<Resource> built_in(Device& device) {
  BuiltIns& all = built_ins();
  {
    const std::lock_guard lock(all.mutex);
    if (Ref<Resource> found = all.find(device)) return found;
  }
  Ref<Resource> made = make_built_in(device);
  const std::lock_guard lock(all.mutex);
  if (Ref<Resource> found = all.find(device)) return found;
  all.made.push_back({&device, made});
  return made;
}

Ref<Resource> installed_default(const Device& device) {
  const std::lock_guard lock(device.mutex);
  return device.default_resource.resource();
}

}  // namespace

Ref<Resource> default_resource(Device& device) {
  Ref<Resource> installed = installed_default(device);
  return installed ? installed : built_in(device);
}

void replace_default(Device& device, Installation resource) {
  const std::lock_guard lock(device.mutex);
  std::swap(device.default_resource, resource);
}

// The built-in default may refuse to be made, so that comes before anything changes.
uint64_t exchange_default(Device& device, Installation resource) {
  while (true) {
    const Ref<Resource> built = installed_default(device) ? nullptr : built_in(device);
    const std::lock_guard lock(device.mutex);
    if (!device.default_resource && !built) continue;  // it was taken away in between
    std::swap(device.default_resource, resource);
    return resource ? resource.get()->handle : built->handle;
  }
}

Ref<Resource> current_resource(Device& device) {
  const ThreadBlock* block = thread_block();
  if (Resource* bound = block == nullptr ? nullptr : block->scopes.bound_resource(device))
    return Ref<Resource>::share(bound);
  return default_resource(device);
}

}  // namespace kina
