// What is kept of recorded gathers, whose work says what its replays meet: it ends with the graph.
#include <gtest/gtest.h>
#include <kina_runtime.h>
#include <kina_simulated.h>

#include <utility>

#include "impl/core/tensor.h"
#include "impl/tests/heap.h"

namespace {

void succeed(KinaStatus status) { EXPECT_EQ(status, KINA_SUCCESS) << runtime_last_error_message(); }

// A stream that records gathers of eight values, again and again, into memory of one pool.
class Recorded : public testing::Test {
 protected:
  void SetUp() override {
    KinaResource base = nullptr;
    succeed(runtime_resource_current(&base, kDLExtDev, 0));
    succeed(runtime_resource_pool(&pool_, base, nullptr));
    succeed(runtime_stream_phase(&stream_, kDLExtDev, 0, 2));  // from here on it may have work that nobody counts
    void* native = nullptr;
    succeed(runtime_stream_native(&native, stream_));
    driver_ = static_cast<KinaSimStream*>(native);
    make_zeros(values_, KINA_DTYPE_F32);
    make_zeros(indices_, KINA_DTYPE_I64);
    make_zeros(out_, KINA_DTYPE_F32);
  }
  void TearDown() override {
    for (KinaTensor* tensor : {&values_, &indices_, &out_}) succeed(runtime_free(tensor));
    succeed(runtime_stream_synchronize(stream_));
    succeed(runtime_resource_release(pool_));
  }

  void make_zeros(KinaTensor& out, KinaDtype dtype) {
    KinaScope scope = nullptr;
    const int64_t zero = 0;
    succeed(runtime_alloc(&out, &kCount, 1, dtype, kDLExtDev, 0, stream_));
    succeed(runtime_stream_push(&scope, stream_));
    succeed(runtime_fill(&out, &zero, dtype == KINA_DTYPE_I64 ? 8 : 4));
    succeed(runtime_scope_pop(scope));
  }

  // The graph of a gather into `out`, or into a tensor of its own.
  void* record(KinaTensor* out) {
    KinaScope capture = nullptr, scope = nullptr;
    KinaTensor made = KINA_TENSOR_INIT;
    void* graph = nullptr;
    succeed(runtime_capture_push(&capture, stream_, pool_));
    succeed(runtime_stream_push(&scope, stream_));
    EXPECT_EQ(driver_->begin_capture(driver_), 0);
    succeed(runtime_gpu_gather(out == nullptr ? &made : out, &values_, &indices_));
    succeed(runtime_free(&made));
    EXPECT_EQ(driver_->end_capture(driver_, &graph), 0);
    succeed(runtime_scope_pop(scope));
    succeed(runtime_scope_pop(capture));
    return graph;
  }
  void replay(void* graph) {
    EXPECT_EQ(driver_->replay(driver_, graph), 0);
    succeed(runtime_tensor_record_use(&out_, stream_, KINA_ACCESS_WRITE));
    succeed(runtime_stream_synchronize(stream_));
  }
  // How much the heap grows from the 200th to the 600th round.
  template <class Round>
  int64_t growth(Round&& round) {
    int64_t before = 0;
    for (int i = 0; i < 600; ++i) {
      succeed(runtime_stream_synchronize(stream_));
      if (i == 200) before = kina::tests::heap_live_of_all;
      round();
    }
    return kina::tests::heap_live_of_all - before;
  }

  static constexpr int64_t kCount = 8;
  KinaResource pool_ = nullptr;
  KinaStream stream_ = nullptr;
  KinaSimStream* driver_ = nullptr;
  KinaTensor values_ = KINA_TENSOR_INIT, indices_ = KINA_TENSOR_INIT, out_ = KINA_TENSOR_INIT;
};

// Before anybody has declared the replay other work is recorded, and what is fine is forgotten then.
TEST_F(Recorded, WhatAReplayMeetsIsKnownBehindItsGraph) {
  KinaScope scope = nullptr;
  const int64_t outside = kCount;
  succeed(runtime_stream_push(&scope, stream_));
  succeed(runtime_fill(&indices_, &outside, 8));
  succeed(runtime_scope_pop(scope));
  for (int round = 0; round < 40; ++round) {
    void* graph = record(&out_);
    EXPECT_EQ(driver_->replay(driver_, graph), 0);
    const bool has_run = round % 2 == 0;  // else most often it has not
    if (has_run) succeed(runtime_stream_synchronize(stream_));
    driver_->destroy_graph(graph);
    driver_->destroy_graph(record(&out_));
    void* beside = record(nullptr);  // has the word of what is forgotten, if anything is

    succeed(runtime_tensor_record_use(&out_, stream_, KINA_ACCESS_WRITE));

    KinaFailureInfo found{};
    found.struct_size = sizeof found;
    int32_t was_failed = 0;
    succeed(runtime_failure_get(&found, &out_));
    ASSERT_EQ(found.status, KINA_ERROR_INDEX_OUT_OF_RANGE) << "round " << round;
    succeed(runtime_failure_clear(&was_failed, &out_));
    driver_->destroy_graph(beside);
  }
}

// Captures take no turns on a storage: of two threads that record, each has promised itself room before its launch.
TEST_F(Recorded, EachOfTwoRecordersHasTheRoomThatItWasPromised) {
  using namespace kina;
  const TensorRecord& record = *find_tensor(out_.handle);
  Storage& storage = *record.storage;
  Stream& stream = *streams().find(value_of(stream_));
  const auto element = [&](int64_t index) {
    View view = record.view();
    view.data += index * static_cast<int64_t>(sizeof(float));
    view.geometry.extents[0] = 1;
    return view;
  };
  Doubts first("first"), second("second"), seen("seen");
  first.raise(Check::make("first", stream, kCount));
  second.raise(Check::make("second", stream, kCount));
  MarkRoom room = storage.prepare_recorded_write(element(1), first, 1);
  MarkRoom other_room = storage.prepare_recorded_write(element(3), second, 2);

  kina::tests::heap_left = 0;
  storage.write_recorded(element(1), first.result(), std::move(room));
  storage.write_recorded(element(3), second.result(), std::move(other_room));
  kina::tests::heap_left = -1;

  storage.hand_on_recorded(record.view(), seen);
  ASSERT_FALSE(seen.is_empty());
  EXPECT_EQ(seen.result()->entries().size(), 2U);
}

TEST_F(Recorded, GathersIntoNewTensorsLeaveNothing) {
  EXPECT_LT(growth([&] { driver_->destroy_graph(record(nullptr)); }), 20);
}

TEST_F(Recorded, GathersIntoOneTensorLeaveNothing) {
  EXPECT_LT(growth([&] { driver_->destroy_graph(record(&out_)); }), 20);
}

TEST_F(Recorded, ReplayedGathersLeaveNothing) {
  EXPECT_LT(growth([&] {
              void* graph = record(&out_);
              replay(graph);
              driver_->destroy_graph(graph);
            }),
            100);
}

}  // namespace
