// Spans and self-overlap of geometries against enumeration of every index.
#include "impl/core/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace kina {
namespace {

std::vector<int64_t> offsets_of(const Geometry& geometry) {
  std::vector<int64_t> offsets{0};
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < geometry.extents[axis]; ++i) longer.push_back(offset + i * geometry.strides[axis]);
    offsets.swap(longer);
  }
  return offsets;
}

Geometry random_geometry(std::mt19937& random) {
  Geometry geometry;
  geometry.ndim = static_cast<int32_t>(random() % 4);
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    geometry.extents[axis] = 1 + static_cast<int64_t>(random() % 4);
    geometry.strides[axis] = static_cast<int64_t>(random() % 25) - 12;
  }
  return geometry;
}

TEST(Geometry, SpanIsTheLowestAndTheHighestOffset) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    const Geometry geometry = random_geometry(random);
    const std::vector<int64_t> offsets = offsets_of(geometry);
    const auto span = span_of(geometry);
    ASSERT_TRUE(span.has_value());
    EXPECT_EQ(span->low, *std::min_element(offsets.begin(), offsets.end()));
    EXPECT_EQ(span->high, *std::max_element(offsets.begin(), offsets.end()));
  }
}

TEST(Geometry, SelfOverlapIsNeverMissed) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const Geometry geometry = random_geometry(random);
    const std::vector<int64_t> offsets = offsets_of(geometry);
    const bool overlaps = std::set<int64_t>(offsets.begin(), offsets.end()).size() < offsets.size();
    EXPECT_TRUE(!overlaps || has_self_overlap(geometry));
  }
}

TEST(Geometry, CompactStridesDoNotOverlap) {
  std::mt19937 random(4);
  for (int i = 0; i < 1000; ++i) {
    Geometry geometry = random_geometry(random);
    make_compact(geometry);
    EXPECT_TRUE(is_compact(geometry));
    EXPECT_FALSE(has_self_overlap(geometry));
  }
}

TEST(Geometry, SpanOutsideSixtyFourBitsIsNone) {
  Geometry geometry;
  geometry.ndim = 2;
  geometry.extents[0] = geometry.extents[1] = 3;
  geometry.strides[0] = geometry.strides[1] = INT64_MAX / 2;
  EXPECT_FALSE(span_of(geometry).has_value());
}

TEST(Geometry, CheckedArithmeticRefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_add(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_add(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(checked_multiply(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(checked_multiply(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_multiply(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
}

}  // namespace
}  // namespace kina
