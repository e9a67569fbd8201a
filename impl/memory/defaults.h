// The resource in force where nothing is pushed.
#pragma once

#include "impl/core/resource.h"

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

}  // namespace kina
