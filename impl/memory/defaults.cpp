// Built-in defaults, and the resource that allocations of a thread come from.
#include "impl/memory/defaults.h"

#include <vector>

#include "impl/core/device.h"
#include "impl/core/mutex.h"
#include "impl/core/resident_mutex.h"
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

// The default that nobody has asked for yet: from here on it is known.
void make_default_known(Device& device) {
  Resource* built = built_in(device).get();
  const std::lock_guard lock(defaults_mutex());
  built->is_kept.store(true, std::memory_order_relaxed);
  device.built_in_default.store(built, std::memory_order_release);
  if (device.default_in_force.load(std::memory_order_relaxed) == nullptr)
    device.default_in_force.store(built, std::memory_order_release);
}

// The default in force; none where nobody has asked for one yet, or just now it became another one.
Lease<Resource> look_at_default(Device& device) {
  ThreadBlock* block = thread_block();
  return lease<Resource>(
      block == nullptr ? nullptr : &block->leases,
      [&] { return device.default_in_force.load(std::memory_order_acquire); }, [&] { return share_default(device); });
}

// Puts `chosen` in force, the built-in default where it is NULL. What was in force before cannot end until then, so
// that its name is read here; 0 where nobody has asked for a default yet.
uint64_t swap_default(Device& device, Resource* chosen, Ref<Resource>& kept) {
  const ResidentLock lock(defaults_mutex(), demand_thread_block().in_defaults);
  const Resource* before = device.default_in_force.load(std::memory_order_relaxed);
  const uint64_t name = before == nullptr ? 0 : before->handle;
  if (chosen == nullptr) chosen = device.built_in_default.load(std::memory_order_relaxed);
  device.default_in_force.store(chosen, std::memory_order_release);
  if (kept || device.kept_default) [[unlikely]]
    std::swap(kept, device.kept_default);
  return name;
}

uint64_t set_default(Device& device, const NamedResource& chosen) {
  Ref<Resource> kept;  // before and behind the change
  if (chosen.resource == nullptr) return swap_default(device, nullptr, kept);
  std::atomic<Resource*>& installing = demand_thread_block().scopes.installing;
  install_resource(installing, kept, *chosen.resource, chosen.handle, chosen.argument);
  const uint64_t before = swap_default(device, chosen.resource, kept);
  installing.store(nullptr, std::memory_order_release);
  return before;
}

}  // namespace

void replace_default(Device& device, const NamedResource& chosen) { set_default(device, chosen); }

// The built-in default may refuse to be made, so that comes before anything changes.
uint64_t exchange_default(Device& device, const NamedResource& chosen) {
  if (device.default_in_force.load(std::memory_order_acquire) == nullptr) make_default_known(device);
  const uint64_t before = set_default(device, chosen);
  return before != 0 ? before : built_in(device)->handle;  // another thread restored it before anybody asked for it
}

Lease<Resource> look_at_current_resource(Device& device) {
  ThreadBlock* block = thread_block();
  Resource* bound = block == nullptr ? nullptr : block->scopes.bound_resource(device);
  if (bound != nullptr)
    return lease<Resource>(
        &block->leases, [&] { return bound; }, [&] { return Ref<Resource>::share(bound); });
  while (true) {
    if (Lease<Resource> found = look_at_default(device)) return found;
    if (device.default_in_force.load(std::memory_order_acquire) == nullptr) make_default_known(device);
  }
}

Ref<Resource> current_resource(Device& device) {
  while (true)
    if (Ref<Resource> kept = Ref<Resource>::try_share(look_at_current_resource(device).get())) return kept;
}

}  // namespace kina
