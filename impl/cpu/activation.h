// The activations that a product can end with.
#pragma once

#include <cmath>

#include "impl/backend/backend.h"

namespace kina::cpu {

template <class T>
T activate(KinaUnaryOp op, T x) noexcept {
  constexpr T half = T(0.5), root_half = T(0.70710678118654752440), root_two_over_pi = T(0.79788456080286535588);
  switch (op) {
    case KINA_UNARY_RELU:
      return x < 0 ? 0 : x;
    case KINA_UNARY_GELU:
      return x * half * std::erfc(-x * root_half);
    case KINA_UNARY_GELU_TANH:
      return half * x * (1 + std::tanh(root_two_over_pi * (x + T(0.044715) * x * x * x)));
    case KINA_UNARY_SILU:
      return x / (1 + std::exp(-x));
    case KINA_UNARY_SIGMOID:
      return 1 / (1 + std::exp(-x));
    default:
      return std::tanh(x);
  }
}

}  // namespace kina::cpu
