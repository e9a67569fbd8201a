// The host's rows of softmax and log_softmax: computed in double, rounded once.
#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"
#include "kernels/cast.h"
#include "kernels/reduction.h"

namespace kina::cpu {
namespace {

// What a row is divided by.
struct Scale {
  double maximum;
  double sum;  // of exp(x - maximum)
};

// Values of the two functions for one x. A row of -infinity alone is masked: nothing is divided [KINA-REDUCTION-24].
struct Softmax {
  static double value(double x, const Scale& scale) {
    if (scale.maximum == -kernels::infinity<double>()) return 0;
    return std::exp(x - scale.maximum) / scale.sum;
  }
};
struct LogSoftmax {
  static double value(double x, const Scale& scale) {
    if (scale.maximum == -kernels::infinity<double>()) return x;
    return x - scale.maximum - std::log(scale.sum);
  }
};

template <class T>
Scale scale_of(const Loop<2>& row, Pointers<2> first) {
  kernels::Maximum<double> maximum;
  row.for_each_run(first, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) maximum.add(static_cast<double>(number<T>(at[1] + i * strides[1])));
  });
  kernels::TreeSum sum;
  row.for_each_run(first, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      sum.add(std::exp(static_cast<double>(number<T>(at[1] + i * strides[1])) - maximum.result()));
  });
  return {maximum.result(), sum.value()};
}

template <class Function, class T>
void run_softmax(const SoftmaxArgs& args, NativeStream) {
  if (args.in.geometry.is_empty()) return;  // rows without elements can be any number of them
  Loop<2> rows;
  Loop<2> row;
  for (int32_t axis = 0; axis < args.in.geometry.ndim; ++axis) {
    const bool is_summed = axis == args.axis || args.axis == KINA_AXIS_ALL;
    (is_summed ? row : rows).add(args.in.geometry.extents[axis], byte_strides(axis, args.out, args.in));
  }
  rows.for_each_run({args.out.data, args.in.data}, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Pointers<2> first{at[0] + i * strides[0], at[1] + i * strides[1]};
      const Scale scale = scale_of<T>(row, first);
      row.for_each_run(first, [&](auto to, auto steps, int64_t elements) {
        for (int64_t k = 0; k < elements; ++k) {
          const double value = Function::value(static_cast<double>(number<T>(to[1] + k * steps[1])), scale);
          if constexpr (std::is_same_v<Computing<T>, T>)
            store<T>(to[0] + k * steps[0], static_cast<T>(value));
          else
            store<T>(to[0] + k * steps[0], T(kernels::to_odd(value)));
        }
      });
    }
  });
}

template <class Function>
Row<SoftmaxArgs> row(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<SoftmaxArgs> {
    using T = typename decltype(type)::type;
    if constexpr (kIsComputing<T> && kernels::Real<Computing<T>>) return &run_softmax<Function, T>;
    return nullptr;
  });
}

}  // namespace

Row<SoftmaxArgs> softmax(KinaDtype dtype) noexcept { return row<Softmax>(dtype); }
Row<SoftmaxArgs> log_softmax(KinaDtype dtype) noexcept { return row<LogSoftmax>(dtype); }

}  // namespace kina::cpu
