// Order between streams of simulated devices where memory is out.
#include "impl/core/order.h"

#include <gtest/gtest.h>

#include "impl/core/device.h"
#include "impl/tests/heap.h"

namespace kina {
namespace {

Device& simulated() { return require_device(kDLExtDev, 0, {}, {}); }

TEST(Order, ThatThereIsNoMemoryForLeavesNoEventBehind) {
  const Ref<Stream> stream = simulated().checkout();
  note_foreign(*stream);  // so that each look finds a new moment
  ASSERT_TRUE(has_run(now(*stream)));

  bool is_over = false;
  for (int64_t left = 0; !is_over; ++left) {
    const Point moment = now(*stream);
    const int64_t live = tests::heap_live;
    OrderCalls calls;
    tests::heap_left = left;
    is_over = is_seen_over(moment, calls);
    tests::heap_left = -1;
    if (!is_over) {
      EXPECT_EQ(tests::heap_live, live) << "with room for " << left << " allocations";
    }
    ASSERT_LT(left, 50);
  }
}

}  // namespace
}  // namespace kina
