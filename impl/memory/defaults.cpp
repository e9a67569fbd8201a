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

Ref<Resource> default_resource(Device& device) {
  Ref<Resource> installed = installed_default(device);
  return installed ? installed : built_in(device);
}

// Puts `resource` in the place of what is installed; `built` is the built-in default, if it is made already.
void swap_default(Device& device, Installation& resource, Resource* built) noexcept {
  std::swap(device.default_resource, resource);
  Resource* installed = device.default_resource.get();
  device.default_in_force.store(installed == nullptr ? built : installed, std::memory_order_release);
}

// The default that nobody has asked for yet: from here on it is known.
void make_default_known(Device& device) {
  Ref<Resource> built = built_in(device);
  const std::lock_guard lock(device.mutex);
  if (!device.default_resource) device.default_in_force.store(built.get(), std::memory_order_release);
}

}  // namespace

void replace_default(Device& device, Installation resource) {
  if (resource) {
    const std::lock_guard lock(device.mutex);
    return swap_default(device, resource, nullptr);
  }
  Ref<Resource> built;
  {
    BuiltIns& all = built_ins();
    const std::lock_guard lock(all.mutex);
    built = all.find(device);
  }
  const std::lock_guard lock(device.mutex);
  swap_default(device, resource, built.get());
}

// The built-in default may refuse to be made, so that comes before anything changes.
uint64_t exchange_default(Device& device, Installation resource) {
  if (resource) {
    const std::lock_guard lock(device.mutex);
    if (const Resource* before = device.default_in_force.load(std::memory_order_relaxed)) {
      const uint64_t handle = before->handle;
      swap_default(device, resource, nullptr);
      return handle;
    }
  }
  while (true) {
    const Ref<Resource> built = installed_default(device) ? nullptr : built_in(device);
    const std::lock_guard lock(device.mutex);
    if (!device.default_resource && !built) continue;  // it was taken away in between
    swap_default(device, resource, built.get());
    return resource ? resource.get()->handle : built->handle;
  }
}

Lease<Resource> look_at_current_resource(Device& device) {
  ThreadBlock* block = thread_block();
  LeaseRow* row = block == nullptr ? nullptr : &block->leases;
  Resource* bound = block == nullptr ? nullptr : block->scopes.bound_resource(device);
  if (bound != nullptr)
    return lease<Resource>(
        row, [&] { return bound; }, [&] { return Ref<Resource>::share(bound); });
  const auto find = [&] { return device.default_in_force.load(std::memory_order_acquire); };
  while (true) {
    while (find() == nullptr) make_default_known(device);
    if (Lease<Resource> found = lease<Resource>(row, find, [&] { return default_resource(device); })) return found;
  }
}

Ref<Resource> current_resource(Device& device) {
  while (true)
    if (Ref<Resource> kept = Ref<Resource>::try_share(look_at_current_resource(device).get())) return kept;
}

}  // namespace kina
