// Reshaping by strides alone.
#include "impl/core/restride.h"

namespace kina {
namespace {

// Axes of extent 1 reach nothing.
Geometry without_unit_axes(const Geometry& geometry) noexcept {
  Geometry kept;
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    if (geometry.extents[axis] == 1) continue;
    kept.extents[kept.ndim] = geometry.extents[axis];
    kept.strides[kept.ndim++] = geometry.strides[axis];
  }
  return kept;
}

}  // namespace

// From the last axis on, axes of `from` that step on from each other form a chunk, which the axes of `to` may divide in
// any way; no axis of `to` may reach over the border of two chunks.
bool restride(const Geometry& from, Geometry& to) noexcept {
  make_compact(to);
  if (to.is_empty()) return true;
  const Geometry old = without_unit_axes(from);
  int32_t axis = to.ndim - 1;
  int64_t chunk = 1, step = old.ndim == 0 ? 1 : old.strides[old.ndim - 1];
  for (int32_t last = old.ndim - 1; last >= 0; --last) {
    chunk *= old.extents[last];
    if (last > 0 && checked_multiply(chunk, step) == old.strides[last - 1]) continue;
    int64_t divided = 1;
    for (; axis >= 0 && (divided < chunk || to.extents[axis] == 1); --axis) {
      to.strides[axis] = checked_multiply(divided, step).value_or(0);
      divided *= to.extents[axis];
    }
    if (divided != chunk) return false;
    if (last > 0) step = old.strides[last - 1];
    chunk = 1;
  }
  return true;
}

}  // namespace kina
