// Delivery of log messages.
#include "impl/core/log.h"

namespace kina {

void log_failure(const char* function, const Error& error) noexcept {
  (void)function;
  (void)error;
}

}  // namespace kina
