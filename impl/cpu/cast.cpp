// The host's rows of runtime_gpu_cast.
#include "kernels/cast.h"
#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"

namespace kina::cpu {
namespace {

template <class T>
inline constexpr bool kIsShort = false;
template <class Storage, class Format>
inline constexpr bool kIsShort<Rounded<Storage, Format>> = true;

// Casts take the computing dtypes and f8 [KINA-ELEMENTWISE-41].
template <class T>
inline constexpr bool kIsCast = kIsComputing<T> || kIsShort<T>;

template <class To, class From>
To converted(From value) noexcept {
  if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, Bool>) {
    return value;  // all bits stay [KINA-ELEMENTWISE-42]
  } else {
    const auto number = static_cast<Computing<From>>(value);
    if constexpr (kIsShort<To>)
      return To(kernels::to_odd(number));
    else
      return kernels::convert<Computing<To>>(number);
  }
}

template <class To, class From>
void run_cast(const CastArgs& args, NativeStream) {
  const auto run = [](Pointers<2> at, Strides<2> strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      store<To>(at[0] + i * strides[0], converted<To>(load<From>(at[1] + i * strides[1])));
  };
  whole(args.out, args.in).for_each_run({args.out.data, args.in.data}, [&](auto at, auto strides, int64_t count) {
    constexpr Strides<2> kDense{sizeof(To), sizeof(From)};
    is_dense(strides, kDense) ? run(at, kDense, count) : run(at, strides, count);
  });
}

}  // namespace

Row<CastArgs> cast(KinaDtype to, KinaDtype from) noexcept {
  return visit(to, [from](auto to_type) -> Row<CastArgs> {
    using To = typename decltype(to_type)::type;
    if constexpr (kIsCast<To>)
      return visit(from, [](auto from_type) -> Row<CastArgs> {
        using From = typename decltype(from_type)::type;
        if constexpr (kIsCast<From>) return &run_cast<To, From>;
        return nullptr;
      });
    return nullptr;
  });
}

}  // namespace kina::cpu
