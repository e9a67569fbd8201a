// Spans and self-overlap of geometries against enumeration of every index.
#include "impl/core/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "impl/tests/offsets.h"

namespace kina {
namespace {

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
    const Span span = span_of(geometry);
    EXPECT_EQ(span.low, *std::min_element(offsets.begin(), offsets.end()));
    EXPECT_EQ(span.high, *std::max_element(offsets.begin(), offsets.end()));
    Geometry filled;
    const Reach reach = check_geometry(filled, geometry.extents, geometry.strides, geometry.ndim, 4, {});
    const Span checked = reach.span;
    EXPECT_FALSE(reach.is_nested && has_self_overlap(geometry));
    EXPECT_EQ(checked.low, span.low);
    EXPECT_EQ(checked.high, span.high);
    EXPECT_TRUE(same_layout(filled, geometry));
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

TEST(Geometry, SpanOutsideSixtyFourBitsIsRefused) {
  const int64_t extents[] = {3, 3}, strides[] = {INT64_MAX / 2, INT64_MAX / 2};
  Geometry geometry;
  EXPECT_THROW(check_geometry(geometry, extents, strides, 2, 1, {}), Error);
  const int64_t pair[] = {2}, lowest[] = {INT64_MIN};
  EXPECT_THROW(check_geometry(geometry, pair, lowest, 1, 1, {}), Error);
}

TEST(Geometry, CheckedCompactStridesAreThoseOfTheShape) {
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    Geometry wanted = random_geometry(random);
    if (wanted.ndim > 0 && random() % 4 == 0) wanted.extents[0] = 0;
    make_compact(wanted);
    Geometry filled;
    const Span span = check_geometry(filled, wanted.extents, nullptr, wanted.ndim, 8, {}).span;
    EXPECT_EQ(span.is_empty(), wanted.is_empty());
    EXPECT_EQ(span_of(wanted).is_empty(), wanted.is_empty());
    ASSERT_EQ(filled.ndim, wanted.ndim);
    EXPECT_TRUE(std::equal(wanted.strides, wanted.strides + wanted.ndim, filled.strides));
    if (wanted.is_empty()) continue;
    EXPECT_EQ(span.low, 0);
    EXPECT_EQ(span.high, wanted.count() - 1);
  }
}

TEST(Geometry, TheLargestShapesLeaveRoomForOneElementMore) {
  const auto fits = [](std::vector<int64_t> extents, uint64_t element_bytes) {
    Geometry geometry;
    try {
      check_geometry(geometry, extents.data(), nullptr, static_cast<int32_t>(extents.size()), element_bytes, {});
    } catch (const Error& error) {
      return error.status != KINA_ERROR_INVALID_SHAPE;
    }
    return true;
  };
  EXPECT_TRUE(fits({INT64_MAX / 8 - 1}, 8));
  EXPECT_FALSE(fits({INT64_MAX / 8}, 8));
  EXPECT_TRUE(fits({INT64_MAX / 8, 0}, 8));
  EXPECT_FALSE(fits({0, INT64_MAX / 8 + 1}, 8));
  EXPECT_FALSE(fits({int64_t{1} << 32, int64_t{1} << 32}, 1));
  EXPECT_FALSE(fits({-1, int64_t{1} << 62, 4}, 1));
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
