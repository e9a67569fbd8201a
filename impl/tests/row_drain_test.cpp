// The ring of log rows under many callers: none is torn, lost or out of order, and what is dropped is counted.
#include "impl/memory/row_drain.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "impl/core/resource.h"

namespace kina {
namespace {

struct Seen {
  std::vector<KinaLogRow> rows;
  std::atomic<int> delay_microseconds{0};
};

void take_row(void* context, const KinaLogRow* row) {
  auto& seen = *static_cast<Seen*>(context);
  seen.rows.push_back(*row);
  if (seen.delay_microseconds != 0)
    std::this_thread::sleep_for(std::chrono::microseconds(seen.delay_microseconds.load()));
}

Ref<RowDrain> make_drain(uint64_t capacity, Seen& seen) {
  Ref<RowDrain> drain = make_counted<RowDrain>(capacity, false, "test");
  drain->target().callback = &take_row;
  drain->target().context = &seen;
  EXPECT_TRUE(drain->start());
  return drain;
}

// Each row says the same thing in several fields, so that a torn one shows.
void push(RowDrain& drain, uint64_t value) {
  drain.add({KINA_LOG_EVENT_ALLOCATE, KINA_SUCCESS, nullptr, value, kStorageAlignment, value, value, name_of_thread()},
            now_ticks());
}

void push_from_threads(RowDrain& drain, uint64_t threads, uint64_t rows_each) {
  std::vector<std::thread> running;
  running.reserve(threads);
  for (uint64_t thread = 0; thread < threads; ++thread)
    running.emplace_back([&drain, thread, rows_each] {
      for (uint64_t i = 0; i < rows_each; ++i) push(drain, thread << 32 | i);
    });
  for (std::thread& thread : running) thread.join();
}

void expect_whole(const Seen& seen, uint64_t threads) {
  std::vector<int64_t> newest(threads, -1);
  std::vector<uint64_t> names(threads, 0);
  uint64_t order = 0, time = 0;
  for (const KinaLogRow& row : seen.rows) {
    ASSERT_GT(row.order, order);
    order = row.order;
    ASSERT_GE(row.time_nanoseconds + 1'000'000'000, time) << "a caller may read the time and be overtaken";
    time = row.time_nanoseconds;
    ASSERT_TRUE(row.bytes == value_of(row.resource) && row.bytes == value_of(row.stream));
    if (uint64_t& name = names[row.bytes >> 32]; name == 0) name = row.thread;
    ASSERT_EQ(row.thread, names[row.bytes >> 32]);
    ASSERT_EQ(row.alignment, kStorageAlignment);
    const auto index = static_cast<int64_t>(row.bytes & 0xFFFFFFFF);
    ASSERT_GT(index, newest[row.bytes >> 32]) << "rows of one thread come in its order";
    newest[row.bytes >> 32] = index;
  }
}

TEST(RowDrain, RowsOfManyThreadsAllComeInOrder) {
  Seen seen;
  const Ref<RowDrain> drain = make_drain(100000, seen);
  push_from_threads(*drain, 4, 20000);
  drain->stop();
  EXPECT_EQ(seen.rows.size(), 80000U);
  EXPECT_EQ(drain->dropped_rows(), 0U);
  expect_whole(seen, 4);
  EXPECT_EQ(seen.rows.back().order, 80000U);
}

// The first thread takes its places alone; three others come while it does, into a ring that is new each time.
TEST(RowDrain, NoPlaceIsTakenTwiceWhenOtherThreadsCome) {
  for (const uint64_t capacity : {50U, 1000U}) {
    for (int round = 0; round < 100; ++round) {
      Seen seen;
      const Ref<RowDrain> drain = make_drain(capacity, seen);
      std::atomic<uint64_t> entered{0};
      std::vector<std::thread> threads;
      for (uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
          while (thread != 0 && entered.load() < 50 * thread) std::this_thread::yield();
          for (uint64_t i = 0; i < 1000; ++i) {
            push(*drain, thread << 32 | i);
            if (thread == 0) entered = i;
          }
        });
      for (std::thread& thread : threads) thread.join();
      drain->stop();
      ASSERT_EQ(seen.rows.size() + drain->dropped_rows(), 4000U);
      expect_whole(seen, 4);
    }
  }
}

TEST(RowDrain, WhatIsDroppedIsCountedAndKeepsItsNumber) {
  for (const uint64_t capacity : {1U, 3U, 100U}) {
    Seen seen;
    const Ref<RowDrain> drain = make_drain(capacity, seen);
    push_from_threads(*drain, 3, 20000);
    drain->stop();
    EXPECT_EQ(seen.rows.size() + drain->dropped_rows(), 60000U);
    expect_whole(seen, 3);
    EXPECT_LE(seen.rows.back().order, 60000U);
  }
}

TEST(RowDrain, NoMoreRowsWaitThanWereAskedFor) {
  Seen seen;
  seen.delay_microseconds = 200000;
  const Ref<RowDrain> drain = make_drain(5, seen);
  for (uint64_t i = 0; i < 20; ++i) push(*drain, i);
  EXPECT_GE(drain->dropped_rows(), 15U) << "one is being delivered, and it counts";
  seen.delay_microseconds = 0;
  drain->stop();
  EXPECT_EQ(seen.rows.size() + drain->dropped_rows(), 20U);
}

TEST(RowDrain, ASleepingThreadWakesForOneRow) {
  Seen seen;
  const Ref<RowDrain> drain = make_drain(1000, seen);
  for (uint64_t i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // past its naps
    push(*drain, i);
    drain->settle();
  }
  drain->stop();
  EXPECT_EQ(seen.rows.size(), 3U);
}

}  // namespace
}  // namespace kina
