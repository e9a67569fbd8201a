// The resource in force where nothing is pushed.
#pragma once

#include "impl/core/resource.h"

namespace kina {

// Installs `resource`, or with an empty one the built-in default.
void replace_default(Device& device, Installation resource);

// The same, and returns the borrowed handle of what was the default before.
uint64_t exchange_default(Device& device, Installation resource);

}  // namespace kina
