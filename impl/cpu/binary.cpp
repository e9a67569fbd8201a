// The host's rows of runtime_gpu_binary.
#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"
#include "kernels/elementwise.h"

namespace kina::cpu {
namespace {

template <class Op, class T>
void run_binary(const BinaryArgs& args, NativeStream) {
  using Out = Result<T, decltype(Op::value(Computing<T>{}, Computing<T>{}))>;
  const auto run = [](Pointers<3> at, Strides<3> strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      store<Out>(at[0] + i * strides[0],
                 Op::value(number<T>(at[1] + i * strides[1]), number<T>(at[2] + i * strides[2])));
  };
  whole(args.out, args.a, args.b)
      .for_each_run({args.out.data, args.a.data, args.b.data}, [&](auto at, auto strides, int64_t count) {
        constexpr Strides<3> kDense{sizeof(Out), sizeof(T), sizeof(T)};
        is_dense(strides, kDense) ? run(at, kDense, count) : run(at, strides, count);
      });
}

template <class Op>
Row<BinaryArgs> row(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<BinaryArgs> {
    using T = typename decltype(type)::type;
    if constexpr (kIsComputing<T> && kernels::takes<Op::kDomain, Computing<T>>()) return &run_binary<Op, T>;
    return nullptr;
  });
}

}  // namespace

Row<BinaryArgs> binary(KinaBinaryOp op, KinaDtype dtype) noexcept {
  switch (op) {
#define KINA_UNARY(NAME, DOMAIN, VALUE)
#define KINA_BINARY(NAME, DOMAIN, VALUE) \
  case KINA_BINARY_##NAME:               \
    return row<kernels::binary::NAME>(dtype);
#include "kernels/elementwise.def"
#undef KINA_UNARY
#undef KINA_BINARY
    default: return nullptr;
  }
}

}  // namespace kina::cpu
