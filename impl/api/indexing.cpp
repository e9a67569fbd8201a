// Entry points of the indexing chapter.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/operation.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"};

// values' axes before `axis`, the indices', values' axes behind it.
Geometry gathered_shape(const Input& values, const Geometry& indices, int32_t axis) {
  const Geometry& geometry = values.geometry();
  const int32_t ndim = geometry.ndim - 1 + indices.ndim;
  require<Message::rank_out_of_range>(ndim <= KINA_MAX_NDIM, "KINA-INDEXING-7", kOut, "ndim of the result", ndim);
  int64_t extents[KINA_MAX_NDIM];
  int32_t used = 0;
  for (int32_t i = 0; i < axis; ++i) extents[used++] = geometry.extents[i];
  for (int32_t i = 0; i < indices.ndim; ++i) extents[used++] = indices.extents[i];
  for (int32_t i = axis + 1; i < geometry.ndim; ++i) extents[used++] = geometry.extents[i];
  return checked_geometry(extents, nullptr, ndim, bytes_of(values.dtype()), kOut);
}

void gather(const char* function, KinaTensor* out, const KinaTensor* values, const KinaTensor* indices, int32_t axis,
            Argument axis_argument) {
  Output result(out, kOut);
  Input source(values, {2, "values"}), chosen(indices, {3, "indices"});
  dereference_on_one_device(result, source, chosen);
  axis = checked_axis(axis, source.geometry().ndim, "KINA-INDEXING-3", axis_argument);
  const KinaDtype index = chosen.dtype();
  require<Message::index_dtype>(index == KINA_DTYPE_I32 || index == KINA_DTYPE_I64, "KINA-INDEXING-4",
                                chosen.argument(), name_of(index));
  require_same_device(source, chosen);
  const Geometry shape = gathered_shape(source, chosen.geometry(), axis);
  result.demand(shape, source.dtype(), source.device());
  result.refuse_overlap(source, InPlace::refused);
  result.refuse_overlap(chosen, InPlace::refused);
  const Backend& backend = source.device().backend();
  const Row<GatherArgs> row = backend.gather(source.dtype(), index);
  require<Message::dtype_not_offered>(row != nullptr, "KINA-TENSOR-17", source.argument(), "values",
                                      name_of(source.dtype()));

  Operation operation(function, result, {&source, &chosen}, shape, source.dtype(), source.device());
  GatherArgs args{operation.out(), source.view(), chosen.view(), axis, nullptr};
  if (backend.is_asynchronous()) {
    if (!chosen.geometry().is_empty()) args.outside = operation.expect_finding(source.geometry().extents[axis]);
  } else {
    backend.check_indices(args);
  }
  operation.run(row, args);
  operation.commit();
}

}  // namespace

KinaStatus runtime_gpu_gather(KinaTensor* out, const KinaTensor* values, const KinaTensor* indices) {
  return boundary(__func__, [&](const Call& call) { gather(call.function, out, values, indices, 0, {2, "values"}); });
}

KinaStatus runtime_gpu_gather_axis(KinaTensor* out, const KinaTensor* values, const KinaTensor* indices, int32_t axis) {
  return boundary(__func__, [&](const Call& call) { gather(call.function, out, values, indices, axis, {4, "axis"}); });
}

KinaStatus runtime_gpu_repeat_interleave(KinaTensor* out, const KinaTensor* in, int32_t axis, int32_t repeats) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, {2, "in"});
    dereference_on_one_device(result, source);
    const int32_t along = checked_axis(axis, source.geometry().ndim, "KINA-INDEXING-17", {3, "axis"});
    require<Message::negative_repeats>(repeats >= 0, "KINA-INDEXING-16", {4, "repeats"}, repeats);
    Geometry shape = source.geometry();
    const std::optional<int64_t> extent = checked_multiply(shape.extents[along], repeats);
    require<Message::shape_overflow>(extent.has_value(), "KINA-INDEXING-18", kOut, "the repeated shape");
    shape.extents[along] = *extent;
    shape = checked_geometry(shape.extents, nullptr, shape.ndim, bytes_of(source.dtype()), kOut);
    result.demand(shape, source.dtype(), source.device());
    result.refuse_overlap(source, InPlace::refused);
    const Row<RepeatArgs> row = source.device().backend().repeat_interleave(source.dtype());
    require<Message::dtype_not_offered>(row != nullptr, "KINA-TENSOR-17", source.argument(), "in",
                                        name_of(source.dtype()));

    Operation operation(call.function, result, {&source}, shape, source.dtype(), source.device());
    operation.run(row, RepeatArgs{operation.out(), source.view(), along, repeats});
    operation.commit();
  });
}
