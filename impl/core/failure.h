// Failures: what went wrong with which bytes of a storage.
#pragma once

#include <cstdint>
#include <memory>

#include "impl/core/counted.h"
#include "impl/core/error.h"
#include "impl/core/ranges.h"

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

// The functions between a root and the bytes that it has reached. Only the newest have names, however many they are.
struct Chain {
  static constexpr uint32_t kNames = 16;
  uint32_t total = 0;
  const char* names[kNames] = {};  // newest first

  // One function further on.
  Chain after(const char* function) const noexcept;
  bool operator==(const Chain&) const = default;
};

// Why some bytes are failed: the root, and the functions that it kept from running on the way here. Never changes.
class Claim final : public Counted {
 public:
  explicit Claim(Ref<Failure> failure, const Chain& way = {}) : root(std::move(failure)), skipped(way) {}
  // The same failure one skipped function further on. Throws bad_alloc.
  Ref<Claim> after(const char* function) const { return make_counted<Claim>(root, skipped.after(function)); }

  const Ref<Failure> root;
  const Chain skipped;

 private:
  ~Claim() override = default;
};

inline bool say_the_same(const Claim& a, const Claim& b) noexcept {
  return &a == &b || (a.root.get() == b.root.get() && a.skipped == b.skipped);
}

using FailedRange = ClaimedRange<Claim>;

// The failed bytes of one storage. Not synchronised: the storage's lock guards it.
class FailureMap : public Ranges<Claim> {
 public:
  // The bytes from the lowest failed one under `runs` to the end of those that carry the same failure, at most to the
  // end of the hull. Without a claim: no byte is failed.
  FailedRange lowest(const Runs& runs) const noexcept;
};

}  // namespace kina
