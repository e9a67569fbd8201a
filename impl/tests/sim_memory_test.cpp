// The simulated scheduler while host memory is out: what it refuses leaves no trace that later work would trip over.
#include <gtest/gtest.h>

#include <new>

#include "impl/sim/scheduler.h"
#include "impl/tests/heap.h"

namespace kina::sim {
namespace {

constexpr int kEnough = 200;

struct Stage {
  Stage() : scheduler(wanted()) {
    data = reinterpret_cast<uint64_t>(scheduler.allocate(0, 1024, 256));
    first = scheduler.make_queue(0);
    second = scheduler.make_queue(0);
  }
  static Configuration wanted() {
    Configuration configuration;
    configuration.devices = 1;
    configuration.memory_bytes = 1 << 20;
    return configuration;
  }
  void write(Queue& queue, uint64_t from, uint64_t to) {
    scheduler.enqueue(
        queue, "write", [this] { ++runs; }, {{Hull{data + from, data + to}, Access::write}}, Fault::launch);
  }
  // Whether `step` found memory when only `count` more allocations succeed.
  template <class F>
  static bool survives(int count, F&& step) {
    tests::heap_left = count;
    bool has_passed = true;
    try {
      step();
    } catch (const std::bad_alloc&) {
      has_passed = false;
    }
    tests::heap_left = -1;
    return has_passed;
  }

  Scheduler scheduler;
  uint64_t data;
  Queue *first, *second;
  std::atomic<int> runs{0};
};

TEST(SimMemory, WorkThatWasRefusedIsNobodysPredecessor) {
  bool has_passed = false;
  for (int count = 0; !has_passed && count < kEnough; ++count) {
    Stage stage;
    stage.write(*stage.first, 100, 200);
    stage.scheduler.wait(*stage.second, stage.scheduler.record(*stage.first));
    has_passed = Stage::survives(count, [&] { stage.write(*stage.first, 0, 1000); });
    if (has_passed) {
      EXPECT_THROW(stage.write(*stage.second, 0, 1000), Error);
    } else {
      EXPECT_NO_THROW(stage.write(*stage.second, 0, 1000)) << count;
    }
    stage.scheduler.drain();
    EXPECT_EQ(stage.runs.load(), 2);
  }
  EXPECT_TRUE(has_passed);
}

TEST(SimMemory, AWaitThatWasRefusedOrdersNothing) {
  bool has_passed = false;
  for (int count = 0; !has_passed && count < kEnough; ++count) {
    Stage stage;
    stage.write(*stage.first, 0, 1000);
    const std::shared_ptr<Event> event = stage.scheduler.record(*stage.first);
    has_passed = Stage::survives(count, [&] { stage.scheduler.wait(*stage.second, event); });
    if (has_passed) {
      EXPECT_NO_THROW(stage.write(*stage.second, 0, 1000));
    } else {
      EXPECT_THROW(stage.write(*stage.second, 0, 1000), Error) << count;
    }
  }
  EXPECT_TRUE(has_passed);
}

}  // namespace
}  // namespace kina::sim
