// What a call pays for the case that it fails: nothing from the heap, and room for the mark when there is no memory.
#include <gtest/gtest.h>

#include "impl/core/device.h"
#include "impl/core/tensor.h"
#include "impl/tests/heap.h"

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
  record.storage->provide(record.view());

  tests::heap_left = 0;
  record.storage->tear(record.view());
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
  record.storage->provide(record.view());

  tests::heap_left = 0;
  record.storage->tear(record.view());
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

}  // namespace
}  // namespace kina
