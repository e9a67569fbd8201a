// Entry points of the elementwise chapter.
#include <algorithm>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/api/hexadecimal.h"
#include "impl/core/operation.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"}, kIn{2, "in"}, kA{2, "a"}, kB{3, "b"};

bool is_unary(KinaUnaryOp op) { return op >= KINA_UNARY_NEG && op <= KINA_UNARY_ISFINITE; }

bool is_binary(KinaBinaryOp op) {
  return (op >= KINA_BINARY_ADD && op <= KINA_BINARY_SHIFT_RIGHT) ||
         (op >= KINA_BINARY_EQUAL && op <= KINA_BINARY_GREATER_EQUAL);
}

// The dtype of a result [KINA-ELEMENTWISE-8]. An unknown op has none: it takes what `out` has, and is refused after
// that.
KinaDtype unary_result(KinaUnaryOp op, KinaDtype dtype, const Output& out) {
  if (!is_unary(op)) return out.is_empty() ? dtype : out.dtype();
  return op == KINA_UNARY_LOGICAL_NOT || op >= KINA_UNARY_ISNAN ? KinaDtype{KINA_DTYPE_BOOL} : dtype;
}

KinaDtype binary_result(KinaBinaryOp op, KinaDtype dtype, const Output& out) {
  if (!is_binary(op)) return out.is_empty() ? dtype : out.dtype();
  const bool is_logical = op >= KINA_BINARY_LOGICAL_AND && op <= KINA_BINARY_LOGICAL_XOR;
  return is_logical || op >= KINA_BINARY_EQUAL ? KinaDtype{KINA_DTYPE_BOOL} : dtype;
}

template <class Args>
void require_row(Row<Args> row, bool is_known, int32_t op, Argument argument, KinaDtype dtype) {
  if (!is_known) [[unlikely]]
    refuse<Message::op_unknown>("KINA-ELEMENTWISE-6", argument, argument.name, Hexadecimal(op));
  if (row == nullptr) [[unlikely]]
    refuse<Message::op_not_offered>("KINA-ELEMENTWISE-7", argument, argument.name, Hexadecimal(op), name_of(dtype));
}

// A 0-dim operand of the host is a scalar wherever the other one lives [KINA-ELEMENTWISE-28].
bool is_scalar(const Input& input) { return input.geometry().ndim == 0 && input.device().type() == kDLCPU; }

Device& common_device(const Input& a, const Input& b) {
  if (!is_scalar(a) && !is_scalar(b)) require_same_device(a, b);
  return is_scalar(a) ? b.device() : a.device();
}

// The extent of an axis counted from the last one, 1 where the tensor has no such axis.
int64_t extent_from_end(const Geometry& geometry, int32_t from_end) {
  return from_end < geometry.ndim ? geometry.extents[geometry.ndim - 1 - from_end] : 1;
}

// The shape of a result in which axes of extent 1 are repeated.
Geometry broadcast(const Geometry& a, const Geometry& b, KinaDtype dtype) {
  Geometry result;
  result.ndim = std::max(a.ndim, b.ndim);
  for (int32_t from_end = 0; from_end < result.ndim; ++from_end) {
    const int64_t left = extent_from_end(a, from_end);
    const int64_t right = extent_from_end(b, from_end);
    if (left != right && left != 1 && right != 1)
      refuse<Message::broadcast_mismatch>("KINA-ELEMENTWISE-26", kB, ShapeText(a), ShapeText(b));
    result.extents[result.ndim - 1 - from_end] = left == 1 ? right : left;
  }
  return checked_geometry(result.extents, nullptr, result.ndim, bytes_of(dtype), kB);
}

// Shows the operand with the shape of the result: what repeats has stride 0.
void stretch(View& view, const Geometry& shape) {
  Geometry& own = view.geometry;
  const int32_t missing = shape.ndim - own.ndim;
  for (int32_t axis = shape.ndim; axis-- > 0;) {
    const int32_t from = axis - missing;
    const bool repeats = from < 0 || (own.extents[from] == 1 && shape.extents[axis] != 1);
    own.strides[axis] = repeats ? 0 : own.strides[from];
    own.extents[axis] = shape.extents[axis];
  }
  own.ndim = shape.ndim;
}

}  // namespace

KinaStatus runtime_fill(KinaTensor* tensor, const void* value, uint64_t value_bytes) {
  return boundary(__func__, [&](const Call& call) {
    Output filled(tensor, {1, "tensor"});
    Pointer pattern(static_cast<const std::byte*>(value), {2, "value"});
    dereference(filled, pattern);
    require<Message::empty_input>(!filled.is_empty(), "KINA-TENSOR-2", {1, "tensor"}, "tensor");
    require<Message::value_size>(value_bytes == bytes_of(filled.dtype()), "KINA-ELEMENTWISE-2", {3, "value_bytes"},
                                 value_bytes, name_of(filled.dtype()), bytes_of(filled.dtype()));
    filled.demand(filled.geometry(), filled.dtype(), filled.device());
    FillArgs args{filled.view(), {}};
    std::copy_n(pattern.get(), value_bytes, args.value);
    Operation operation(call.function, filled, {}, filled.geometry(), filled.dtype(), filled.device());
    operation.run(filled.device().backend().fill(filled.dtype()), args);
    operation.commit();
  });
}

KinaStatus runtime_gpu_unary(KinaTensor* out, const KinaTensor* in, KinaUnaryOp op) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_on_one_device(result, source);
    Device& device = source.device();
    const KinaDtype dtype = unary_result(op, source.dtype(), result);
    result.demand(source.geometry(), dtype, device);
    result.refuse_overlap(source, InPlace::allowed);
    const Row<UnaryArgs> row = device.backend().unary(op, source.dtype());
    require_row(row, is_unary(op), op, {3, "op"}, source.dtype());
    Operation operation(call.function, result, {&source}, source.geometry(), dtype, device);
    operation.run(row, UnaryArgs{operation.out(), source.view()});
    operation.commit();
  });
}

KinaStatus runtime_gpu_binary(KinaTensor* out, const KinaTensor* a, const KinaTensor* b, KinaBinaryOp op) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input left(a, kA), right(b, kB);
    dereference_values(result, left, right);
    if (left.geometry().ndim > 0 && right.geometry().ndim > 0) require_same_place(left, right, "KINA-TENSOR-31");
    const Input& placed = left.geometry().ndim > 0 ? left : right;
    if (!result.is_empty()) require_same_place(placed, result, "KINA-TENSOR-26");
    (offer(result), offer(left), offer(right));
    if (left.dtype() != right.dtype())
      refuse<Message::dtype_mismatch>("KINA-ELEMENTWISE-27", kB, "b", name_of(right.dtype()), name_of(left.dtype()));
    Device& device = common_device(left, right);
    const KinaDtype dtype = binary_result(op, left.dtype(), result);
    // Equal shapes are the rule, and have been checked.
    const bool is_broadcast = !same_shape(left.geometry(), right.geometry());
    Geometry joint;
    if (is_broadcast) joint = broadcast(left.geometry(), right.geometry(), dtype);
    const Geometry& shape = is_broadcast ? joint : left.geometry();
    result.demand(shape, dtype, device);
    result.refuse_overlap(left, InPlace::allowed);
    result.refuse_overlap(right, InPlace::allowed);
    const Row<BinaryArgs> row = device.backend().binary(op, left.dtype());
    require_row(row, is_binary(op), op, {4, "op"}, left.dtype());
    Operation operation(call.function, result, {&left, &right}, shape, dtype, device);
    BinaryArgs args{operation.out(), left.view(), right.view()};
    if (is_broadcast) {
      stretch(args.a, shape);
      stretch(args.b, shape);
    }
    operation.run(row, args);
    operation.commit();
  });
}

KinaStatus runtime_gpu_cast(KinaTensor* out, const KinaTensor* in, KinaDtype target) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_on_one_device(result, source);
    Device& device = source.device();
    const bool is_known = find_dtype(target) != nullptr;
    result.demand(source.geometry(), is_known || result.is_empty() ? target : result.dtype(), device);
    result.refuse_overlap(source, InPlace::allowed);
    require_dtype(target, {3, "target"});
    const Row<CastArgs> row = device.backend().cast(target, source.dtype());
    require<Message::cast_not_offered>(row != nullptr, "KINA-ELEMENTWISE-41", {3, "target"}, name_of(source.dtype()),
                                       name_of(target));
    Operation operation(call.function, result, {&source}, source.geometry(), target, device);
    operation.run(row, CastArgs{operation.out(), source.view()});
    operation.commit();
  });
}
