// The host's rows of runtime_gpu_unary.
#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"
#include "kernels/elementwise.h"

namespace kina::cpu {
namespace {

template <class Op, class T>
void run_unary(const UnaryArgs& args, NativeStream) {
  using Out = Result<T, decltype(Op::value(Computing<T>{}))>;
  const auto run = [](Pointers<2> at, Strides<2> strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      store<Out>(at[0] + i * strides[0], Op::value(number<T>(at[1] + i * strides[1])));
  };
  whole(args.out, args.in).for_each_run({args.out.data, args.in.data}, [&](auto at, auto strides, int64_t count) {
    constexpr Strides<2> kDense{sizeof(Out), sizeof(T)};
    is_dense(strides, kDense) ? run(at, kDense, count) : run(at, strides, count);
  });
}

template <class Op>
Row<UnaryArgs> row(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<UnaryArgs> {
    using T = typename decltype(type)::type;
    if constexpr (kIsComputing<T> && kernels::takes<Op::kDomain, Computing<T>>()) return &run_unary<Op, T>;
    return nullptr;
  });
}

}  // namespace

Row<UnaryArgs> unary(KinaUnaryOp op, KinaDtype dtype) noexcept {
  switch (op) {
#define KINA_UNARY(NAME, DOMAIN, VALUE) \
  case KINA_UNARY_##NAME:               \
    return row<kernels::unary::NAME>(dtype);
#define KINA_BINARY(NAME, DOMAIN, VALUE)
#include "kernels/elementwise.def"
#undef KINA_UNARY
#undef KINA_BINARY
    default: return nullptr;
  }
}

}  // namespace kina::cpu
