// The elementwise ops as functors, made from the list in elementwise.def.
#pragma once

#include "kernels/arithmetic.h"

namespace kina::kernels {

// Which values an op takes. f16 and bf16 come as float.
enum class Domain { kReal, kNumber, kInteger, kBits, kAny };

// Whether an op of this domain takes values of type T.
template <Domain kDomain, class T>
constexpr bool takes() {
  constexpr bool kIsReal = Real<T>;
  constexpr bool kIsInteger = Integer<T>;
  constexpr bool kIsBool = std::same_as<T, bool>;
  switch (kDomain) {
    case Domain::kReal: return kIsReal;
    case Domain::kNumber: return kIsReal || kIsInteger;
    case Domain::kInteger: return kIsInteger;
    case Domain::kBits: return kIsInteger || kIsBool;
    case Domain::kAny: return kIsReal || kIsInteger || kIsBool;
  }
  return false;
}

namespace unary {
#define KINA_UNARY(NAME, DOMAIN, VALUE)               \
  struct NAME {                                       \
    static constexpr Domain kDomain = Domain::DOMAIN; \
    template <class T>                                \
    KINA_HD static auto value(T x) {                  \
      return VALUE;                                   \
    }                                                 \
  };
#define KINA_BINARY(NAME, DOMAIN, VALUE)
#include "kernels/elementwise.def"
#undef KINA_UNARY
#undef KINA_BINARY
}  // namespace unary

namespace binary {
#define KINA_UNARY(NAME, DOMAIN, VALUE)
#define KINA_BINARY(NAME, DOMAIN, VALUE)              \
  struct NAME {                                       \
    static constexpr Domain kDomain = Domain::DOMAIN; \
    template <class T>                                \
    KINA_HD static auto value(T a, T b) {             \
      return VALUE;                                   \
    }                                                 \
  };
#include "kernels/elementwise.def"
#undef KINA_UNARY
#undef KINA_BINARY
}  // namespace binary

}  // namespace kina::kernels
