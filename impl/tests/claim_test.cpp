// What a call pays for the case that it fails: nothing from the heap, and room for the mark when there is no memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "impl/core/device.h"
#include "impl/core/operation.h"
#include "impl/core/tensor.h"
#include "impl/tests/heap.h"
#include "kina_simulated.h"

namespace kina {
namespace {

class Claims : public testing::Test {
 protected:
  Claims() {
    const int64_t shape[1] = {16};
    for (KinaTensor* tensor : {&in_, &out_})
      EXPECT_EQ(runtime_alloc(tensor, shape, 1, KINA_DTYPE_F32, kDLCPU, 0, nullptr), KINA_SUCCESS);
    negate();
  }
  ~Claims() override {
    for (KinaTensor* tensor : {&in_, &out_}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
  }
  void negate() { EXPECT_EQ(runtime_gpu_unary(&out_, &in_, KINA_UNARY_NEG), KINA_SUCCESS); }

  KinaTensor in_ = KINA_TENSOR_INIT, out_ = KINA_TENSOR_INIT;
};

TEST_F(Claims, OfACallThatEndsWellTakeNothingFromTheHeap) {
  const uint64_t before = tests::heap_asked;

  for (int i = 0; i < 100; ++i) negate();

  EXPECT_EQ(tests::heap_asked, before);
}

TEST_F(Claims, StayFreeOnAStorageThatHadFailures) {
  uint64_t failure = 0;
  ASSERT_EQ(runtime_failure_set(&failure, &out_, 0, KINA_ERROR_DEVICE, ""), KINA_SUCCESS);
  negate();
  const uint64_t before = tests::heap_asked;

  for (int i = 0; i < 100; ++i) negate();

  EXPECT_EQ(tests::heap_asked, before);
}

TEST_F(Claims, BecomeAFailureWithoutMemory) {
  const TensorRecord& record = *find_tensor(out_.handle);
  MarkRoom room = record.storage->provide(record.view());

  tests::heap_left = 0;
  record.storage->tear(record.view(), std::move(room));
  tests::heap_left = -1;

  EXPECT_EQ(runtime_gpu_unary(&in_, &out_, KINA_UNARY_NEG), KINA_ERROR_FAILED_INPUT);
  int32_t was_failed = 0;
  EXPECT_EQ(runtime_failure_clear(&was_failed, &in_), KINA_SUCCESS);
  negate();
  EXPECT_EQ(runtime_gpu_unary(&in_, &out_, KINA_UNARY_NEG), KINA_SUCCESS);
}

TEST_F(Claims, CoverTheHullAlsoBesideOtherFailures) {
  KinaTensor first = KINA_TENSOR_INIT, rest = KINA_TENSOR_INIT;
  const int64_t one[1] = {1}, many[1] = {8}, stride[1] = {2};
  ASSERT_EQ(runtime_view(&first, &out_, one, nullptr, 1, 0, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_view(&rest, &out_, many, stride, 1, 1, 0), KINA_SUCCESS);
  uint64_t failure = 0;
  ASSERT_EQ(runtime_failure_set(&failure, &first, 0, KINA_ERROR_DEVICE, ""), KINA_SUCCESS);
  const TensorRecord& record = *find_tensor(rest.handle);
  MarkRoom room = record.storage->provide(record.view());

  tests::heap_left = 0;
  record.storage->tear(record.view(), std::move(room));
  tests::heap_left = -1;

  KinaFailureInfo info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(runtime_failure_get(&info, &first), KINA_SUCCESS);
  EXPECT_EQ(info.failure, failure);
  ASSERT_EQ(runtime_failure_get(&info, &rest), KINA_SUCCESS);
  EXPECT_EQ(info.status, KINA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(info.range.end - info.range.start, 15 * sizeof(float));
  for (KinaTensor* tensor : {&first, &rest}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
}

// A tensor of 4 by 6 numbers on every other column of 4 by 12, so that a reshape into it goes through other memory.
struct Strided {
  explicit Strided(int32_t device_type) {
    const int64_t shape[2] = {4, 12}, half[2] = {4, 6}, strides[2] = {12, 2};
    EXPECT_EQ(runtime_alloc(&whole, shape, 2, KINA_DTYPE_F32, device_type, 0, nullptr), KINA_SUCCESS);
    EXPECT_EQ(runtime_view(&part, &whole, half, strides, 2, 0, 0), KINA_SUCCESS);
  }
  ~Strided() {
    EXPECT_EQ(runtime_free(&part), KINA_SUCCESS);
    EXPECT_EQ(runtime_free(&whole), KINA_SUCCESS);
  }
  KinaTensor whole = KINA_TENSOR_INIT, part = KINA_TENSOR_INIT;
};

KinaStatus mark_on(const KinaTensor& tensor) {
  KinaFailureInfo info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(runtime_failure_get(&info, &tensor), KINA_SUCCESS);
  return info.status;
}

constexpr float kUntouched = -7;

bool is_untouched(const KinaTensor& whole) {
  KinaTensor seen = KINA_TENSOR_INIT;
  if (runtime_copy_to_host(&seen, &whole) != KINA_SUCCESS) return false;
  const auto* first = static_cast<const float*>(seen.dl.data);
  const bool result =
      std::all_of(first, first + seen.size_bytes / sizeof(float), [](float x) { return x == kUntouched; });
  EXPECT_EQ(runtime_free(&seen), KINA_SUCCESS);
  return result;
}

// A row that ends by something that is no failure of the library's, as a thread's end is.
TEST_F(Claims, AreFailuresWhereNobodyKnowsHowAnOperationEnded) {
  Output out(&out_, {1, "out"});
  Input in(&in_, {2, "in"});
  out.present();
  out.resolve();
  in.present();
  in.resolve();
  const Row<UnaryArgs> row = [](const UnaryArgs&, NativeStream) { throw 7; };
  const auto call = [&] {
    Operation operation("call", out, {&in}, in.geometry(), in.dtype(), in.device());
    operation.run(row, UnaryArgs{operation.out(), in.view()});
    operation.commit();
  };

  EXPECT_THROW(call(), int);

  EXPECT_EQ(mark_on(out_), KINA_ERROR_INTERNAL);
  EXPECT_EQ(mark_on(in_), KINA_SUCCESS);
}

// Again and again with room for one more allocation, until it is enough.
template <class Call, class Look>
void walk(Call&& call, Look&& look) {
  for (int64_t left = 0; left < 1000; ++left) {
    SCOPED_TRACE("with " + std::to_string(left) + " allocations");
    tests::heap_left = left;
    const KinaStatus status = call();
    tests::heap_left = -1;
    if (status == KINA_SUCCESS) return;
    EXPECT_EQ(status, KINA_ERROR_OUT_OF_MEMORY);
    look();
  }
  ADD_FAILURE() << "it never had enough";
}

// The same of a call that writes bytes of `whole`: before it has enough, nothing is written or marked.
template <class Call>
void walk_out_of_memory(const KinaTensor& whole, Call&& call) {
  KinaTensor bytes = whole;
  ASSERT_EQ(runtime_fill(&bytes, &kUntouched, sizeof kUntouched), KINA_SUCCESS);
  walk(call, [&] {
    EXPECT_EQ(mark_on(whole), KINA_SUCCESS);
    EXPECT_TRUE(is_untouched(whole));
  });
}

int32_t device_under_test() {
  int32_t simulated = 0;
  EXPECT_EQ(runtime_device_count(&simulated, kDLExtDev), KINA_SUCCESS);
  return simulated == 0 ? int32_t{kDLCPU} : int32_t{kDLExtDev};
}

// Once more on a simulated device, see CMakeLists.txt.
TEST(ClaimsOutOfMemory, MarkNothingWhereNothingWasWritten) {
  Strided from(device_under_test()), to(device_under_test());

  walk_out_of_memory(to.whole, [&] { return runtime_gpu_unary(&to.part, &from.part, KINA_UNARY_NEG); });
}

// The output is written in several pieces of work, or the first one writes other memory.
TEST(ClaimsOutOfMemory, MarkNothingOfAnOperationOfManyPieces) {
  Strided from(device_under_test()), to(device_under_test());
  const int64_t turned[2] = {6, 4}, strides[2] = {8, 2}, half[2] = {2, 6}, step[2] = {12, 2}, third[2] = {4, 2};
  KinaTensor out = KINA_TENSOR_INIT, rows = KINA_TENSOR_INIT, columns = KINA_TENSOR_INIT, square = KINA_TENSOR_INIT;
  ASSERT_EQ(runtime_view(&out, &to.whole, turned, strides, 2, 0, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_view(&rows, &from.whole, half, step, 2, 0, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_view(&columns, &from.whole, third, step, 2, 0, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_view(&square, &from.whole, std::array<int64_t, 2>{6, 6}.data(), nullptr, 2, 0, 0), KINA_SUCCESS);
  const KinaTensor* const many[3] = {&columns, &columns, &columns};

  walk_out_of_memory(to.whole, [&] { return runtime_gpu_reshape(&out, &from.part, turned, 2); });
  walk_out_of_memory(to.whole, [&] { return runtime_gpu_concat(&to.part, &rows, &rows, 0); });
  walk_out_of_memory(to.whole, [&] { return runtime_gpu_concat_n(&to.part, many, 3, 1); });
  walk_out_of_memory(to.whole, [&] { return runtime_gpu_matmul(&to.part, &from.part, &square, nullptr); });
  walk_out_of_memory(to.whole, [&] { return runtime_gpu_repeat_interleave(&to.part, &columns, 1, 3); });

  for (KinaTensor* tensor : {&out, &rows, &columns, &square}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
}

struct Pause {
  std::chrono::milliseconds length;
  template <class F>
  void each_view(F&&) {}
};

// The stream is busy for longer than is waited for an event that there is no memory for.
TEST(ClaimsOutOfMemory, MarkNothingOfACopyThatTheHostWaitsFor) {
  if (device_under_test() == kDLCPU) return;
  const Row<Pause> row = [](const Pause& pause, NativeStream) { std::this_thread::sleep_for(pause.length); };
  const Pause pause{std::chrono::milliseconds(20)};
  const int64_t shape[1] = {16};
  KinaTensor from = KINA_TENSOR_INIT, to = KINA_TENSOR_INIT;
  ASSERT_EQ(runtime_alloc(&from, shape, 1, KINA_DTYPE_F32, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_alloc(&to, shape, 1, KINA_DTYPE_F32, kDLCPU, 0, nullptr), KINA_SUCCESS);
  const float zero = 0;
  ASSERT_EQ(runtime_fill(&from, &zero, sizeof zero), KINA_SUCCESS);
  const int looks = most_looks.exchange(10);

  walk_out_of_memory(to, [&] {
    const int64_t left = std::exchange(tests::heap_left, -1);
    launch("pause", known_device(kDLExtDev, 0)->main(), row, std::span(&pause, 1), {});
    tests::heap_left = left;
    return runtime_copy_to_host(&to, &from);
  });

  EXPECT_EQ(mark_on(to), KINA_SUCCESS);
  most_looks = looks;
  for (KinaTensor* tensor : {&from, &to}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
}

TEST(ClaimsOutOfMemory, LoseNoCheckOfADevice) {
  int32_t simulated = 0;
  ASSERT_EQ(runtime_device_count(&simulated, kDLExtDev), KINA_SUCCESS);
  if (simulated == 0) return;
  const int64_t shape[1] = {1}, bad = 7;
  KinaTensor values = KINA_TENSOR_INIT, index = KINA_TENSOR_INIT, gathered = KINA_TENSOR_INIT, out = KINA_TENSOR_INIT;
  for (KinaTensor* tensor : {&values, &gathered, &out})
    ASSERT_EQ(runtime_alloc(tensor, shape, 1, KINA_DTYPE_F32, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_alloc(&index, shape, 1, KINA_DTYPE_I64, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_fill(&index, &bad, sizeof bad), KINA_SUCCESS);

  walk_out_of_memory(gathered, [&] { return runtime_gpu_gather(&gathered, &values, &index); });
  walk_out_of_memory(out, [&] { return runtime_gpu_unary(&out, &gathered, KINA_UNARY_NEG); });
  for (int64_t left = 0; left < 100; ++left) {
    tests::heap_left = left;
    const KinaStatus status = runtime_tensor_synchronize(&out);
    tests::heap_left = -1;
    if (status == KINA_ERROR_FAILED_INPUT) break;
    EXPECT_EQ(status, KINA_ERROR_OUT_OF_MEMORY) << left;
  }

  EXPECT_EQ(mark_on(out), KINA_ERROR_INDEX_OUT_OF_RANGE);
  for (KinaTensor* tensor : {&values, &index, &gathered, &out}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
}

// A gather with a bad index that a graph replays: what it met is not lost where memory to take it over is out.
TEST(ClaimsOutOfMemory, LoseNoCheckOfAReplay) {
  if (device_under_test() == kDLCPU) return;
  const int64_t shape[1] = {1}, bad = 7;
  KinaTensor values = KINA_TENSOR_INIT, index = KINA_TENSOR_INIT, out = KINA_TENSOR_INIT;
  for (KinaTensor* tensor : {&values, &out})
    ASSERT_EQ(runtime_alloc(tensor, shape, 1, KINA_DTYPE_F32, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_alloc(&index, shape, 1, KINA_DTYPE_I64, kDLExtDev, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_fill(&index, &bad, sizeof bad), KINA_SUCCESS);
  ASSERT_EQ(runtime_device_synchronize(kDLExtDev, 0), KINA_SUCCESS);
  KinaStream stream = nullptr;
  KinaResource resource = nullptr;
  void *native = nullptr, *graph = nullptr;
  ASSERT_EQ(runtime_stream_phase(&stream, kDLExtDev, 0, 3), KINA_SUCCESS);  // it may have uncounted work afterwards
  ASSERT_EQ(runtime_stream_native(&native, stream), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_current(&resource, kDLExtDev, 0), KINA_SUCCESS);
  auto* driver = static_cast<KinaSimStream*>(native);
  KinaScope announced = nullptr, pushed = nullptr;
  ASSERT_EQ(runtime_capture_push(&announced, stream, resource), KINA_SUCCESS);
  ASSERT_EQ(runtime_stream_push(&pushed, stream), KINA_SUCCESS);
  ASSERT_EQ(driver->begin_capture(driver), 0);
  EXPECT_EQ(runtime_gpu_gather(&out, &values, &index), KINA_SUCCESS);
  ASSERT_EQ(driver->end_capture(driver, &graph), 0);
  ASSERT_EQ(runtime_scope_pop(pushed), KINA_SUCCESS);
  ASSERT_EQ(runtime_scope_pop(announced), KINA_SUCCESS);
  EXPECT_EQ(driver->replay(driver, graph), 0);

  walk([&] { return runtime_tensor_record_use(&out, stream, KINA_ACCESS_WRITE); }, [] {});

  EXPECT_EQ(mark_on(out), KINA_ERROR_INDEX_OUT_OF_RANGE);
  EXPECT_EQ(runtime_stream_synchronize(stream), KINA_SUCCESS);
  EXPECT_EQ(driver->destroy_graph(graph), 0);
  for (KinaTensor* tensor : {&values, &index, &out}) EXPECT_EQ(runtime_free(tensor), KINA_SUCCESS);
}

}  // namespace
}  // namespace kina
