// The log of the process: one callback, heard at or below a level.
#pragma once

#include "impl/core/error.h"

namespace kina {

// Hands `text` to the callback if it listens at `level`. Never throws; call it under no lock.
void log_message(KinaLogLevel level, const char* text) noexcept;

// Hands a failing call to the callback at KINA_LOG_DEBUG.
void log_failure(const char* function, const Error& error) noexcept;

// Puts `callback` in force, NULL for none, and returns when no other thread is inside the old one.
void listen(KinaLogCallback callback, void* context, KinaLogLevel level) noexcept;

// Whether the calling thread is inside the log callback.
bool is_logging() noexcept;

}  // namespace kina
