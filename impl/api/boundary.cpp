// From an Error to the thread's record.
#include "impl/api/boundary.h"

#include <cstring>

#include "impl/core/log.h"
#include "impl/core/thread.h"

namespace kina {

KinaStatus report(const Call& call, const Error& error) noexcept {
  ErrorRecord& record = changing_error_record();
  record.status = error.status;
  record.function = call.function;
  record.error = error;
  log_failure(call.function, error);
  return error.status;
}

}  // namespace kina
