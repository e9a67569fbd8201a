// The host's rows of runtime_gpu_reduce.
#include <new>

#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"
#include "kernels/cast.h"
#include "kernels/reduction.h"

namespace kina::cpu {
namespace {

// What one (op, dtype) does with the elements behind one result, so that the loops below exist once.
struct Steps {
  void (*start)(void* state);
  void (*add)(void* state, const std::byte* at, int64_t stride, int64_t count);
  void (*finish)(const void* state, std::byte* out);
};

constexpr size_t kStateBytes = 512;

template <class Accumulator, class T>
struct StepsOf {
  static_assert(sizeof(Accumulator) <= kStateBytes && std::is_trivially_destructible_v<Accumulator>);

  static void start(void* state) { new (state) Accumulator(); }
  static void add(void* state, const std::byte* at, int64_t stride, int64_t count) {
    auto& accumulator = *static_cast<Accumulator*>(state);
    for (int64_t i = 0; i < count; ++i) accumulator.add(number<T>(at + i * stride));
  }
  static void finish(const void* state, std::byte* out) {
    const auto result = static_cast<const Accumulator*>(state)->result();
    using Value = std::remove_const_t<decltype(result)>;
    if constexpr (std::is_same_v<Value, bool>)
      store<Bool>(out, result);
    else if constexpr (std::is_same_v<Value, int64_t>)
      store<int64_t>(out, result);
    else if constexpr (std::is_same_v<Computing<T>, T>)
      store<T>(out, static_cast<T>(result));
    else
      store<T>(out, T(kernels::to_odd(result)));
  }
};

// Axes of extent 1 in `out` and another extent in `in` are reduced; the others are walked with both.
void reduce_with(const Steps& steps, const ReduceArgs& args) {
  Loop<2> kept;
  Loop<1> reduced;
  for (int32_t axis = 0; axis < args.in.geometry.ndim; ++axis) {
    const int64_t extent = args.in.geometry.extents[axis];
    if (args.out.geometry.extents[axis] == extent)
      kept.add(extent, byte_strides(axis, args.out, args.in));
    else
      reduced.add(extent, byte_strides(axis, args.in));
  }
  kept.for_each_run({args.out.data, args.in.data}, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      alignas(std::max_align_t) std::byte state[kStateBytes];
      steps.start(state);
      reduced.for_each_run({at[1] + i * strides[1]},
                           [&](auto from, auto stride, int64_t run) { steps.add(state, from[0], stride[0], run); });
      steps.finish(state, at[0] + i * strides[0]);
    }
  });
}

template <class Accumulator, class T>
void run_reduce(const ReduceArgs& args, NativeStream) {
  using S = StepsOf<Accumulator, T>;
  static constexpr Steps kSteps{&S::start, &S::add, &S::finish};
  reduce_with(kSteps, args);
}

template <template <class> class Accumulator, kernels::Domain kDomain>
Row<ReduceArgs> row(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<ReduceArgs> {
    using T = typename decltype(type)::type;
    if constexpr (kIsComputing<T>)
      if constexpr (kernels::takes<kDomain, Computing<T>>()) return &run_reduce<Accumulator<Computing<T>>, T>;
    return nullptr;
  });
}

}  // namespace

Row<ReduceArgs> reduce(KinaReduceOp op, KinaDtype dtype) noexcept {
  switch (op) {
#define KINA_REDUCE(NAME, DOMAIN, ACCUMULATOR) \
  case KINA_REDUCE_##NAME:                     \
    return row<kernels::ACCUMULATOR, kernels::Domain::DOMAIN>(dtype);
#include "kernels/reduction.def"
#undef KINA_REDUCE
    default: return nullptr;
  }
}

}  // namespace kina::cpu
