// When rows share a reading of the clock, and what their ticks become.
#include "impl/memory/ticks.h"

#include <gtest/gtest.h>

namespace kina {
namespace {

// Moved by the tests.
struct FakeClocks {
  static constexpr bool kHasSteps = true;
  static inline uint64_t time = 0, current_step = 0;
  static inline int readings = 0;
  static uint64_t ticks() noexcept {
    ++readings;
    return time;
  }
  static uint64_t step() noexcept { return current_step; }
};

class RowClocks : public testing::Test {
 protected:
  void SetUp() override {
    FakeClocks::time = uint64_t{1} << 40;
    FakeClocks::current_step = 1;
    FakeClocks::readings = 0;
  }
  // The age of the stamp that a row has which comes `ticks` after the one before.
  uint64_t age_after(uint64_t ticks) {
    FakeClocks::time += ticks;
    return FakeClocks::time - clock_.now();
  }
  RowClock<FakeClocks> clock_;
};

TEST_F(RowClocks, RowsFarApartHaveTheirOwnTime) {
  for (int row = 0; row < 100; ++row) ASSERT_EQ(age_after(4096), 0U);
  EXPECT_EQ(FakeClocks::readings, 100);
}

TEST_F(RowClocks, EightRowsOnEachOthersHeelsShareAReading) {
  ASSERT_EQ(age_after(100), 0U);
  ASSERT_EQ(age_after(100), 0U) << "the first pair shows that they are close";
  for (int round = 0; round < 10; ++round) {
    for (uint64_t row = 1; row < 8; ++row) ASSERT_EQ(age_after(100), row * 100);
    ASSERT_EQ(age_after(100), 0U);
  }
  EXPECT_EQ(FakeClocks::readings, 12);
}

TEST_F(RowClocks, AStepOfTheCoarseClockEndsTheSharing) {
  age_after(100);
  age_after(100);
  ASSERT_EQ(age_after(100), 100U);
  FakeClocks::current_step = 2;
  ASSERT_EQ(age_after(1'000'000), 0U);
  ASSERT_EQ(age_after(100), 0U) << "what came before the pause says nothing of what comes now";
  ASSERT_EQ(age_after(100), 100U);
}

TEST(TickScale, TimesLieBetweenReadingsAndDoNotDecrease) {
  TickScale scale;
  uint64_t newest = 0;
  for (int row = 0; row < 1000; ++row) {
    const uint64_t before = now_nanoseconds();
    const uint64_t ticks = now_ticks();
    const uint64_t after = now_nanoseconds();
    // As another thread may have read the clock that enters its row late.
    const uint64_t said = scale.nanoseconds(row % 10 == 9 ? ticks - 100'000 : ticks);
    ASSERT_LE(said, after);
    ASSERT_GE(said, newest);
    ASSERT_GE(said + 1'000'000 * (row % 10 == 9), row % 10 == 9 ? 0 : before - 1'000'000);
    newest = said;
  }
}

}  // namespace
}  // namespace kina
