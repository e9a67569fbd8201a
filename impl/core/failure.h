// Failures: what went wrong with which bytes of a storage.
#pragma once

#include <cstdint>
#include <vector>

#include "impl/backend/backend.h"
#include "impl/core/counted.h"
#include "impl/core/error.h"

namespace kina {

// Why bytes are failed: the root, and the operations that were skipped because of it.
class Failure final : public Counted {
 public:
  Failure(KinaStatus status, const char* function, const char* message);

  const uint64_t id;  // never reused
  const KinaStatus status;
  const char* const function;
  char message[kMessageBytes];

 private:
  ~Failure() override = default;
};

// A failure as one run of bytes carries it: the root and the functions skipped on the way, newest first.
struct Claim {
  Ref<Failure> root;
  uint32_t skipped_total = 0;
  const char* skipped[16] = {};

  // The same failure one skipped operation further on.
  Claim after(const char* function) const;
};

// The failed bytes of one storage, offsets from its first byte. Not synchronised: the storage's lock guards it.
class FailureMap {
 public:
  struct Range {
    uint64_t start, end;
    Claim claim;
  };

  bool is_clean() const noexcept { return ranges_.empty(); }
  // The lowest failed range that meets [start, end); NULL when there is none.
  const Range* find(uint64_t start, uint64_t end) const noexcept;
  // `claim` takes over [start, end). May throw bad_alloc with nothing changed.
  void mark(uint64_t start, uint64_t end, const Claim& claim);
  // Clears [start, end). Where host memory is out, bytes may stay failed. True when a byte was failed.
  bool clear(uint64_t start, uint64_t end) noexcept;

 private:
  std::vector<Range> ranges_;  // sorted, disjoint, not empty
};

// Calls f(start, end) for each run of bytes that `view` covers, offsets counted from `base`; stops when f answers false.
template <class F>
void for_each_run(const View& view, const std::byte* base, F&& f);

}  // namespace kina

#include "impl/core/runs.h"
