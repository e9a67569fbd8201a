// Gather and repeat_interleave: elements move as they are, so one loop per element size serves all dtypes.
#include "impl/cpu/rows.h"

#include "impl/cpu/walk.h"

namespace kina::cpu {
namespace {

template <size_t kBytes>
struct Element {
  std::byte bytes[kBytes];
};

template <class Index>
void check(const GatherArgs& args) {
  const Geometry& shape = args.indices.geometry;
  const int64_t extent = args.values.geometry.extents[args.axis];
  const auto* const indices = reinterpret_cast<const Index*>(args.indices.data);
  Walk<1> walk;
  for (int32_t axis = 0; axis < shape.ndim; ++axis) walk.add_axis(shape.extents[axis], {shape.strides[axis]});
  do {
    const int64_t index = indices[walk.offset(0)];
    require<Message::index_out_of_range>(index >= 0 && index < extent, "KINA-INDEXING-8", {3, "indices"}, index, extent);
  } while (walk.next());
}

// The axes that `values` and `out` share: all of `values` but the gathered one.
Walk<2> slice_of(const GatherArgs& args) noexcept {
  const Geometry& values = args.values.geometry;
  const Geometry& out = args.out.geometry;
  Walk<2> walk;
  for (int32_t axis = 0; axis < values.ndim; ++axis) {
    if (axis == args.axis) continue;
    const int32_t out_axis = axis < args.axis ? axis : axis + args.indices.geometry.ndim - 1;
    walk.add_axis(values.extents[axis], {out.strides[out_axis], values.strides[axis]});
  }
  return walk;
}

// result[i…, j…, k…] = values[i…, indices[j…], k…]; every index was found in range.
template <class T, class Index>
void run_gather(const GatherArgs& args, NativeStream) {
  if (args.out.geometry.is_empty()) return;
  auto* const out = reinterpret_cast<T*>(args.out.data);
  const auto* const values = reinterpret_cast<const T*>(args.values.data);
  const auto* const indices = reinterpret_cast<const Index*>(args.indices.data);
  const int64_t step = args.values.geometry.strides[args.axis];
  Walk<2> slice = slice_of(args);
  Walk<2> position;
  for (int32_t axis = 0; axis < args.indices.geometry.ndim; ++axis)
    position.add_axis(args.indices.geometry.extents[axis],
                      {args.out.geometry.strides[args.axis + axis], args.indices.geometry.strides[axis]});
  do {
    T* const to = out + position.offset(0);
    const T* const from = values + indices[position.offset(1)] * step;
    do {
      to[slice.offset(0)] = from[slice.offset(1)];
    } while (slice.next());
  } while (position.next());
}

// result[…, i · repeats + r, …] = in[…, i, …] for every r below repeats.
template <class T>
void run_repeat(const RepeatArgs& args, NativeStream) {
  if (args.out.geometry.is_empty()) return;
  const Geometry& in = args.in.geometry;
  const Geometry& out = args.out.geometry;
  Walk<2> walk;
  for (int32_t axis = 0; axis < in.ndim; ++axis)
    walk.add_axis(in.extents[axis], {out.strides[axis] * (axis == args.axis ? args.repeats : 1), in.strides[axis]});
  auto* const results = reinterpret_cast<T*>(args.out.data);
  const auto* const elements = reinterpret_cast<const T*>(args.in.data);
  const int64_t step = out.strides[args.axis];
  do {
    T* const to = results + walk.offset(0);
    const T element = elements[walk.offset(1)];
    for (int32_t repeat = 0; repeat < args.repeats; ++repeat) to[repeat * step] = element;
  } while (walk.next());
}

// Calls f(Element<n>{}) for the size of a dtype's elements.
template <class F>
auto with_element(KinaDtype dtype, F&& f) {
  switch (bytes_of(dtype)) {
    case 1:
      return f(Element<1>{});
    case 2:
      return f(Element<2>{});
    case 4:
      return f(Element<4>{});
    case 8:
      return f(Element<8>{});
    default:
      return f(Element<16>{});
  }
}

}  // namespace

void check_indices(const GatherArgs& args) {
  if (args.indices.geometry.is_empty()) return;
  args.indices.dtype == KINA_DTYPE_I32 ? check<int32_t>(args) : check<int64_t>(args);
}

Row<GatherArgs> gather(KinaDtype dtype, KinaDtype index) noexcept {
  return with_element(dtype, [index](auto element) -> Row<GatherArgs> {
    if (index == KINA_DTYPE_I32) return &run_gather<decltype(element), int32_t>;
    if (index == KINA_DTYPE_I64) return &run_gather<decltype(element), int64_t>;
    return nullptr;
  });
}

Row<RepeatArgs> repeat_interleave(KinaDtype dtype) noexcept {
  return with_element(dtype, [](auto element) -> Row<RepeatArgs> { return &run_repeat<decltype(element)>; });
}

}  // namespace kina::cpu
