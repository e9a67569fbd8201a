// The host: work runs where it is launched, streams are always idle.
#pragma once

#include "impl/backend/backend.h"

namespace kina {

Backend& host_backend() noexcept;

}  // namespace kina
