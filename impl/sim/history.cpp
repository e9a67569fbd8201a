// The check of happens-before on the bytes that work touches.
#include "impl/sim/history.h"

#include <iterator>

namespace kina::sim {
namespace {

bool is_before(const Deed& deed, const Clock& clock) { return clock.of(deed.stream) >= deed.count; }

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

std::optional<MissingEdge> History::touch(uint64_t first, uint64_t last, Access access, const Deed& deed,
                                          const Clock& clock) {
  if (first == last) return std::nullopt;
  split(first);
  split(last);
  std::optional<MissingEdge> missing;
  const auto demand = [&](const Deed& earlier, Access earlier_access) {
    if (!missing && !is_before(earlier, clock)) missing = MissingEdge{earlier, earlier_access, deed, access};
  };
  uint64_t at = first;
  for (auto entry = entries_.lower_bound(first); at < last;) {
    if (entry == entries_.end() || entry->first > at) {  // bytes that nobody touched yet
      const uint64_t end = entry == entries_.end() ? last : std::min(last, entry->first);
      entry = entries_.emplace_hint(entry, at, Entry{end, std::nullopt, {}});
    }
    Entry& bytes = entry->second;
    if (bytes.writer) demand(*bytes.writer, Access::write);
    if (access == Access::write) {
      for (const Deed& reader : bytes.readers) demand(reader, Access::read);
      bytes.readers.clear();
      bytes.writer = deed;
    } else {
      std::erase_if(bytes.readers, [&](const Deed& reader) { return reader.stream == deed.stream; });
      bytes.readers.push_back(deed);
    }
    at = bytes.last;
    ++entry;
  }
  return missing;
}

std::optional<MissingEdge> History::forget(uint64_t first, uint64_t last, const Clock& host) {
  split(first);
  split(last);
  std::optional<MissingEdge> missing;
  const Deed release{0, 0, "the release of the memory"};
  auto entry = entries_.lower_bound(first);
  while (entry != entries_.end() && entry->first < last) {
    const Entry& bytes = entry->second;
    if (!missing && bytes.writer && !is_before(*bytes.writer, host))
      missing = MissingEdge{*bytes.writer, Access::write, release, Access::write};
    for (const Deed& reader : bytes.readers)
      if (!missing && !is_before(reader, host)) missing = MissingEdge{reader, Access::read, release, Access::write};
    entry = entries_.erase(entry);
  }
  return missing;
}

}  // namespace kina::sim
