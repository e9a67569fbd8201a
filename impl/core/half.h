// The 16-bit and 8-bit floating types: storage with exact conversions to and from float.
#pragma once

#include <bit>
#include <cstdint>

namespace kina {

// A binary format with `kExponent` exponent bits and `kMantissa` mantissa bits. kFinite formats (e4m3fn) have no
// infinity and one NaN, the pattern of all ones.
template <int kExponent, int kMantissa, bool kFinite>
struct SmallFloat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kMagnitude = (1U << (kBits - 1)) - 1;
  static constexpr uint32_t kExponentMask = ((1U << kExponent) - 1) << kMantissa;
  // The largest finite pattern, and the pattern of the NaN that conversions make.
  static constexpr uint32_t kLargest = kFinite ? kMagnitude - 1 : kExponentMask - 1;
  static constexpr uint32_t kNan = kFinite ? kMagnitude : kExponentMask | 1U << (kMantissa - 1);

  static constexpr float decode(uint32_t bits) noexcept {
    const uint32_t sign = bits >> (kBits - 1) << 31;
    const uint32_t magnitude = bits & kMagnitude;
    const uint32_t exponent = magnitude >> kMantissa;
    const uint32_t mantissa = magnitude & ((1U << kMantissa) - 1);
    if (kFinite ? magnitude == kMagnitude : exponent == (1U << kExponent) - 1)
      return std::bit_cast<float>(sign | 0x7F800000U | mantissa << (23 - kMantissa) | (kFinite ? 0x400000U : 0U));
    if (exponent == 0) {  // denormal here, a normal float unless the exponent range is float's own
      const float value = static_cast<float>(mantissa) * kDenormalUnit();
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | (exponent + 127 - kBias) << 23 | mantissa << (23 - kMantissa));
  }

  // Round to nearest, ties to even. Beyond the largest finite value: infinity, or NaN where the format has no infinity.
  static constexpr uint32_t encode(float value) noexcept {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 31 << (kBits - 1);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U)
      return sign | kNan | (kFinite ? 0U : (magnitude >> (23 - kMantissa)) & ((1U << kMantissa) - 1));
    if (magnitude == 0x7F800000U) return sign | (kFinite ? kNan : kExponentMask);
    const uint32_t rounded = round(magnitude);
    if (rounded > kLargest) return sign | (kFinite ? kNan : kExponentMask);
    return sign | rounded;
  }

 private:
  static constexpr float kDenormalUnit() noexcept {
    return kExponent == 8 ? std::bit_cast<float>(1U << (23 - kMantissa))
                          : std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23);
  }

  static constexpr uint32_t round(uint32_t magnitude) noexcept {
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
    uint32_t significand = (magnitude & 0x7FFFFFU) | (magnitude >= 0x800000U ? 0x800000U : 0U);
    int shift = 23 - kMantissa;
    uint32_t base = 0;
    if (kExponent == 8) {
      significand = magnitude;  // same exponent range: the whole pattern rounds as one integer
    } else if (exponent <= 0) {
      shift += 1 - exponent;
      if (shift > 25) return 0;
    } else {
      base = static_cast<uint32_t>(exponent - 1) << kMantissa;
    }
    const uint32_t kept = significand >> shift;
    const uint32_t dropped = significand & ((1U << shift) - 1);
    const uint32_t half = 1U << (shift - 1);
    return base + kept + (dropped > half || (dropped == half && (kept & 1U) != 0) ? 1U : 0U);
  }
};

template <class Storage, class Format>
struct Rounded {
  Storage bits;
  Rounded() = default;
  constexpr Rounded(float value) : bits(static_cast<Storage>(Format::encode(value))) {}
  constexpr operator float() const { return Format::decode(bits); }
};

using Half = Rounded<uint16_t, SmallFloat<5, 10, false>>;
using BFloat16 = Rounded<uint16_t, SmallFloat<8, 7, false>>;
using Float8E4M3 = Rounded<uint8_t, SmallFloat<4, 3, true>>;
using Float8E5M2 = Rounded<uint8_t, SmallFloat<5, 2, false>>;

}  // namespace kina
