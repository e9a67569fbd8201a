// What a product of matrices means for each element type: how elements multiply and add, and how a sum becomes a
// result.
#pragma once

#include <type_traits>

#include "impl/backend/backend.h"
#include "impl/cpu/activation.h"

namespace kina::cpu {

// The dtype that sums of products of T are kept in, for each T that has products. Integers use unsigned arithmetic,
// which wraps.
template <class T>
struct Accumulation;
#define KINA_ACCUMULATION(TYPE, SUM) \
  template <>                        \
  struct Accumulation<TYPE> {        \
    using type = SUM;                \
  };
KINA_ACCUMULATION(Bool, bool)
KINA_ACCUMULATION(uint8_t, uint32_t)
KINA_ACCUMULATION(int8_t, uint32_t)
KINA_ACCUMULATION(int16_t, uint32_t)
KINA_ACCUMULATION(int32_t, uint32_t)
KINA_ACCUMULATION(int64_t, uint64_t)
KINA_ACCUMULATION(Half, float)
KINA_ACCUMULATION(BFloat16, float)
KINA_ACCUMULATION(float, float)
KINA_ACCUMULATION(double, double)
#undef KINA_ACCUMULATION
template <class T>
using Sum = typename Accumulation<T>::type;

template <class T>
inline constexpr bool is_floating_sum = std::is_floating_point_v<Sum<T>>;

// sum + a · b
template <class T>
Sum<T> multiply_add(Sum<T> sum, T a, T b) noexcept {
  if constexpr (std::is_same_v<T, Bool>)
    return sum || (static_cast<bool>(a) && static_cast<bool>(b));
  else
    return sum + static_cast<Sum<T>>(a) * static_cast<Sum<T>>(b);
}

// act(alpha · product + beta · previous + bias), rounded once.
template <class T, class Out>
class Finish {
 public:
  explicit Finish(const MatmulArgs& args) noexcept
      : alpha_(args.is_scaled ? args.alpha : 1),
        beta_(args.is_scaled ? args.beta : 0),
        has_bias_(args.bias.data != nullptr),
        activation_(args.activation) {}

  // True when a result is the product itself.
  bool is_identity() const noexcept { return alpha_ == 1 && beta_ == 0 && !has_bias_ && activation_ == 0; }

  // Replaces `out`. `bias` is read only where there is one, `out` only where beta is not 0.
  void operator()(Out& out, Sum<T> product, const Out* bias) const noexcept {
    if constexpr (std::is_same_v<T, Bool>) {
      out = Bool(product || (has_bias_ && static_cast<bool>(*bias)));
    } else if constexpr (!is_floating_sum<T>) {
      out = static_cast<Out>(has_bias_ ? product + static_cast<Sum<T>>(*bias) : product);
    } else {
      Sum<T> value = alpha_ == 1 ? product : alpha_ == 0 ? 0 : static_cast<Sum<T>>(alpha_) * product;
      if (beta_ != 0) value += static_cast<Sum<T>>(beta_) * static_cast<Sum<T>>(out);
      if (has_bias_) value += static_cast<Sum<T>>(*bias);
      if (activation_ != 0) value = activate(activation_, value);
      out = static_cast<Out>(value);
    }
  }

 private:
  double alpha_, beta_;
  bool has_bias_;
  KinaUnaryOp activation_;
};

}  // namespace kina::cpu
