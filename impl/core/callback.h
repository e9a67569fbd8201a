// What is kept safe while the caller's code runs inside a call of the library.
#pragma once

#include <optional>
#include <utility>

#include "impl/core/thread.h"

namespace kina {

// Failures of calls that a callback makes do not show in the record of the call that it serves. The record is kept when
// the first of them comes, if any does.
class CallbackGuard {
 public:
  CallbackGuard() noexcept : block_(thread_block()) {
    if (block_ == nullptr) {
      kept_ = error_record();
    } else {
      outer_ = std::exchange(block_->callback, this);
    }
  }
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;
  ~CallbackGuard() {
    if (block_ != nullptr) block_->callback = outer_;
    if (kept_) [[unlikely]]
      (block_ == nullptr ? changing_error_record() : block_->record) = *kept_;
  }

  void keep(const ErrorRecord& record) noexcept {
    if (!kept_) kept_ = record;
  }

 private:
  ThreadBlock* const block_;
  CallbackGuard* outer_ = nullptr;
  std::optional<ErrorRecord> kept_;
};

}  // namespace kina
