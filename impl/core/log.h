// The log callback of the process.
#pragma once

#include "impl/core/error.h"

namespace kina {

// Hands a failing call to the log callback at KINA_LOG_DEBUG. Never throws; called under no lock.
void log_failure(const char* function, const Error& error) noexcept;

}  // namespace kina
