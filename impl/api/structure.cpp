// Entry points of the structure chapter.
#include <algorithm>
#include <vector>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/operation.h"
#include "impl/core/restride.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"}, kIn{2, "in"};

// An empty `out` becomes `view` of `in`; another one receives its elements.
void show_or_copy(const char* function, Output& out, Input& in, const View& view) {
  out.demand(view.geometry, view.dtype, in.device());
  out.refuse_overlap(in, InPlace::refused);
  if (out.is_empty())
    return tensor_on(in, view, view_flags(in.flags()) | layout_flags(view.geometry)).publish(out.struct_());
  in.narrow(view);
  Operation operation(function, out, {&in}, view.geometry, view.dtype, in.device());
  operation.run(in.device().backend().copy(view.dtype), CopyArgs{operation.out(), view});
  operation.commit();
}

// Copies elements in row-major order between shapes that no strides reconcile: through compact bytes.
void copy_through_workspace(Operation& operation, Row<CopyArgs> row, const View& in) {
  View before = in;
  make_compact(before.geometry);
  const Workspace workspace(operation, static_cast<uint64_t>(before.geometry.count()) * bytes_of(in.dtype));
  before.data = workspace.view().data;
  View behind = operation.out();
  make_compact(behind.geometry);
  behind.data = before.data;
  const CopyArgs pieces[2] = {{before, in}, {operation.out(), behind}};
  operation.run(row, std::span<const CopyArgs>(pieces));
  operation.commit();
}

void copy_reshaped(const char* function, Output& out, Input& in, const Geometry& shape) {
  Operation operation(function, out, {&in}, shape, in.dtype(), in.device());
  const Row<CopyArgs> row = in.device().backend().copy(in.dtype());
  View source = in.view(), target = operation.out();
  if (restride(in.geometry(), source.geometry = target.geometry)) {
    operation.run(row, CopyArgs{target, source});
  } else if (restride(operation.out().geometry, target.geometry = in.geometry())) {
    operation.run(row, CopyArgs{target, in.view()});
  } else {
    return copy_through_workspace(operation, row, in.view());
  }
  operation.commit();
}

View permuted(const Input& in, const int32_t* permutation) {
  View view = in.view();
  uint32_t seen = 0;
  for (int32_t i = 0; i < view.geometry.ndim; ++i) {
    const int32_t axis = checked_axis(permutation[i], view.geometry.ndim, "KINA-STRUCTURE-10", {3, "permutation"});
    require<Message::permutation_repeats>((seen >> axis & 1U) == 0, "KINA-STRUCTURE-10", {3, "permutation"}, axis);
    seen |= 1U << axis;
    view.geometry.extents[i] = in.geometry().extents[axis];
    view.geometry.strides[i] = in.geometry().strides[axis];
  }
  return view;
}

View expanded(const Input& in, const Geometry& target) {
  const Geometry& from = in.geometry();
  View view = in.view();
  view.geometry = target;
  const int32_t added = target.ndim - from.ndim;
  bool fits = added >= 0;
  for (int32_t axis = 0; fits && axis < target.ndim; ++axis) {
    const bool is_kept = axis >= added && from.extents[axis - added] == target.extents[axis];
    fits = is_kept || axis < added || from.extents[axis - added] == 1;
    view.geometry.strides[axis] = is_kept ? from.strides[axis - added] : 0;
  }
  if (!fits)
    refuse<Message::cannot_broadcast>("KINA-STRUCTURE-17", {3, "target_shape"}, ShapeText(from), ShapeText(target));
  return view;
}

// The part of `view` from `start` on, `extent` long, along `axis`.
View part_of(const View& view, int32_t axis, int64_t start, int64_t extent) {
  View part = view;
  part.geometry.extents[axis] = extent;
  if (!part.geometry.is_empty())
    part.data += start * view.geometry.strides[axis] * static_cast<int64_t>(bytes_of(view.dtype));
  return part;
}

// Tensors to be joined: as many parameters as the caller gave.
class Joined {
 public:
  explicit Joined(std::vector<Input> inputs) : inputs_(std::move(inputs)) {}
  void present() const {
    for (const Input& input : inputs_) input.present();
  }
  void resolve() {
    for (Input& input : inputs_) input.resolve();
  }
  void validate() {
    for (Input& input : inputs_) input.validate();
  }
  void offer() const {
    for (const Input& input : inputs_) input.offer();
  }
  template <class F>
  void for_each_operand(F&& f) const {
    for (const Input& input : inputs_) f(input);
  }
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  std::vector<Input> inputs_;
};

// The shape of the first input with the sum of all extents along `axis`.
Geometry joined_shape(const std::vector<Input>& inputs, int32_t axis) {
  const Input& first = inputs.front();
  Geometry shape = first.geometry();
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Input& next = inputs[i];
    require_same_device(first, next);
    require<Message::dtype_mismatch>(next.dtype() == first.dtype(), "KINA-STRUCTURE-27", next.argument(),
                                     next.argument().name, name_of(next.dtype()), name_of(first.dtype()));
    Geometry aligned = next.geometry();
    if (axis < aligned.ndim) aligned.extents[axis] = first.geometry().extents[axis];
    if (!same_shape(aligned, first.geometry()))
      refuse<Message::concat_extents>("KINA-STRUCTURE-26", next.argument(), next.argument().name,
                                      ShapeText(next.geometry()), ShapeText(first.geometry()));
    const std::optional<int64_t> sum = checked_add(shape.extents[axis], next.geometry().extents[axis]);
    require<Message::shape_overflow>(sum.has_value(), "KINA-STATUS-25", kOut, "the joined shape");
    shape.extents[axis] = *sum;
  }
  return checked_geometry(shape.extents, nullptr, shape.ndim, bytes_of(first.dtype()), kOut);
}

void join(const char* function, Output& out, const std::vector<Input>& inputs, int32_t axis, Argument axis_argument) {
  const Input& first = inputs.front();
  axis = checked_axis(axis, first.geometry().ndim, "KINA-STRUCTURE-31", axis_argument);
  const Geometry shape = joined_shape(inputs, axis);
  out.demand(shape, first.dtype(), first.device());
  std::vector<const Operand*> operands;
  for (const Input& input : inputs) {
    out.refuse_overlap(input, InPlace::refused);
    operands.push_back(&input);
  }
  Operation operation(function, out, {operands.data(), operands.size()}, shape, first.dtype(), first.device());
  std::vector<CopyArgs> pieces;
  pieces.reserve(inputs.size());
  int64_t start = 0;
  for (const Input& input : inputs) {
    const int64_t extent = input.geometry().extents[axis];
    pieces.push_back({part_of(operation.out(), axis, start, extent), input.view()});
    start += extent;
  }
  operation.run(first.device().backend().copy(first.dtype()), std::span<const CopyArgs>(pieces));
  operation.commit();
}

}  // namespace

KinaStatus runtime_gpu_transpose(KinaTensor* out, const KinaTensor* in, const int32_t* permutation) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    const Argument argument{3, "permutation"};
    ArrayArgument axes(permutation, source.declared_ndim(), argument, "KINA-STRUCTURE-11");
    dereference_on_one_device(result, source, axes);
    require<Message::null_pointer>(permutation != nullptr || source.geometry().ndim == 0, "KINA-STRUCTURE-11", argument,
                                   argument.name);
    show_or_copy(call.function, result, source, permuted(source, permutation));
  });
}

KinaStatus runtime_gpu_reshape(KinaTensor* out, const KinaTensor* in, const int64_t* new_shape, int32_t new_ndim) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    ArrayArgument extents(new_shape, new_ndim, {3, "new_shape"}, "KINA-STRUCTURE-16");
    dereference_on_one_device(result, source, extents);
    const Argument argument{3, "new_shape"};
    View view = source.view();
    view.geometry = checked_geometry(new_shape, nullptr, new_ndim, bytes_of(view.dtype), argument);
    require<Message::elements_differ>(view.geometry.count() == source.geometry().count(), "KINA-STRUCTURE-13", argument,
                                      view.geometry.count(), source.geometry().count());
    if (result.is_empty() && restride(source.geometry(), view.geometry))
      return show_or_copy(call.function, result, source, view);
    result.demand(view.geometry, view.dtype, source.device());
    result.refuse_overlap(source, InPlace::refused);
    copy_reshaped(call.function, result, source, view.geometry);
  });
}

KinaStatus runtime_gpu_broadcast(KinaTensor* out, const KinaTensor* in, const int64_t* target_shape,
                                 int32_t target_ndim) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    ArrayArgument extents(target_shape, target_ndim, {3, "target_shape"}, "KINA-STRUCTURE-20");
    dereference_on_one_device(result, source, extents);
    const Geometry target =
        checked_geometry(target_shape, nullptr, target_ndim, bytes_of(source.dtype()), {3, "target_shape"});
    show_or_copy(call.function, result, source, expanded(source, target));
  });
}

KinaStatus runtime_gpu_slice(KinaTensor* out, const KinaTensor* in, int32_t axis, int64_t start, int64_t stop) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_on_one_device(result, source);
    const int32_t along = checked_axis(axis, source.geometry().ndim, "KINA-STRUCTURE-31", {3, "axis"});
    const int64_t extent = source.geometry().extents[along];
    require<Message::slice_outside>(0 <= start && start <= stop && stop <= extent, "KINA-STRUCTURE-22", {4, "start"},
                                    start, stop, extent);
    show_or_copy(call.function, result, source, part_of(source.view(), along, start, stop - start));
  });
}

KinaStatus runtime_gpu_concat(KinaTensor* out, const KinaTensor* a, const KinaTensor* b, int32_t axis) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Joined joined({Input(a, {2, "a"}), Input(b, {3, "b"})});
    dereference_on_one_device(result, joined);
    join(call.function, result, joined.inputs(), axis, {4, "axis"});
  });
}

KinaStatus runtime_gpu_concat_n(KinaTensor* out, const KinaTensor* const* inputs, int32_t count, int32_t axis) {
  return boundary(__func__, [&](const Call& call) {
    const Argument argument{2, "inputs"};
    Output result(out, kOut);
    result.present();
    Pointer list(inputs, argument);
    list.present();
    std::vector<Input> listed;
    for (int32_t i = 0; i < count; ++i) {
      require<Message::null_pointer>(inputs[i] != nullptr, "KINA-STRUCTURE-29", argument, "an entry of inputs");
      listed.emplace_back(inputs[i], argument);
    }
    Joined joined(std::move(listed));
    dereference_on_one_device(result, joined);
    require<Message::count_too_low>(count >= 1, "KINA-STRUCTURE-28", {3, "count"}, "count", count);
    join(call.function, result, joined.inputs(), axis, {4, "axis"});
  });
}
