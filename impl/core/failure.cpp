// Failures and the sorted ranges that carry them.
#include "impl/core/failure.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

// A strided mark is exact up to so many runs and claims its hull beyond; repairs split ranges up to the second bound.
constexpr uint64_t kExactRuns = 1024;
constexpr size_t kExactRanges = 4096;

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

bool ends_before(uint64_t byte, const FailedRange& range) noexcept { return byte < range.end; }

bool say_the_same(const Claim& a, const Claim& b) noexcept {
  return &a == &b || (a.root.get() == b.root.get() && a.skipped_total == b.skipped_total &&
                      std::equal(a.skipped, a.skipped + Claim::kNames, b.skipped));
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

Ref<Claim> Claim::after(const char* name) const {
  Ref<Claim> next = Ref<Claim>::adopt(new Claim(root));
  next->skipped_total = skipped_total + 1;
  next->skipped[0] = name;
  std::copy(skipped, skipped + kNames - 1, next->skipped + 1);
  return next;
}

const FailedRange* FailureMap::find(uint64_t start, uint64_t end) const noexcept {
  const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
  return range != ranges_.end() && range->start < end ? &*range : nullptr;
}

FailedRange FailureMap::lowest(const Runs& runs) const noexcept {
  const FailedRange* lowest = nullptr;
  uint64_t byte = 0;
  if (find(runs.first, runs.last()) == nullptr) return {};
  runs.for_each([&](uint64_t start, uint64_t end) {
    const FailedRange* range = find(start, end);
    if (range == nullptr || (lowest != nullptr && byte <= std::max(start, range->start))) return true;
    lowest = range;
    byte = std::max(start, range->start);
    return true;
  });
  if (lowest == nullptr) return {};
  uint64_t end = lowest->end;
  for (const FailedRange* next = lowest + 1; next != ranges_.data() + ranges_.size(); ++next) {
    if (next->start != end || next->claim->root->id != lowest->claim->root->id) break;
    end = next->end;
  }
  return {byte, std::min(end, runs.last()), lowest->claim};
}

void FailureMap::reserve(size_t count) {
  if (ranges_.capacity() < count) ranges_.reserve(std::max(count, 2 * ranges_.capacity()));
}

void FailureMap::mark(const Runs& runs, const Ref<Claim>& claim) {
  if (runs.bytes == 0) return;
  const uint64_t count = runs.count();
  if (count > kExactRuns) {
    reserve(ranges_.size() + 2);
    mark(runs.first, runs.last(), claim);
    return;
  }
  reserve(ranges_.size() + 2 * static_cast<size_t>(count));  // each run may split one range and adds one
  runs.for_each([&](uint64_t start, uint64_t end) {
    mark(start, end, claim);
    return true;
  });
}

void FailureMap::mark(uint64_t start, uint64_t end, const Ref<Claim>& claim) noexcept {
  clear(start, end);
  const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
  const bool joins_next = next != ranges_.end() && next->start == end && say_the_same(*next->claim, *claim);
  if (next != ranges_.begin() && std::prev(next)->end == start && say_the_same(*std::prev(next)->claim, *claim)) {
    std::prev(next)->end = joins_next ? next->end : end;
    if (joins_next) ranges_.erase(next);
  } else if (joins_next) {
    next->start = start;
  } else {
    ranges_.insert(next, FailedRange{start, end, claim});
  }
}

void FailureMap::make_room(const Runs& runs) {
  if (find(runs.first, runs.last()) == nullptr) return;
  const size_t splits = static_cast<size_t>(std::min<uint64_t>(runs.count(), kExactRanges));
  reserve(std::min(ranges_.size() + splits, std::max(ranges_.size(), kExactRanges)));
}

bool FailureMap::clear(const Runs& runs) noexcept {
  if (runs.bytes == 0 || find(runs.first, runs.last()) == nullptr) return false;
  bool was_failed = false;
  runs.for_each([&](uint64_t start, uint64_t end) {
    was_failed |= clear(start, end);
    return true;
  });
  return was_failed;
}

bool FailureMap::clear(uint64_t start, uint64_t end) noexcept {
  Iterator first = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
  if (first == ranges_.end() || first->start >= end) return false;
  if (first->start < start && first->end > end) {  // a hole in one range
    if (ranges_.size() == ranges_.capacity()) return true;
    const FailedRange behind{end, first->end, first->claim};
    first->end = start;
    ranges_.insert(std::next(first), behind);
    return true;
  }
  if (first->start < start) {
    first->end = start;
    ++first;
  }
  Iterator last = first;
  while (last != ranges_.end() && last->end <= end) ++last;
  if (last != ranges_.end() && last->start < end) last->start = end;
  ranges_.erase(first, last);
  return true;
}

}  // namespace kina
