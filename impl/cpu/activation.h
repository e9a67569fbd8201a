// The activations that a product can end with: the unary ops of the same names.
#pragma once

#include "impl/backend/backend.h"
#include "kernels/elementwise.h"

namespace kina::cpu {

template <class T>
T activate(KinaUnaryOp op, T x) noexcept {
  namespace unary = kernels::unary;
  switch (op) {
    case KINA_UNARY_RELU: return unary::RELU::value(x);
    case KINA_UNARY_GELU: return unary::GELU::value(x);
    case KINA_UNARY_GELU_TANH: return unary::GELU_TANH::value(x);
    case KINA_UNARY_SILU: return unary::SILU::value(x);
    case KINA_UNARY_SIGMOID: return unary::SIGMOID::value(x);
    case KINA_UNARY_TANH: return unary::TANH::value(x);
    default: return x;
  }
}

}  // namespace kina::cpu
