// The map of failed bytes against a model that keeps one failure per byte.
#include "impl/core/failure.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kina {
namespace {

Claim claim_of(const Ref<Failure>& failure) {
  Claim claim;
  claim.root = failure;
  return claim;
}

TEST(FailureMap, IsTheSameAsOneFailurePerByte) {
  constexpr uint64_t kBytes = 96;
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    FailureMap map;
    std::vector<uint64_t> model(kBytes, 0);
    for (int step = 0; step < 60; ++step) {
      const uint64_t start = random() % kBytes, end = start + 1 + random() % (kBytes - start);
      if (random() % 2 == 0) {
        const Ref<Failure> failure = make_counted<Failure>(KINA_ERROR_DEVICE, "f", "m");
        map.mark(start, end, claim_of(failure));
        std::fill(model.begin() + static_cast<int64_t>(start), model.begin() + static_cast<int64_t>(end), failure->id);
      } else {
        bool was_failed = false;
        for (uint64_t byte = start; byte < end; ++byte) was_failed |= std::exchange(model[byte], 0) != 0;
        EXPECT_EQ(map.clear(start, end), was_failed);
      }
      for (uint64_t byte = 0; byte < kBytes; ++byte) {
        const FailureMap::Range* range = map.find(byte, byte + 1);
        ASSERT_EQ(range == nullptr ? 0 : range->claim.root->id, model[byte])
            << "byte " << byte << " in round " << round;
      }
    }
  }
}

TEST(Claim, KeepsTheRootAndTheNewestSixteenOfALongChain) {
  static const char* const names[] = {"f0", "f1", "f2", "f3"};
  Claim claim = claim_of(make_counted<Failure>(KINA_ERROR_DEVICE, "root", "m"));
  for (uint32_t i = 0; i < 40; ++i) claim = claim.after(names[i % 4]);
  EXPECT_EQ(claim.skipped_total, 40u);
  EXPECT_STREQ(claim.root->function, "root");
  for (size_t i = 0; i < 16; ++i) EXPECT_STREQ(claim.skipped[i], names[(39 - i) % 4]);
}

}  // namespace
}  // namespace kina
