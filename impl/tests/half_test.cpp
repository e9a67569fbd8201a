// The small floating types, every pattern of each against rounding in double.
#include "impl/core/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kina {
namespace {

template <class Format>
struct Small : testing::Test {};
using Formats =
    testing::Types<SmallFloat<5, 10, false>, SmallFloat<8, 7, false>, SmallFloat<4, 3, true>, SmallFloat<5, 2, false>>;
TYPED_TEST_SUITE(Small, Formats, );

TYPED_TEST(Small, EveryPatternSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 1U << TypeParam::kBits; ++bits) {
    const float value = TypeParam::decode(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(TypeParam::decode(TypeParam::encode(value)))) << bits;
    } else {
      EXPECT_EQ(TypeParam::encode(value), bits) << value;
    }
  }
}

TYPED_TEST(Small, MagnitudesGrowWithTheirPatterns) {
  for (uint32_t bits = 1; bits <= TypeParam::kLargest; ++bits)
    EXPECT_GT(TypeParam::decode(bits), TypeParam::decode(bits - 1)) << bits;
}

// Between two neighbours: below the middle down, above it up, on it to the even pattern.
TYPED_TEST(Small, RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < TypeParam::kLargest; ++bits) {
    const double low = TypeParam::decode(bits), high = TypeParam::decode(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // float itself cannot hold the tie
    EXPECT_EQ(TypeParam::encode(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(TypeParam::encode(std::nextafter(middle, 0.0F)), bits) << middle;
    EXPECT_EQ(TypeParam::encode(std::nextafter(middle, INFINITY)), bits + 1) << middle;
    EXPECT_EQ(TypeParam::encode(-middle) & TypeParam::kMagnitude, TypeParam::encode(middle)) << middle;
  }
}

TEST(Half, KnownPatterns) {
  using F16 = SmallFloat<5, 10, false>;
  EXPECT_EQ(F16::decode(0x3C00), 1.0F);
  EXPECT_EQ(F16::decode(0x7BFF), 65504.0F);
  EXPECT_EQ(F16::decode(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(F16::encode(65520.0F), 0x7C00U);
  EXPECT_EQ(F16::encode(65519.0F), 0x7BFFU);
  EXPECT_EQ((SmallFloat<4, 3, true>::decode(0x7E)), 448.0F);
  EXPECT_EQ((SmallFloat<5, 2, false>::decode(0x7B)), 57344.0F);
  EXPECT_EQ((SmallFloat<8, 7, false>::encode(1.0F)), 0x3F80U);
}

}  // namespace
}  // namespace kina
