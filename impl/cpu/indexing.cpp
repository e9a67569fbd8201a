// Gather and repeat_interleave: elements move as they are, so one loop per element size serves all dtypes.
#include <utility>

#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"

namespace kina::cpu {
namespace {

template <size_t kBytes>
struct Element {
  std::byte bytes[kBytes];
};

template <class Index>
void check(const GatherArgs& args) {
  const int64_t extent = args.values.geometry.extents[args.axis];
  whole(args.indices).for_each_run({args.indices.data}, [extent](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = load<Index>(at[0] + i * strides[0]);
      require<Message::index_out_of_range>(index >= 0 && index < extent, "KINA-INDEXING-8", {3, "indices"}, index,
                                           extent);
    }
  });
}

// The loop over what one index chooses: out and values on all axes of `values` but the gathered one.
Loop<2> slice_of(const GatherArgs& args) noexcept {
  const int32_t added = args.indices.geometry.ndim - 1;
  Loop<2> slice;
  for (int32_t axis = 0; axis < args.values.geometry.ndim; ++axis) {
    if (axis == args.axis) continue;
    const int32_t out_axis = axis < args.axis ? axis : axis + added;
    slice.add(args.values.geometry.extents[axis],
              {byte_strides(out_axis, args.out)[0], byte_strides(axis, args.values)[0]});
  }
  return slice;
}

// result[i…, j…, k…] = values[i…, indices[j…], k…], and 0 where the index is out of range: on the host none is, for a
// simulated device it is a finding.
template <class T, class Index>
void run_gather(const GatherArgs& args, NativeStream) {
  const Loop<2> slice = slice_of(args);
  Loop<2> positions;
  for (int32_t axis = 0; axis < args.indices.geometry.ndim; ++axis)
    positions.add(args.indices.geometry.extents[axis],
                  {byte_strides(args.axis + axis, args.out)[0], byte_strides(axis, args.indices)[0]});
  const int64_t extent = args.values.geometry.extents[args.axis];
  const int64_t step = byte_strides(args.axis, args.values)[0];
  bool has_met = false;
  positions.for_each_run({args.out.data, args.indices.data}, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = load<Index>(at[1] + i * strides[1]);
      const bool is_inside = index >= 0 && index < extent;
      if (!is_inside && args.outside != nullptr && !std::exchange(has_met, true))
        *args.outside = {args.outside->runs + 1, index};
      std::byte* const from = args.values.data + (is_inside ? index * step : 0);
      slice.for_each_run({at[0] + i * strides[0], from}, [is_inside](auto element, auto steps, int64_t elements) {
        for (int64_t j = 0; j < elements; ++j)
          store(element[0] + j * steps[0], is_inside ? load<T>(element[1] + j * steps[1]) : T{});
      });
    }
  });
}

// result[…, i · repeats + r, …] = in[…, i, …] for every r below repeats.
template <class T>
void run_repeat(const RepeatArgs& args, NativeStream) {
  const int64_t repeats = args.repeats;
  if (repeats == 0) return;
  const int64_t step = byte_strides(args.axis, args.out)[0];
  Loop<2> loop;
  for (int32_t axis = 0; axis < args.in.geometry.ndim; ++axis) {
    const int64_t extent = args.in.geometry.extents[axis];
    const auto strides = byte_strides(axis, args.out, args.in);
    loop.add(extent, {axis == args.axis && extent > 1 ? strides[0] * repeats : strides[0], strides[1]});
  }
  loop.for_each_run({args.out.data, args.in.data}, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const T element = load<T>(at[1] + i * strides[1]);
      for (int64_t repeat = 0; repeat < repeats; ++repeat) store(at[0] + i * strides[0] + repeat * step, element);
    }
  });
}

// Calls f(Element<n>{}) for the size of a dtype's elements.
template <class F>
auto with_element(KinaDtype dtype, F&& f) {
  switch (bytes_of(dtype)) {
    case 1: return f(Element<1>{});
    case 2: return f(Element<2>{});
    case 4: return f(Element<4>{});
    case 8: return f(Element<8>{});
    default: return f(Element<16>{});
  }
}

}  // namespace

void check_indices(const GatherArgs& args) {
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
