// Order between streams of simulated devices where memory is out.
#include "impl/core/order.h"

#include <gtest/gtest.h>

#include "impl/core/device.h"
#include "impl/tests/heap.h"

namespace kina {
namespace {

Device& simulated() { return require_device(kDLExtDev, 0, {}, {}); }

TEST(Order, ThatThereIsNoMemoryForLeavesNoEventBehind) {
  const Ref<Stream> awaited = simulated().checkout(), waiter = simulated().checkout();
  note_foreign(*awaited);  // so that each look finds a new moment
  order_after(*waiter, now(*awaited));

  bool is_ordered = false;
  for (int64_t left = 0; !is_ordered; ++left) {
    const Point moment = now(*awaited);
    const int64_t live = tests::heap_live;
    OrderCalls calls;
    tests::heap_left = left;
    is_ordered = try_order_after(*waiter, moment, calls);
    tests::heap_left = -1;
    if (!is_ordered) {
      EXPECT_EQ(tests::heap_live, live) << "with room for " << left << " allocations";
    }
    ASSERT_LT(left, 50);
  }
}

}  // namespace
}  // namespace kina
