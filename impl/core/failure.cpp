// Failures and the sorted ranges that carry them.
#include "impl/core/failure.h"

#include <algorithm>
#include <atomic>
#include <iterator>

namespace kina {
namespace {

uint64_t next_failure() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Failure::Failure(KinaStatus failure_status, const char* root_function, const char* text)
    : id(next_failure()), status(failure_status), function(root_function), message{} {
  format(message, sizeof(message), text == nullptr ? "" : text, nullptr, 0);
}

Claim Claim::after(const char* function) const {
  Claim next;
  next.root = root;
  next.skipped_total = skipped_total + 1;
  next.skipped[0] = function;
  std::copy(skipped, std::end(skipped) - 1, next.skipped + 1);
  return next;
}

const FailureMap::Range* FailureMap::find(uint64_t start, uint64_t end) const noexcept {
  const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), start,
                                      [](uint64_t byte, const Range& candidate) { return byte < candidate.end; });
  return range != ranges_.end() && range->start < end ? &*range : nullptr;
}

void FailureMap::mark(uint64_t start, uint64_t end, const Claim& claim) {
  ranges_.reserve(ranges_.size() + 2);  // room for one split and the new range: nothing below throws
  clear(start, end);
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), start,
                                   [](const Range& candidate, uint64_t byte) { return candidate.start < byte; });
  ranges_.insert(at, Range{start, end, claim});
}

bool FailureMap::clear(uint64_t start, uint64_t end) noexcept {
  auto first = std::upper_bound(ranges_.begin(), ranges_.end(), start,
                                [](uint64_t byte, const Range& candidate) { return byte < candidate.end; });
  if (first == ranges_.end() || first->start >= end) return false;
  if (first->start < start && first->end > end) {  // a hole in one range
    try {
      ranges_.insert(std::next(first), Range{end, first->end, first->claim});
    } catch (...) {
      return true;  // out of host memory: the written bytes stay failed
    }
    first = std::upper_bound(ranges_.begin(), ranges_.end(), start,
                             [](uint64_t byte, const Range& candidate) { return byte < candidate.end; });
    first->end = start;
    return true;
  }
  if (first->start < start) {
    first->end = start;
    ++first;
  }
  auto last = first;
  while (last != ranges_.end() && last->end <= end) ++last;
  if (last != ranges_.end() && last->start < end) last->start = end;
  ranges_.erase(first, last);
  return true;
}

}  // namespace kina
