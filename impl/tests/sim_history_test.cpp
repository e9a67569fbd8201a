// The check of happens-before that simulated devices make on every byte.
#include <gtest/gtest.h>

#include "impl/sim/history.h"

namespace kina::sim {
namespace {

Clock after(uint32_t stream, uint64_t count) {
  Clock clock;
  clock.set(stream, count);
  return clock;
}

TEST(SimHistory, ReadsOfUnorderedWritesAreReported) {
  History history;
  EXPECT_FALSE(history.touch(100, 200, Access::write, {1, 1, "writer"}, after(1, 1)));

  const auto missing = history.touch(150, 160, Access::read, {2, 1, "reader"}, after(2, 1));

  ASSERT_TRUE(missing);
  EXPECT_STREQ(missing->before.name, "writer");
  EXPECT_STREQ(missing->after.name, "reader");
}

TEST(SimHistory, OrderedReadsAreSilent) {
  History history;
  history.touch(100, 200, Access::write, {1, 1, "writer"}, after(1, 1));
  Clock clock = after(2, 1);
  clock.set(1, 1);
  EXPECT_FALSE(history.touch(150, 160, Access::read, {2, 1, "reader"}, clock));
}

TEST(SimHistory, ReadersDoNotDisturbEachOther) {
  History history;
  EXPECT_FALSE(history.touch(0, 8, Access::read, {1, 1, "a"}, after(1, 1)));
  EXPECT_FALSE(history.touch(0, 8, Access::read, {2, 1, "b"}, after(2, 1)));
}

TEST(SimHistory, WritesWaitForReaders) {
  History history;
  history.touch(0, 8, Access::read, {1, 1, "reader"}, after(1, 1));
  EXPECT_TRUE(history.touch(4, 12, Access::write, {2, 1, "writer"}, after(2, 1)));
}

TEST(SimHistory, DisjointBytesAreIndependent) {
  History history;
  history.touch(0, 8, Access::write, {1, 1, "a"}, after(1, 1));
  EXPECT_FALSE(history.touch(8, 16, Access::write, {2, 1, "b"}, after(2, 1)));
}

TEST(SimHistory, MemoryInUseIsNotForgotten) {
  History history;
  history.touch(0, 8, Access::write, {1, 3, "a"}, after(1, 3));
  EXPECT_TRUE(history.forget(0, 8, after(1, 2)));
  history.touch(0, 8, Access::write, {1, 4, "a"}, after(1, 4));
  EXPECT_FALSE(history.forget(0, 8, after(1, 4)));
  EXPECT_FALSE(history.touch(0, 8, Access::write, {2, 1, "b"}, after(2, 1)));
}

}  // namespace
}  // namespace kina::sim
