// Sorted byte ranges of one storage, each with what claims it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>
#include <vector>

#include "impl/core/counted.h"
#include "impl/core/runs.h"

namespace kina {

// A strided mark is exact up to so many runs and claims its hull beyond; clearing splits ranges up to the second bound.
inline constexpr uint64_t kExactRuns = 1024;
inline constexpr size_t kExactRanges = 4096;

// Bytes of one storage that carry one claim, counted from its first byte.
template <class Claim>
struct ClaimedRange {
  uint64_t start = 0;
  uint64_t end = 0;
  Ref<Claim> claim;
};

// Sorted, disjoint ranges, none empty; touching ones have claims that `say_the_same` tells apart. Not synchronised.
template <class Claim>
class Ranges {
 public:
  using Range = ClaimedRange<Claim>;

  bool is_empty() const noexcept { return ranges_.empty(); }
  const Range* begin() const noexcept { return ranges_.data(); }
  const Range* end() const noexcept { return ranges_.data() + ranges_.size(); }

  // The first range that has a byte in [start, stop); NULL when there is none.
  const Range* find(uint64_t start, uint64_t stop) const noexcept {
    const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
    return range != ranges_.end() && range->start < stop ? &*range : nullptr;
  }

  // Whether a byte under `runs` is claimed by `range`.
  static bool touches(const Range& range, const Runs& runs) noexcept {
    bool found = false;
    if (runs.bytes == 0 || range.end <= runs.first || runs.last() <= range.start) return false;
    runs.for_each([&](uint64_t start, uint64_t stop) {
      found = start < range.end && range.start < stop;
      return !found;
    });
    return found;
  }

  // `claim` takes over the bytes under `runs`, or their hull where there are very many runs. Throws bad_alloc with
  // nothing changed.
  void mark(const Runs& runs, const Ref<Claim>& claim) { mark(runs, claim, promise_room(runs)); }
  // The same in the room that was promised for these runs, or for more.
  void mark(const Runs& runs, const Ref<Claim>& claim, size_t promised) noexcept {
    take_back(promised);
    if (runs.bytes == 0) return;
    if (runs.count() > kExactRuns) return mark(runs.first, runs.last(), claim);
    runs.for_each([&](uint64_t start, uint64_t stop) {
      mark(start, stop, claim);
      return true;
    });
  }

  // Promises room for one `mark` of the same runs, which takes no memory then, whatever others mark and clear until
  // then: nobody else's promise is this one. It is used by that mark, or taken back. Throws bad_alloc.
  [[nodiscard]] size_t promise_room(const Runs& runs) {
    const uint64_t count = runs.bytes == 0 ? 0 : runs.count() > kExactRuns ? 1 : runs.count();
    const size_t room = static_cast<size_t>(count) * kRoomOfRun;
    reserve(ranges_.size() + promised_ + room);
    promised_ += room;
    return room;
  }
  void take_back(size_t promised) noexcept { promised_ -= promised; }
  // Of one run: it may split one range and adds one.
  static constexpr size_t kRoomOfRun = 2;

  // Makes room so that `clear` of the same runs is exact, as long as there are not too many ranges. Throws bad_alloc.
  void make_room_to_clear(const Runs& runs) {
    if (runs.bytes == 0 || find(runs.first, runs.last()) == nullptr) return;
    const size_t splits = static_cast<size_t>(std::min<uint64_t>(runs.count(), kExactRanges));
    reserve(std::min(ranges_.size() + splits, std::max(ranges_.size(), kExactRanges)) + promised_);
  }

  // Clears the bytes under `runs` and no other; true when one of them was claimed. Takes no memory: where a range would
  // have to be split and there is no room, its bytes stay claimed.
  bool clear(const Runs& runs) noexcept {
    if (runs.bytes == 0 || find(runs.first, runs.last()) == nullptr) return false;
    bool was_claimed = false;
    runs.for_each([&](uint64_t start, uint64_t stop) {
      was_claimed |= clear(start, stop);
      return true;
    });
    return was_claimed;
  }

  // The same where memory to be exact may be out: what can be cleared without is.
  void clear_what_can_be(const Runs& runs) noexcept {
    try {
      make_room_to_clear(runs);
    } catch (const std::bad_alloc&) {
    }
    clear(runs);
  }

  // The claims that bytes under `runs` carry. Throws bad_alloc.
  std::vector<Ref<Claim>> under(const Runs& runs) const {
    std::vector<Ref<Claim>> found;
    for (const Range& range : ranges_)
      if (touches(range, runs)) found.push_back(range.claim);
    return found;
  }

  // The bytes [start, stop) piece by piece, those that nothing claims with an empty claim. Throws bad_alloc.
  std::vector<Range> cut(uint64_t start, uint64_t stop) const {
    std::vector<Range> pieces;
    for (const Range* range = find(start, stop); start < stop; ++range) {
      const bool is_claimed = range != nullptr && range != end() && range->start < stop;
      const uint64_t claimed = is_claimed ? std::max(start, range->start) : stop;
      if (start < claimed) pieces.push_back({start, claimed, {}});
      if (!is_claimed) break;
      pieces.push_back({claimed, std::min(stop, range->end), range->claim});
      start = range->end;
    }
    return pieces;
  }

  // Promises room for so many marks of one run, each of which uses its own. Throws bad_alloc.
  void promise_room_for(size_t marks) {
    reserve(ranges_.size() + promised_ + marks * kRoomOfRun);
    promised_ += marks * kRoomOfRun;
  }

  void erase(const Range* range) noexcept { ranges_.erase(ranges_.begin() + (range - ranges_.data())); }

 private:
  static bool ends_before(uint64_t byte, const Range& range) noexcept { return byte < range.end; }

  void reserve(size_t count) {
    if (ranges_.capacity() < count) ranges_.reserve(std::max(count, 2 * ranges_.capacity()));
  }

  void mark(uint64_t start, uint64_t stop, const Ref<Claim>& claim) noexcept {
    clear(start, stop);
    const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
    const bool joins_next = next != ranges_.end() && next->start == stop && say_the_same(*next->claim, *claim);
    if (next != ranges_.begin() && std::prev(next)->end == start && say_the_same(*std::prev(next)->claim, *claim)) {
      std::prev(next)->end = joins_next ? next->end : stop;
      if (joins_next) ranges_.erase(next);
    } else if (joins_next) {
      next->start = start;
    } else {
      ranges_.insert(next, Range{start, stop, claim});
    }
  }

  bool clear(uint64_t start, uint64_t stop) noexcept {
    auto first = std::upper_bound(ranges_.begin(), ranges_.end(), start, &ends_before);
    if (first == ranges_.end() || first->start >= stop) return false;
    if (first->start < start && first->end > stop) {  // a hole in one range
      if (ranges_.size() + promised_ >= ranges_.capacity()) return true;
      const Range behind{stop, first->end, first->claim};
      first->end = start;
      ranges_.insert(std::next(first), behind);
      return true;
    }
    if (first->start < start) {
      first->end = start;
      ++first;
    }
    auto last = first;
    while (last != ranges_.end() && last->end <= stop) ++last;
    if (last != ranges_.end() && last->start < stop) last->start = stop;
    ranges_.erase(first, last);
    return true;
  }

  std::vector<Range> ranges_;
  size_t promised_ = 0;  // ranges that marks may still add without memory
};

}  // namespace kina
