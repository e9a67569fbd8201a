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
  // Notes the access of `deed` to [first, last); answers the first earlier access that `clock` does not cover.
  std::optional<MissingEdge> touch(uint64_t first, uint64_t last, Access access, const Deed& deed, const Clock& clock);
  // The bytes go back to the device: all uses must be ordered before what the host knows.
  std::optional<MissingEdge> forget(uint64_t first, uint64_t last, const Clock& host);

 private:
  struct Entry {
    uint64_t last;
    std::optional<Deed> writer;
    std::vector<Deed> readers;
  };
  using Entries = std::map<uint64_t, Entry>;
  // Cuts entries at `byte`, so that no entry spans it.
  void split(uint64_t byte);

  Entries entries_;  // by first byte, disjoint
};

}  // namespace kina::sim
