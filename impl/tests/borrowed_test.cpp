// Views of the caller's memory when host memory runs out: whatever step lacks it, the call is refused and nothing
// stays.
#include <gtest/gtest.h>

#include <array>

#include "impl/core/device.h"
#include "impl/core/storage.h"
#include "impl/tests/heap.h"

namespace kina {
namespace {

class BorrowedViews : public testing::Test {
 protected:
  // A borrowed tensor on the bytes of this test.
  BorrowedViews() {
    DLTensor seen{};
    seen.data = bytes_.data();
    seen.device = {kDLCPU, 0};
    seen.ndim = 1;
    seen.dtype = {kDLFloat, 32, 1};
    seen.shape = shape_;
    EXPECT_EQ(runtime_wrap(&in_, &seen, sizeof(bytes_), nullptr, 0), KINA_SUCCESS);
    KinaTensor first = KINA_TENSOR_INIT;  // tables that stay are made now
    EXPECT_EQ(view(first), KINA_SUCCESS);
    EXPECT_EQ(runtime_free(&first), KINA_SUCCESS);
  }
  KinaStatus view(KinaTensor& out) { return runtime_alias(&out, &in_); }

  alignas(16) std::array<float, 4> bytes_{};
  int64_t shape_[1] = {4};
  KinaTensor in_ = KINA_TENSOR_INIT;
};

TEST_F(BorrowedViews, AreRefusedWhereMemoryRunsOut) {
  KinaStatus status = KINA_ERROR_OUT_OF_MEMORY;
  for (int64_t left = 0; status == KINA_ERROR_OUT_OF_MEMORY; ++left) {
    KinaTensor made = KINA_TENSOR_INIT;
    const int64_t before = tests::heap_live;
    tests::heap_left = left;
    status = view(made);
    tests::heap_left = -1;
    if (status == KINA_SUCCESS) {
      EXPECT_GE(left, 2);  // each block that the call needs was missing once
      EXPECT_EQ(runtime_free(&made), KINA_SUCCESS);
    } else {
      EXPECT_LE(tests::heap_live, before);
    }
  }
  EXPECT_EQ(status, KINA_SUCCESS);
}

TEST(BorrowedBytes, MayReachFurtherThanHalfOfAllAddresses) {
  constexpr int64_t kElements = (int64_t{1} << 61) - 3;  // as many as 64 bits of bytes allow
  View view{reinterpret_cast<std::byte*>(uint64_t{1} << 46), KINA_DTYPE_F32, {}};
  view.geometry.ndim = 1;
  view.geometry.extents[0] = kElements;
  view.geometry.strides[0] = 1;

  const Hull hull = hull_of(view);

  EXPECT_EQ(hull.first, uint64_t{1} << 46);
  EXPECT_EQ(hull.last, (uint64_t{1} << 46) + uint64_t{4} * kElements);
}

}  // namespace
}  // namespace kina
