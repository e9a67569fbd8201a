// Conversions between bool, integers, float and double, each with one rounding.
#pragma once

#include <bit>

#include "kernels/arithmetic.h"

namespace kina::kernels {

// Cut towards zero, saturating, NaN 0 [KINA-ELEMENTWISE-44]. The bounds are powers of two, exact in every format.
template <Integer To, Real From>
KINA_HD To saturated(From x) {
  using Limits = std::numeric_limits<To>;
  const From end = std::ldexp(From{1}, Limits::digits);
  if (x != x) return 0;
  if (x >= end) return Limits::max();
  if (x <= (std::is_signed_v<To> ? -end : From{})) return Limits::min();
  return static_cast<To>(x);
}

template <class To, class From>
KINA_HD To convert(From x) {
  if constexpr (std::same_as<To, bool>) {
    return is_true(x);
  } else if constexpr (Integer<To> && Real<From>) {
    return saturated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// A float that stands for x in a further rounding to at most 22 digits: x cut to a float towards zero, its last bit set
// where that lost something (rounding to odd). Rounding it gives what rounding x itself would.
KINA_HD inline float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (x != x || back == x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(x)) bits -= 1;
  return std::bit_cast<float>(bits | 1U);
}

template <Integer T>
KINA_HD float to_odd(T x) {
  uint64_t bits = x < T{} ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  int32_t shift = 0;
  for (; bits >> 24 != 0; ++shift) bits = bits >> 1 | (bits & 1);
  const float value = std::ldexp(static_cast<float>(bits), shift);
  return x < T{} ? -value : value;
}

KINA_HD inline float to_odd(float x) { return x; }
KINA_HD inline float to_odd(bool x) { return x ? 1.0F : 0.0F; }

}  // namespace kina::kernels
