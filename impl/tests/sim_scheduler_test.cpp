// The simulated scheduler reorders all that may be reordered and nothing else.
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>

#include "impl/sim/scheduler.h"

namespace kina::sim {
namespace {

Configuration one_device(uint64_t seed) {
  Configuration wanted;
  wanted.devices = 1;
  wanted.seed = seed;
  wanted.memory_bytes = 1 << 20;
  return wanted;
}

// The order in which 3 + 3 independent pieces of work on two streams ran under one seed.
std::string interleaving(uint64_t seed) {
  Scheduler scheduler(one_device(seed));
  Queue* left = scheduler.make_queue(0);
  Queue* right = scheduler.make_queue(0);
  std::string order;
  for (int i = 0; i < 3; ++i) {
    scheduler.enqueue(
        *left, "left", [&] { order += 'L'; }, {}, Fault::launch);
    scheduler.enqueue(
        *right, "right", [&] { order += 'R'; }, {}, Fault::launch);
  }
  scheduler.synchronize(scheduler.record(*left), 0);
  scheduler.synchronize(scheduler.record(*right), 0);
  return order;
}

TEST(SimScheduler, ShowsEveryInterleavingOfTwoStreams) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 1000 && seen.size() < 20; ++seed) seen.insert(interleaving(seed));
  EXPECT_EQ(seen.size(), 20U);
}

TEST(SimScheduler, KeepsTheOrderThatEventsAskFor) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Scheduler scheduler(one_device(seed));
    Queue* first = scheduler.make_queue(0);
    Queue* second = scheduler.make_queue(0);
    std::string order;
    scheduler.enqueue(
        *first, "first", [&] { order += '1'; }, {}, Fault::launch);
    scheduler.wait(*second, scheduler.record(*first));
    scheduler.enqueue(
        *second, "second", [&] { order += '2'; }, {}, Fault::launch);
    scheduler.synchronize(scheduler.record(*second), 0);
    ASSERT_EQ(order, "12") << "seed " << seed;
  }
}

TEST(SimScheduler, EndsACaptureOnceAndReplaysIntoNone) {
  Scheduler scheduler(one_device(1));
  Queue* queue = scheduler.make_queue(0);
  EXPECT_THROW(scheduler.end_capture(*queue), Error);
  scheduler.begin_capture(*queue);
  int runs = 0;
  scheduler.enqueue(
      *queue, "work", [&] { ++runs; }, {}, Fault::launch);
  const Graph graph = scheduler.end_capture(*queue);
  EXPECT_THROW(scheduler.end_capture(*queue), Error);
  scheduler.begin_capture(*queue);
  EXPECT_THROW(scheduler.replay(*queue, graph), Error);
  EXPECT_TRUE(scheduler.end_capture(*queue).nodes.empty());
  scheduler.replay(*queue, graph);
  scheduler.synchronize(scheduler.record(*queue), 0);
  EXPECT_EQ(runs, 1);
}

TEST(SimScheduler, GivesAnEndedQueueOutAgain) {
  Scheduler scheduler(one_device(0));
  Queue* kept = scheduler.make_queue(0);
  Queue* ended = scheduler.make_queue(0);
  scheduler.end_queue(*ended);
  EXPECT_EQ(scheduler.make_queue(0), ended);
  Queue* fresh = scheduler.make_queue(0);
  EXPECT_NE(fresh, kept);
  EXPECT_NE(fresh, ended);
}

TEST(SimScheduler, NamesTheMissingEdge) {
  Scheduler scheduler(one_device(0));
  Queue* writer = scheduler.make_queue(0);
  Queue* reader = scheduler.make_queue(0);
  auto* data = static_cast<std::byte*>(scheduler.allocate(0, 256, 256));
  const auto first = reinterpret_cast<uint64_t>(data);
  scheduler.enqueue(
      *writer, "fill", [] {}, {{Hull{first, first + 256}, Access::write}}, Fault::launch);
  try {
    scheduler.enqueue(
        *reader, "copy", [] {}, {{Hull{first, first + 16}, Access::read}}, Fault::launch);
    FAIL() << "an unordered read was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, KINA_ERROR_INTERNAL);
    EXPECT_NE(std::string(error.text).find("copy"), std::string::npos);
    EXPECT_NE(std::string(error.text).find("fill"), std::string::npos);
  }
}

TEST(SimScheduler, StrikesTheCallThatTheFaultNames) {
  Configuration wanted = one_device(0);
  wanted.faults[Fault::launch] = 2;
  Scheduler scheduler(wanted);
  Queue* queue = scheduler.make_queue(0);
  scheduler.enqueue(
      *queue, "a", [] {}, {}, Fault::launch);
  EXPECT_THROW(scheduler.enqueue(
                   *queue, "b", [] {}, {}, Fault::launch),
               Error);
  EXPECT_NO_THROW(scheduler.enqueue(
      *queue, "c", [] {}, {}, Fault::launch));
}

TEST(SimScheduler, LosesTheDeviceAndNothingElse) {
  Configuration wanted = one_device(0);
  wanted.devices = 2;
  wanted.faults[Fault::lost] = 1;
  Scheduler scheduler(wanted);
  Queue* lost = scheduler.make_queue(0);
  Queue* alive = scheduler.make_queue(1);
  EXPECT_THROW(scheduler.enqueue(
                   *lost, "a", [] {}, {}, Fault::launch),
               Error);
  EXPECT_TRUE(scheduler.is_lost(0));
  EXPECT_FALSE(scheduler.is_lost(1));
  EXPECT_NO_THROW(scheduler.enqueue(
      *alive, "b", [] {}, {}, Fault::launch));
  EXPECT_THROW(scheduler.record(*lost), Error);
}

TEST(SimArena, PoisonsAndReuses) {
  Arena arena(1 << 20);
  void* first = arena.allocate(1000, 256);
  void* second = arena.allocate(1000, 4096);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(reinterpret_cast<uint64_t>(second) % 4096, 0U);
  EXPECT_EQ(static_cast<int>(*arena.inside(first)), 0xDB);
  const uint64_t before = arena.free_bytes();
  *arena.inside(first) = std::byte{1};
  arena.deallocate(first, 1000);
  EXPECT_EQ(static_cast<int>(*arena.inside(first)), 0xDB);
  arena.deallocate(second, 1000);
  EXPECT_EQ(arena.free_bytes(), arena.total_bytes());
  EXPECT_LT(before, arena.total_bytes());
  EXPECT_NE(arena.allocate(arena.total_bytes(), 256), nullptr);
  EXPECT_EQ(arena.allocate(256, 256), nullptr);
}

TEST(SimArena, FaultsWhenCallersTouchIt) {
  Arena arena(1 << 20);
  const auto* data = static_cast<const volatile char*>(arena.allocate(256, 256));
  EXPECT_EXIT(static_cast<void>(*data), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace kina::sim
