// Failures, and the lowest one under some bytes.
#include "impl/core/failure.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

// The failures that live, for causes given by id. Failures are rare: a chain is enough.
struct LiveFailures {
  Mutex mutex;
  Failure* newest = nullptr;
};

LiveFailures& live_failures() noexcept {
  static Lasting<LiveFailures> live;
  return *live;
}

uint64_t next_failure() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::unique_ptr<char[]> copy_of(const char* text) {
  if (text == nullptr) text = "";
  const size_t bytes = std::strlen(text) + 1;
  auto copy = std::make_unique<char[]>(bytes);
  std::memcpy(copy.get(), text, bytes);
  return copy;
}

}  // namespace

Failure::Failure(KinaStatus root_status, const char* root_function, const char* message)
    : id(next_failure()), status(root_status), function(root_function), message_(copy_of(message)) {
  LiveFailures& live = live_failures();
  const std::lock_guard lock(live.mutex);
  older_ = live.newest;
  if (older_ != nullptr) older_->newer_ = this;
  live.newest = this;
}

Failure::~Failure() {
  LiveFailures& live = live_failures();
  const std::lock_guard lock(live.mutex);
  if (older_ != nullptr) older_->newer_ = newer_;
  (newer_ != nullptr ? newer_->older_ : live.newest) = older_;
}

Ref<Failure> Failure::make(KinaStatus status, const char* function, const char* message) {
  return Ref<Failure>::adopt(new Failure(status, function, message));
}

Ref<Failure> Failure::find(uint64_t id) {
  LiveFailures& live = live_failures();
  const std::lock_guard lock(live.mutex);
  for (Failure* failure = live.newest; failure != nullptr; failure = failure->older_)
    if (failure->id == id) return failure->try_retain() ? Ref<Failure>::adopt(failure) : nullptr;
  return nullptr;
}

Chain Chain::after(const char* function) const noexcept {
  Chain next;
  next.total = total + 1;
  next.names[0] = function;
  std::copy(names, names + kNames - 1, next.names + 1);
  return next;
}

FailedRange FailureMap::lowest(const Runs& runs) const noexcept {
  const FailedRange* lowest = nullptr;
  uint64_t byte = 0;
  if (runs.bytes == 0 || find(runs.first, runs.last()) == nullptr) return {};
  runs.for_each([&](uint64_t start, uint64_t end) {
    const FailedRange* range = find(start, end);
    if (range == nullptr || (lowest != nullptr && byte <= std::max(start, range->start))) return true;
    lowest = range;
    byte = std::max(start, range->start);
    return true;
  });
  if (lowest == nullptr) return {};
  uint64_t end = lowest->end;
  for (const FailedRange* next = lowest + 1; next != this->end(); ++next) {
    if (next->start != end || next->claim->root->id != lowest->claim->root->id) break;
    end = next->end;
  }
  return {byte, std::min(end, runs.last()), lowest->claim};
}

}  // namespace kina
