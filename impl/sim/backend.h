// The simulated devices as a backend: the host's arithmetic behind queues, events and memory of their own.
#pragma once

#include "impl/backend/backend.h"

namespace kina {

Backend& simulated_backend() noexcept;

}  // namespace kina
