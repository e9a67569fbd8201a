// Entry points of the reduction chapter.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/api/hexadecimal.h"
#include "impl/core/operation.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"}, kIn{2, "in"}, kAxis{3, "axis"}, kOp{4, "op"};

// 0 … ndim-1, or KINA_AXIS_ALL.
int32_t axis_or_all(int32_t axis, const Input& in) {
  return axis == KINA_AXIS_ALL ? axis : checked_axis(axis, in.geometry().ndim, "KINA-REDUCTION-2", kAxis);
}

// One call of runtime_gpu_reduce: which axes go, and which op stands in the lower bits of the parameter.
struct Reduction {
  int32_t axis;
  KinaReduceOp op;
  bool keeps_axes;

  bool takes(int32_t candidate) const { return axis == KINA_AXIS_ALL || axis == candidate; }
  bool is_known() const { return op >= KINA_REDUCE_SUM && op <= KINA_REDUCE_ALL; }
  // max, min and their indices have no answer over nothing [KINA-REDUCTION-18].
  bool needs_elements() const { return op >= KINA_REDUCE_MAX && op <= KINA_REDUCE_ARGMIN; }
};

Reduction reduction_of(int32_t axis, KinaReduceOp op, const Input& in) {
  return {axis_or_all(axis, in), op & ~KINA_REDUCE_KEEPDIMS, (op & KINA_REDUCE_KEEPDIMS) != 0};
}

// The dtype of the result; an unknown op takes what `out` has, and is refused after that.
KinaDtype result_dtype(const Reduction& reduction, KinaDtype dtype, const Output& out) {
  if (!reduction.is_known()) return out.is_empty() ? dtype : out.dtype();
  if (reduction.op == KINA_REDUCE_ARGMAX || reduction.op == KINA_REDUCE_ARGMIN) return KINA_DTYPE_I64;
  if (reduction.op == KINA_REDUCE_ANY || reduction.op == KINA_REDUCE_ALL) return KINA_DTYPE_BOOL;
  return dtype;
}

// The shape of the result [KINA-REDUCTION-4].
Geometry reduced_shape(const Reduction& reduction, const Geometry& in) {
  Geometry shape;
  for (int32_t axis = 0; axis < in.ndim; ++axis)
    if (reduction.keeps_axes || !reduction.takes(axis))
      shape.extents[shape.ndim++] = reduction.takes(axis) ? 1 : in.extents[axis];
  return shape;
}

void require_elements(const Reduction& reduction, const Geometry& in, const Geometry& shape) {
  const bool has_answer = !reduction.needs_elements() || !in.is_empty() || shape.is_empty();
  require<Message::reduction_of_nothing>(has_answer, "KINA-REDUCTION-18", kIn, ShapeText(in));
}

// `out` seen with in's rank: reduced axes have extent 1.
View with_reduced_axes(const View& out, const Reduction& reduction, const Geometry& in) {
  View view = out;
  view.geometry.ndim = in.ndim;
  int32_t next = 0;
  for (int32_t axis = 0; axis < in.ndim; ++axis) {
    const bool goes = reduction.takes(axis);
    view.geometry.extents[axis] = goes ? 1 : in.extents[axis];
    view.geometry.strides[axis] = goes ? 0 : out.geometry.strides[next];
    if (reduction.keeps_axes || !goes) ++next;
  }
  return view;
}

using SoftmaxRow = Row<SoftmaxArgs> (Backend::*)(KinaDtype) const noexcept;

KinaStatus softmax_like(const char* function, KinaTensor* out, const KinaTensor* in, int32_t axis,
                        SoftmaxRow row_of_dtype) {
  return boundary(function, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_on_one_device(result, source);
    const int32_t summed = axis_or_all(axis, source);
    Device& device = source.device();
    result.demand(source.geometry(), source.dtype(), device);
    result.refuse_overlap(source, InPlace::refused);
    const Row<SoftmaxArgs> row = (device.backend().*row_of_dtype)(source.dtype());
    require<Message::dtype_not_offered>(row != nullptr, "KINA-REDUCTION-22", kIn, "in", name_of(source.dtype()));
    Operation operation(call.function, result, {&source}, source.geometry(), source.dtype(), device);
    operation.run(row, SoftmaxArgs{operation.out(), source.view(), summed});
    operation.commit();
  });
}

}  // namespace

KinaStatus runtime_gpu_reduce(KinaTensor* out, const KinaTensor* in, int32_t axis, KinaReduceOp op) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_on_one_device(result, source);
    const Reduction reduction = reduction_of(axis, op, source);
    Device& device = source.device();
    const KinaDtype dtype = result_dtype(reduction, source.dtype(), result);
    const Geometry shape = reduced_shape(reduction, source.geometry());
    result.demand(shape, dtype, device);
    result.refuse_overlap(source, InPlace::refused);
    require_elements(reduction, source.geometry(), shape);
    const Row<ReduceArgs> row = device.backend().reduce(reduction.op, source.dtype());
    if (!reduction.is_known()) refuse<Message::op_unknown>("KINA-REDUCTION-7", kOp, kOp.name, Hexadecimal(op));
    if (row == nullptr)
      refuse<Message::op_not_offered>("KINA-REDUCTION-8", kOp, kOp.name, Hexadecimal(op), name_of(source.dtype()));
    Operation operation(call.function, result, {&source}, shape, dtype, device);
    operation.run(row, ReduceArgs{with_reduced_axes(operation.out(), reduction, source.geometry()), source.view()});
    operation.commit();
  });
}

KinaStatus runtime_gpu_softmax(KinaTensor* out, const KinaTensor* in, int32_t axis) {
  return softmax_like(__func__, out, in, axis, &Backend::softmax);
}

KinaStatus runtime_gpu_log_softmax(KinaTensor* out, const KinaTensor* in, int32_t axis) {
  return softmax_like(__func__, out, in, axis, &Backend::log_softmax);
}
