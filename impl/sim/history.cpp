// The check of happens-before on the bytes that work touches.
#include "impl/sim/history.h"

#include <algorithm>
#include <iterator>

namespace kina::sim {
namespace {

bool is_before(const Deed& deed, const Clock& clock) { return clock.of(deed.stream) >= deed.count; }

// A release, which has no position, follows everybody.
bool must_follow(const Deed& later, const Deed& earlier) {
  return later.count == 0 || (!later.is_by_caller && !earlier.is_by_caller);
}

const char* word(Access access) { return access == Access::read ? "reads" : "writes"; }

}  // namespace

std::string describe(const MissingEdge& edge) {
  return std::string(edge.after.name) + " on stream " + std::to_string(edge.after.stream) + " " +
         word(edge.after_access) + " bytes that " + edge.before.name + " on stream " +
         std::to_string(edge.before.stream) + " " + word(edge.before_access) + ", and nothing orders stream " +
         std::to_string(edge.after.stream) + " after position " + std::to_string(edge.before.count) + " of stream " +
         std::to_string(edge.before.stream);
}

void History::split(uint64_t byte) {
  auto next = entries_.upper_bound(byte);
  if (next == entries_.begin()) return;
  const auto entry = std::prev(next);
  if (entry->first == byte || entry->second.last <= byte) return;
  Entry tail = entry->second;
  entry->second.last = byte;
  entries_.emplace_hint(next, byte, std::move(tail));
}

void History::prepare(uint64_t first, uint64_t last) {
  if (first == last) return;
  split(first);
  split(last);
  uint64_t at = first;
  for (auto entry = entries_.lower_bound(first); at < last; ++entry) {
    if (entry == entries_.end() || entry->first > at) {  // bytes that nobody touched yet
      const uint64_t end = entry == entries_.end() ? last : std::min(last, entry->first);
      entry = entries_.emplace_hint(entry, at, Entry{end, std::nullopt, {}});
    }
    entry->second.readers.reserve(entry->second.readers.size() + 1);
    at = entry->second.last;
  }
}

std::optional<MissingEdge> History::missing(uint64_t first, uint64_t last, Access access, const Deed& deed,
                                            const Clock& clock) const {
  std::optional<MissingEdge> found;
  const auto demand = [&](const Deed& earlier, Access earlier_access) {
    if (!found && must_follow(deed, earlier) && !is_before(earlier, clock))
      found = MissingEdge{earlier, earlier_access, deed, access};
  };
  each(*this, first, last, [&](const Entry& bytes) {
    if (bytes.writer) demand(*bytes.writer, Access::write);
    if (access == Access::read) return;
    for (const Deed& reader : bytes.readers) demand(reader, Access::read);
  });
  return found;
}

void History::note(uint64_t first, uint64_t last, Access access, const Deed& deed) noexcept {
  each(*this, first, last, [&](Entry& bytes) {
    if (access == Access::write) {
      bytes.readers.clear();
      bytes.writer = deed;
    } else {
      std::erase_if(bytes.readers, [&](const Deed& reader) { return reader.stream == deed.stream; });
      bytes.readers.push_back(deed);
    }
  });
}

void History::forget(uint64_t first, uint64_t last) noexcept {
  entries_.erase(entries_.lower_bound(first), entries_.lower_bound(last));
}

}  // namespace kina::sim
