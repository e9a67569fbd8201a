// Order between streams of simulated devices: where memory is out, and over many streams that come and go.
#include "impl/core/order.h"

#include <gtest/gtest.h>
#include <kina_simulated.h>

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

// A caller's stream from its making to its end: memory of a pool in its order, and sometimes work that nobody waits
// for.
void pass_one_import(KinaResource pool, bool has_work) {
  Stream& main = simulated().main();
  auto* driver = static_cast<KinaSimStream*>(main.native());
  KinaSimStream* native = nullptr;
  ASSERT_EQ(driver->make(driver, &native), 0);
  KinaStream stream = nullptr;
  ASSERT_EQ(runtime_stream_import(&stream, kDLExtDev, 0, native), KINA_SUCCESS);
  KinaScope memory = nullptr, place = nullptr;
  ASSERT_EQ(runtime_resource_push(&memory, pool), KINA_SUCCESS);
  ASSERT_EQ(runtime_stream_push(&place, stream), KINA_SUCCESS);
  const int64_t shape[] = {64};
  KinaTensor tensor = KINA_TENSOR_INIT;
  ASSERT_EQ(runtime_alloc(&tensor, shape, 1, KINA_DTYPE_F32, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  const float value = 1;
  ASSERT_EQ(has_work ? runtime_fill(&tensor, &value, sizeof value) : KINA_SUCCESS, KINA_SUCCESS);
  ASSERT_EQ(runtime_free(&tensor), KINA_SUCCESS);
  ASSERT_EQ(runtime_scope_pop(place), KINA_SUCCESS);
  ASSERT_EQ(runtime_scope_pop(memory), KINA_SUCCESS);
  ASSERT_EQ(runtime_stream_release(stream), KINA_SUCCESS);
  ASSERT_EQ(native->end(native), 0);
}

TEST(Imports, OfAHundredThousandStreamsLeaveNoMoreThanOfAFewHundred) {
  constexpr int kFew = 500, kMany = 100'000, kBetweenWaits = 50;
  KinaResource base = nullptr, pool = nullptr;
  ASSERT_EQ(runtime_resource_current(&base, kDLExtDev, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_pool(&pool, base, nullptr), KINA_SUCCESS);
  const auto tables = [&] {
    KinaResourceInfo told{};
    told.struct_size = sizeof told;
    EXPECT_EQ(runtime_resource_info(&told, pool), KINA_SUCCESS);
    return told.metadata_bytes;
  };

  uint64_t after_few = 0;
  size_t streams_after_few = 0;
  for (int i = 1; i <= kMany && !HasFatalFailure(); ++i) {
    pass_one_import(pool, i % 10 == 0);
    if (i % kBetweenWaits != 0) continue;
    ASSERT_EQ(runtime_device_synchronize(kDLExtDev, 0), KINA_SUCCESS);
    if (i != kFew) continue;
    after_few = tables();
    streams_after_few = simulated().all_streams().size();
  }

  EXPECT_LE(simulated().all_streams().size(), streams_after_few + kBetweenWaits);
  EXPECT_LE(tables(), 2 * after_few);
  ASSERT_EQ(runtime_resource_release(pool), KINA_SUCCESS);
}

}  // namespace
}  // namespace kina
