// The resource in force where nothing is pushed.
#pragma once

#include <mutex>

#include "impl/core/device.h"
#include "impl/core/resource.h"
#include "impl/core/thread.h"

namespace kina {

// A resource that a call is about to make the default, by the name that it was given.
struct NamedResource {
  Resource* resource = nullptr;  // NULL: the built-in default is to be
  uint64_t handle = 0;
  Argument argument;
};

// Installs `chosen`. Throws INVALID_HANDLE where its name has ended meanwhile.
void replace_default(Device& device, const NamedResource& chosen);

// The same, and returns the borrowed handle of what was the default before.
uint64_t exchange_default(Device& device, const NamedResource& chosen);

// Gives the borrowed handle of the resource in force for the thread, in place; false where the ordinary way decides.
[[gnu::always_inline]] inline bool give_current_at_once(KinaResource& out, const Device& device,
                                                        ThreadBlock& thread) noexcept {
  if (const Resource* bound = thread.scopes.bound_resource(device); bound != nullptr) [[likely]] {
    out = handle_of<KinaResource>(bound->handle);
    return true;
  }
  LeaseRow::Place* place = thread.leases.free_place();
  if (place == nullptr) [[unlikely]]
    return false;
  const auto in_force = [&] { return device.default_in_force.load(std::memory_order_acquire); };
  Resource* seen = in_force();
  const Lease<Resource> found = lease_at(*place, seen, [=] { return in_force() == seen; });
  if (!found) [[unlikely]]
    return false;
  out = handle_of<KinaResource>(found->handle);
  return true;
}

// Installs what `handle` names, in place, where the thread goes in to the defaults by plain stores and nothing else is
// unusual; false, with nothing changed, where the ordinary way decides. `previous` may be NULL.
[[gnu::always_inline]] inline bool set_default_at_once(KinaResource* previous, Device& device, uint64_t handle,
                                                       ThreadBlock& thread) noexcept {
  const Lease<Resource> chosen = look_up_at_once(thread.leases, handle);
  if (!chosen || &chosen->device() != &device) [[unlikely]]
    return false;
  const std::unique_lock inside(thread.in_defaults, std::try_to_lock);
  const Resource* before = device.default_in_force.load(std::memory_order_relaxed);
  if (!inside || before == nullptr || device.kept_default || !install_at_once(thread.scopes.installing, *chosen))
      [[unlikely]]
    return false;
  const uint64_t name = before->handle;  // before it may end
  device.default_in_force.store(chosen.get(), std::memory_order_release);
  thread.scopes.installing.store(nullptr, std::memory_order_release);
  if (previous != nullptr) *previous = handle_of<KinaResource>(name);
  return true;
}

}  // namespace kina
