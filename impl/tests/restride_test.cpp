// Reshaping by strides alone against the addresses of every element.
#include "impl/core/restride.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "impl/tests/offsets.h"

namespace kina {
namespace {

// Whether any strides at all give these offsets: the step of each axis can be read off the offsets themselves.
bool strides_exist(const std::vector<int64_t>& offsets, Geometry shape) {
  int64_t behind = 1;
  for (int32_t axis = shape.ndim; axis-- > 0;) {
    shape.strides[axis] = shape.extents[axis] > 1 ? offsets[static_cast<size_t>(behind)] - offsets[0] : 0;
    behind *= shape.extents[axis];
  }
  return offsets_of(shape) == offsets;
}

Geometry shape_of(int64_t count, std::mt19937& random) {
  Geometry shape;
  while (shape.ndim < 6 && (count > 1 || random() % 3 == 0)) {
    int64_t extent = 1 + static_cast<int64_t>(random() % 6);
    if (shape.ndim == 5) extent = count;
    if (count % extent != 0) continue;
    shape.extents[shape.ndim++] = extent;
    count /= extent;
  }
  return shape;
}

TEST(Restride, FindsStridesExactlyWhereThereAreSome) {
  std::mt19937 random(7);
  int found = 0, absent = 0;
  for (int i = 0; i < 50000; ++i) {
    const int64_t count = std::vector<int64_t>{1, 4, 6, 12, 24, 36}[random() % 6];
    Geometry from = shape_of(count, random), to = shape_of(count, random);
    make_compact(from);
    for (int32_t axis = 0; axis < from.ndim; ++axis) {
      if (random() % 4 == 0) from.strides[axis] = static_cast<int64_t>(random() % 25) - 12;
      if (from.extents[axis] == 1 && random() % 2 == 0) from.strides[axis] = 1 << 20;
    }
    if (random() % 4 == 0 && from.ndim > 1) {
      std::swap(from.extents[0], from.extents[1]);
      std::swap(from.strides[0], from.strides[1]);
    }
    const std::vector<int64_t> offsets = offsets_of(from);

    const bool answer = restride(from, to);

    ASSERT_EQ(answer, strides_exist(offsets, to));
    ASSERT_TRUE(!answer || offsets_of(to) == offsets);
    ++(answer ? found : absent);
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(absent, 5000);
}

TEST(Restride, WithoutElementsEveryShapeIsReached) {
  Geometry from, to;
  from.ndim = 2;
  to.ndim = 3;
  const int64_t old_extents[] = {0, 3}, new_extents[] = {2, 0, 5};
  std::copy_n(old_extents, 2, from.extents);
  std::copy_n(new_extents, 3, to.extents);
  from.strides[0] = -7;
  from.strides[1] = 100;

  EXPECT_TRUE(restride(from, to));
  EXPECT_TRUE(is_compact(to));
}

}  // namespace
}  // namespace kina
