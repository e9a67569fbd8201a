// The arithmetic of single values that every device shares: wrapping integers, and the cases that C leaves open.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define KINA_HD __host__ __device__
#else
#define KINA_HD
#endif

namespace kina::kernels {

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
template <class T>
concept Real = std::floating_point<T>;

template <Real T>
KINA_HD constexpr T infinity() {
  return std::numeric_limits<T>::infinity();
}

// The bits of an integer as an unsigned number, in which arithmetic wraps, and back.
template <Integer T>
KINA_HD constexpr uint64_t wide(T x) {
  return static_cast<uint64_t>(x);
}
template <Integer T>
KINA_HD constexpr T narrow(uint64_t bits) {
  return static_cast<T>(bits);
}

template <class T>
KINA_HD constexpr bool is_true(T x) {
  return x != T{};
}

KINA_HD constexpr bool add(bool a, bool b) { return a || b; }
KINA_HD constexpr bool multiply(bool a, bool b) { return a && b; }

template <Integer T>
KINA_HD constexpr T add(T a, T b) {
  return narrow<T>(wide(a) + wide(b));
}
template <Integer T>
KINA_HD constexpr T subtract(T a, T b) {
  return narrow<T>(wide(a) - wide(b));
}
template <Integer T>
KINA_HD constexpr T multiply(T a, T b) {
  return narrow<T>(wide(a) * wide(b));
}
template <Integer T>
KINA_HD constexpr T negate(T x) {
  return narrow<T>(0 - wide(x));
}
template <Integer T>
KINA_HD constexpr T magnitude(T x) {
  return x < T{} ? negate(x) : x;
}
template <Integer T>
KINA_HD constexpr T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}
template <Integer T>
KINA_HD constexpr T relu(T x) {
  return x > 0 ? x : T{};
}

KINA_HD constexpr bool bitwise_not(bool x) { return !x; }
template <Integer T>
KINA_HD constexpr T bitwise_not(T x) {
  return static_cast<T>(~x);
}

// By zero 0; the lowest value by -1 wraps [KINA-ELEMENTWISE-32].
template <Integer T>
KINA_HD constexpr T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return negate(a);
    const T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  } else {
    return static_cast<T>(a / b);
  }
}
template <Integer T>
KINA_HD constexpr T modulo(T a, T b) {
  return b == 0 ? T{} : subtract(a, multiply(floor_divide(a, b), b));
}

// Negative exponents give the exact value cut towards zero [KINA-ELEMENTWISE-35].
template <Integer T>
KINA_HD constexpr T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
      return 0;
    }
  }
  uint64_t result = 1;
  uint64_t factor = wide(base);
  for (uint64_t left = wide(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return narrow<T>(result);
}

// Negative counts and counts of the width or more shift every bit out [KINA-ELEMENTWISE-40].
template <Integer T>
KINA_HD constexpr bool shifts_all(T count) {
  return wide(count) >= sizeof(T) * 8;
}
template <Integer T>
KINA_HD constexpr T shift_left(T x, T count) {
  return shifts_all(count) ? T{} : narrow<T>(wide(x) << count);
}
template <Integer T>
KINA_HD constexpr T shift_right(T x, T count) {
  return shifts_all(count) ? static_cast<T>(x < T{} ? -1 : 0) : static_cast<T>(x >> count);
}

template <class T>
requires(!Real<T>) KINA_HD constexpr T maximum(T a, T b) { return a > b ? a : b; }
template <class T>
requires(!Real<T>) KINA_HD constexpr T minimum(T a, T b) { return a < b ? a : b; }

template <Real T>
KINA_HD T add(T a, T b) {
  return a + b;
}
template <Real T>
KINA_HD T subtract(T a, T b) {
  return a - b;
}
template <Real T>
KINA_HD T multiply(T a, T b) {
  return a * b;
}
template <Real T>
KINA_HD T negate(T x) {
  return -x;
}
template <Real T>
KINA_HD T magnitude(T x) {
  return std::fabs(x);
}
template <Real T>
KINA_HD T sign(T x) {
  return x > 0 ? T{1} : x < 0 ? T{-1} : x;  // zeros and NaN are their own sign
}
template <Real T>
KINA_HD T relu(T x) {
  return x > 0 || x != x ? x : T{};
}

// NaN wins, and +0 is above -0 [KINA-ELEMENTWISE-37].
template <Real T>
KINA_HD T maximum(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <Real T>
KINA_HD T minimum(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// The remainder with the sign of the divisor: fmod is exact, and one sum moves it to the other side
// [KINA-ELEMENTWISE-33].
template <Real T>
KINA_HD T modulo(T a, T b) {
  const T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(T{}, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
// The floor of the exact quotient: what is left after the remainder divides evenly but for rounding
// [KINA-ELEMENTWISE-34].
template <Real T>
KINA_HD T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T remainder = std::fmod(a, b);
  T quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) quotient -= 1;
  return quotient == 0 ? std::copysign(T{}, a / b) : std::rint(quotient);
}
template <Real T>
KINA_HD T power(T a, T b) {
  return std::pow(a, b);
}

// Both branches keep exp from overflowing where the result is not 0 or 1.
template <Real T>
KINA_HD T sigmoid(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T e = std::exp(x);
  return e / (1 + e);
}
// The three gates are 0 at -infinity, their limit, where x times 0 would be NaN [KINA-ELEMENTWISE-21].
template <Real T>
KINA_HD T gate(T x, T share) {
  return x == -infinity<T>() ? -T{} : x * share;
}
template <Real T>
KINA_HD T silu(T x) {
  return gate(x, sigmoid(x));
}
template <Real T>
KINA_HD T gelu(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  return gate(x, std::erfc(-x * kRootHalf) / 2);
}
// (1 + tanh(y)) / 2 is the sigmoid of 2 y, which does not cancel.
template <Real T>
KINA_HD T gelu_tanh(T x) {
  constexpr T kTwiceRootTwoOverPi = static_cast<T>(1.59576912160573071176);
  constexpr T kCubic = static_cast<T>(0.044715);
  return gate(x, sigmoid(kTwiceRootTwoOverPi * (x + kCubic * x * x * x)));
}

}  // namespace kina::kernels
