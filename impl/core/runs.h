// The runs of adjacent bytes that the elements of a view cover.
#pragma once

#include "impl/core/failure.h"

namespace kina {

template <class F>
void for_each_run(const View& view, const std::byte* base, F&& f) {
  const Geometry& geometry = view.geometry;
  if (geometry.is_empty()) return;
  const auto element = static_cast<int64_t>(bytes_of(view.dtype));
  // The innermost axes that are compact together form one run.
  int64_t run = 1;
  int32_t outer = geometry.ndim;
  while (outer > 0 && (geometry.extents[outer - 1] == 1 || geometry.strides[outer - 1] == run))
    run *= geometry.extents[--outer];
  int64_t index[KINA_MAX_NDIM] = {};
  int64_t offset = (view.data - base) / 1;
  const int64_t bytes = run * element;
  for (;;) {
    if (!f(static_cast<uint64_t>(offset), static_cast<uint64_t>(offset + bytes))) return;
    int32_t axis = outer - 1;
    for (; axis >= 0; --axis) {
      offset += geometry.strides[axis] * element;
      if (++index[axis] < geometry.extents[axis]) break;
      offset -= geometry.strides[axis] * element * geometry.extents[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace kina
