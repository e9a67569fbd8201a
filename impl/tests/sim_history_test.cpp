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

// Notes the access of `deed` where nothing is missing; answers what is.
std::optional<MissingEdge> touch(History& history, uint64_t first, uint64_t last, Access access, const Deed& deed,
                                 const Clock& clock) {
  history.prepare(first, last);
  std::optional<MissingEdge> missing = history.missing(first, last, access, deed, clock);
  if (!missing) history.note(first, last, access, deed);
  return missing;
}

TEST(SimHistory, ReadsOfUnorderedWritesAreReported) {
  History history;
  EXPECT_FALSE(touch(history, 100, 200, Access::write, {1, 1, "writer"}, after(1, 1)));

  const auto missing = touch(history, 150, 160, Access::read, {2, 1, "reader"}, after(2, 1));

  ASSERT_TRUE(missing);
  EXPECT_STREQ(missing->before.name, "writer");
  EXPECT_STREQ(missing->after.name, "reader");
}

TEST(SimHistory, OrderedReadsAreSilent) {
  History history;
  touch(history, 100, 200, Access::write, {1, 1, "writer"}, after(1, 1));
  Clock clock = after(2, 1);
  clock.set(1, 1);
  EXPECT_FALSE(touch(history, 150, 160, Access::read, {2, 1, "reader"}, clock));
}

TEST(SimHistory, ReadersDoNotDisturbEachOther) {
  History history;
  EXPECT_FALSE(touch(history, 0, 8, Access::read, {1, 1, "a"}, after(1, 1)));
  EXPECT_FALSE(touch(history, 0, 8, Access::read, {2, 1, "b"}, after(2, 1)));
}

TEST(SimHistory, WritesWaitForReaders) {
  History history;
  touch(history, 0, 8, Access::read, {1, 1, "reader"}, after(1, 1));
  EXPECT_TRUE(touch(history, 4, 12, Access::write, {2, 1, "writer"}, after(2, 1)));
}

TEST(SimHistory, DisjointBytesAreIndependent) {
  History history;
  touch(history, 0, 8, Access::write, {1, 1, "a"}, after(1, 1));
  EXPECT_FALSE(touch(history, 8, 16, Access::write, {2, 1, "b"}, after(2, 1)));
}

TEST(SimHistory, MemoryInUseIsNotForgotten) {
  History history;
  touch(history, 0, 8, Access::write, {1, 3, "a"}, after(1, 3));
  EXPECT_TRUE(touch(history, 0, 8, Access::write, {0, 0, "release"}, after(1, 2)));
  EXPECT_FALSE(touch(history, 0, 8, Access::write, {1, 4, "a"}, after(1, 4)));
  history.forget(0, 8);
  EXPECT_FALSE(touch(history, 0, 8, Access::write, {2, 1, "b"}, after(2, 1)));
}

TEST(SimHistory, WhatWasOnlyCheckedIsNotRemembered) {
  History history;
  history.prepare(0, 100);
  EXPECT_FALSE(history.missing(0, 100, Access::write, {1, 1, "refused"}, after(1, 1)));
  EXPECT_FALSE(touch(history, 50, 60, Access::read, {2, 1, "reader"}, after(2, 1)));
}

}  // namespace
}  // namespace kina::sim
