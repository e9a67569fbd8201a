// Who touched which bytes last, and whether the next one is ordered after that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "impl/backend/backend.h"
#include "impl/sim/clock.h"

namespace kina::sim {

// One piece of work as others must be ordered after it.
struct Deed {
  uint32_t stream = 0;
  uint64_t count = 0;  // its position on the stream, from 1
  const char* name = "";
  bool is_by_caller = false;  // touches the bytes as far as the caller ordered it, and is followed as far
};

// Two pieces of work on the same bytes, one of them a write, with no order between them.
struct MissingEdge {
  Deed before;
  Access before_access;
  Deed after;
  Access after_access;
};

std::string describe(const MissingEdge& edge);

// Byte ranges of device memory with their last writer and the readers since.
class History {
 public:
  // Makes room for the next access to [first, last). The functions below take memory for nothing but an answer.
  void prepare(uint64_t first, uint64_t last);
  // The first access to [first, last) that `deed` has to follow and `clock` does not cover.
  std::optional<MissingEdge> missing(uint64_t first, uint64_t last, Access access, const Deed& deed,
                                     const Clock& clock) const;
  // `deed` is on its way: from now on others have to follow it.
  void note(uint64_t first, uint64_t last, Access access, const Deed& deed) noexcept;
  // The bytes have gone back to the device.
  void forget(uint64_t first, uint64_t last) noexcept;

 private:
  struct Entry {
    uint64_t last;
    std::optional<Deed> writer;
    std::vector<Deed> readers;
  };
  using Entries = std::map<uint64_t, Entry>;
  // Cuts entries at `byte`, so that no entry spans it.
  void split(uint64_t byte);
  // The entries in [first, last), which `prepare` has cut there.
  template <class Self, class F>
  static void each(Self& self, uint64_t first, uint64_t last, F&& f) {
    for (auto entry = self.entries_.lower_bound(first); entry != self.entries_.end() && entry->first < last; ++entry)
      f(entry->second);
  }

  Entries entries_;  // by first byte, disjoint
};

}  // namespace kina::sim
