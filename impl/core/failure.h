// Failures: what went wrong with which bytes of a storage.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "impl/core/counted.h"
#include "impl/core/error.h"
#include "impl/core/runs.h"

namespace kina {

// What went wrong, once: the root of all claims that name it.
class Failure final : public Counted {
 public:
  // `message` is copied; NULL is "". Throws bad_alloc.
  static Ref<Failure> make(KinaStatus status, const char* function, const char* message);
  // The failure of that id while anybody refers to it, else empty.
  static Ref<Failure> find(uint64_t id);

  const uint64_t id;  // never reused
  const KinaStatus status;
  const char* const function;
  const char* message() const noexcept { return message_.get(); }

 private:
  Failure(KinaStatus root_status, const char* root_function, const char* message);
  ~Failure() override;

  const std::unique_ptr<char[]> message_;
  Failure* newer_ = nullptr;  // the chain of all failures that live
  Failure* older_ = nullptr;
};

// Why some bytes are failed: the root, and the functions that it kept from running on the way here. Never changes.
class Claim final : public Counted {
 public:
  explicit Claim(Ref<Failure> failure) : root(std::move(failure)) {}
  // The same failure one skipped function further on. Throws bad_alloc.
  Ref<Claim> after(const char* function) const;

  static constexpr uint32_t kNames = 16;
  const Ref<Failure> root;
  uint32_t skipped_total = 0;
  const char* skipped[kNames] = {};  // newest first

 private:
  ~Claim() override = default;
};

// Bytes of one storage that carry one failure, counted from its first byte.
struct FailedRange {
  uint64_t start = 0;
  uint64_t end = 0;
  Ref<Claim> claim;
};

// The failed bytes of one storage. Not synchronised: the storage's lock guards it.
class FailureMap {
 public:
  bool is_clean() const noexcept { return ranges_.empty(); }

  // The bytes from the lowest failed one under `runs` to the end of those that carry the same failure, at most to the
  // end of the hull. Without a claim: no byte is failed.
  FailedRange lowest(const Runs& runs) const noexcept;

  // `claim` takes over the bytes under `runs`, or their hull where there are very many runs. Throws bad_alloc with
  // nothing changed.
  void mark(const Runs& runs, const Ref<Claim>& claim);

  // Makes room so that `clear` of the same runs is exact, as long as the map stays within its bound. Throws bad_alloc.
  void make_room(const Runs& runs);

  // Clears the bytes under `runs` and no other; true when one of them was failed. Takes no memory: where a range would
  // have to be split and there is no room, its bytes stay failed.
  bool clear(const Runs& runs) noexcept;

 private:
  using Iterator = std::vector<FailedRange>::iterator;

  const FailedRange* find(uint64_t start, uint64_t end) const noexcept;
  void reserve(size_t count);
  bool clear(uint64_t start, uint64_t end) noexcept;
  void mark(uint64_t start, uint64_t end, const Ref<Claim>& claim) noexcept;

  std::vector<FailedRange> ranges_;  // sorted, disjoint, not empty; touching ranges have different claims
};

}  // namespace kina
