// What is kept safe while the caller's code runs inside a call of the library.
#pragma once

#include "impl/core/thread.h"

namespace kina {

// Failures of calls that a callback makes do not show in the record of the call that it serves.
class CallbackGuard {
 public:
  CallbackGuard() noexcept : record_(error_record()) {}
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;
  ~CallbackGuard() { error_record() = record_; }

 private:
  const ErrorRecord record_;
};

}  // namespace kina
