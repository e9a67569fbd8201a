// The runs of adjacent bytes that the elements of a view cover.
#pragma once

#include <algorithm>

#include "impl/backend/backend.h"

namespace kina {

// The bytes under a view: equal runs, repeated along axes whose strides are larger than what lies inside them. No byte
// belongs to two runs unless the strides cannot be nested.
struct Runs {
  uint64_t first = 0;  // lowest byte, counted from the base
  uint64_t bytes = 0;  // of one run; 0: no elements
  int32_t axes = 0;    // largest stride first
  uint64_t extents[KINA_MAX_NDIM];
  uint64_t strides[KINA_MAX_NDIM];  // in bytes

  // One run.
  Runs(uint64_t start, uint64_t end) noexcept : first(start), bytes(end - start) {}
  Runs(const View& view, const std::byte* base) noexcept {
    const Geometry& geometry = view.geometry;
    if (geometry.is_empty()) return;
    const uint64_t element = bytes_of(view.dtype);
    std::pair<uint64_t, uint64_t> nest[KINA_MAX_NDIM];  // stride in bytes, extent
    int32_t used = 0;
    first = static_cast<uint64_t>(view.data - base);
    for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
      const int64_t stride = geometry.strides[axis];
      if (geometry.extents[axis] == 1 || stride == 0) continue;
      const auto extent = static_cast<uint64_t>(geometry.extents[axis]);
      const uint64_t magnitude =
          (stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride)) * element;
      if (stride < 0) first -= magnitude * (extent - 1);
      nest[used++] = {magnitude, extent};
    }
    std::sort(nest, nest + used);
    bytes = element;
    int32_t inner = 0;
    for (; inner < used && nest[inner].first <= bytes; ++inner) bytes += nest[inner].first * (nest[inner].second - 1);
    axes = used - inner;
    for (int32_t axis = 0; axis < axes; ++axis) {
      strides[axis] = nest[used - 1 - axis].first;
      extents[axis] = nest[used - 1 - axis].second;
    }
  }

  // How many runs there are.
  uint64_t count() const noexcept {
    uint64_t result = bytes == 0 ? 0 : 1;
    for (int32_t axis = 0; axis < axes; ++axis) result *= extents[axis];
    return result;
  }

  // One past the last byte of the last run.
  uint64_t last() const noexcept {
    uint64_t result = first + bytes;
    for (int32_t axis = 0; axis < axes; ++axis) result += strides[axis] * (extents[axis] - 1);
    return result;
  }

  // Calls f(start, end) for each run; stops when f answers false.
  template <class F>
  void for_each(F&& f) const {
    if (bytes == 0) return;
    uint64_t index[KINA_MAX_NDIM] = {};
    uint64_t start = first;
    for (;;) {
      if (!f(start, start + bytes)) return;
      int32_t axis = axes - 1;
      for (; axis >= 0; --axis) {
        start += strides[axis];
        if (++index[axis] < extents[axis]) break;
        start -= strides[axis] * extents[axis];
        index[axis] = 0;
      }
      if (axis < 0) return;
    }
  }
};

}  // namespace kina
