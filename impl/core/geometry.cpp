// Checks and derivations on extents and strides.
#include "impl/core/geometry.h"

#include <algorithm>
#include <cstring>

namespace kina {
namespace {

uint64_t magnitude_of(int64_t stride) noexcept {
  return stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
}

// Orders axes by the size of their strides, smallest first.
int32_t sorted_axes(const Geometry& geometry, int32_t* axes) noexcept {
  int32_t used = 0;
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    if (geometry.extents[axis] <= 1) continue;
    const uint64_t magnitude = magnitude_of(geometry.strides[axis]);
    int32_t place = used++;
    for (; place > 0 && magnitude_of(geometry.strides[axes[place - 1]]) > magnitude; --place)
      axes[place] = axes[place - 1];
    axes[place] = axis;
  }
  return used;
}

// Adds an axis of more than one entry in front of those that `reach` has seen. False where the span leaves 64 bits.
inline bool widen(Reach& reach, int64_t extent, int64_t stride) noexcept {
  Span& span = reach.span;
  reach.is_nested &= magnitude_of(stride) > static_cast<uint64_t>(span.high) - static_cast<uint64_t>(span.low);
  int64_t last = 0;
  const bool fits = !__builtin_mul_overflow(extent - 1, stride, &last);
  return fits && !(stride < 0 ? __builtin_add_overflow(span.low, last, &span.low)
                              : __builtin_add_overflow(span.high, last, &span.high));
}

// For so many elements and two more.
bool has_room(int64_t elements, int64_t element_bytes) noexcept {
  int64_t reach = 0;
  return !__builtin_add_overflow(elements, 2, &reach) && !__builtin_mul_overflow(reach, element_bytes, &reach);
}

constexpr Reach kNoReach{{0, -1}, true, 0};

// Row-major strides. False where the bytes do not fit, or an extent is negative.
bool fill_compact(Geometry& geometry, Reach& reach, const int64_t* extents, int64_t element_bytes) noexcept {
  int64_t least = 1;     // extent
  int64_t count = 1;     // of elements, where an empty axis had one: the stride of the next axis
  bool is_over = false;  // that does not fit
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    const int64_t extent = extents[axis];
    geometry.extents[axis] = extent;
    geometry.strides[axis] = count;
    least = std::min(least, extent);
    is_over |= __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count);
  }
  if (least > 0) [[likely]] {
    reach.span.high = count - 1;
    reach.count = count;
    return !is_over && has_room(count - 1, element_bytes);
  }
  reach = kNoReach;
  int64_t bytes = 0;
  return least == 0 && !is_over && !__builtin_mul_overflow(count, element_bytes, &bytes);
}

// The same for strides that the caller gives.
bool fill_strided(Geometry& geometry, Reach& filled, const int64_t* extents, const int64_t* strides,
                  int64_t element_bytes) noexcept {
  Reach reach;
  int64_t least = 1;
  int64_t bytes = 0;
  bool is_over = false;
  bool has_span = true;  // the span fits, which counts where there are elements
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    const int64_t extent = extents[axis];
    const int64_t stride = strides[axis];
    geometry.extents[axis] = extent;
    geometry.strides[axis] = stride;
    least = std::min(least, extent);
    if (extent <= 1) continue;
    has_span &= widen(reach, extent, stride);
    is_over |= __builtin_mul_overflow(reach.count, extent, &reach.count);
  }
  is_over |= __builtin_mul_overflow(reach.count, element_bytes, &bytes);
  filled = least > 0 ? reach : kNoReach;
  if (least > 0) [[likely]]
    return !is_over && has_span && has_room(reach.span.high, element_bytes) && reach.span.low != INT64_MIN &&
           has_room(-reach.span.low, element_bytes);
  return least == 0 && !is_over;
}

}  // namespace

Geometry checked_geometry(const int64_t* extents, const int64_t* strides, int32_t ndim, uint64_t element_bytes,
                          Argument argument, const char* overflow) {
  Geometry geometry;
  check_geometry(geometry, extents, strides, ndim, element_bytes, argument, overflow);
  return geometry;
}

bool fill_geometry(Geometry& geometry, Reach& reach, const int64_t* extents, const int64_t* strides, int32_t ndim,
                   uint64_t element_bytes) noexcept {
  if (ndim < 0 || ndim > KINA_MAX_NDIM) return false;
  geometry.ndim = ndim;
  const auto element = static_cast<int64_t>(element_bytes);
  return strides == nullptr ? fill_compact(geometry, reach, extents, element)
                            : fill_strided(geometry, reach, extents, strides, element);
}

void refuse_geometry(const Geometry& geometry, int32_t ndim, Argument argument, const char* overflow) {
  require<Message::rank_out_of_range>(ndim >= 0 && ndim <= KINA_MAX_NDIM, "KINA-TENSOR-15", argument, "ndim", ndim);
  for (int32_t axis = 0; axis < ndim; ++axis)
    require<Message::negative_extent>(geometry.extents[axis] >= 0, "KINA-TENSOR-15", argument, argument.name,
                                      geometry.extents[axis], axis);
  refuse<Message::shape_overflow>(overflow, argument, argument.name);
}

void make_compact(Geometry& geometry) noexcept {
  int64_t stride = 1;
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    geometry.strides[axis] = stride;
    stride *= std::max<int64_t>(geometry.extents[axis], 1);
  }
}

bool is_compact(const Geometry& geometry) noexcept {
  if (geometry.is_empty()) return true;
  int64_t stride = 1;
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    if (geometry.extents[axis] != 1 && geometry.strides[axis] != stride) return false;
    stride *= geometry.extents[axis];
  }
  return true;
}

bool same_shape(const Geometry& a, const Geometry& b) noexcept {
  bool is_same = a.ndim == b.ndim;
  for (int32_t axis = 0; is_same && axis < a.ndim; ++axis) is_same = a.extents[axis] == b.extents[axis];
  return is_same;
}

bool same_layout(const Geometry& a, const Geometry& b) noexcept {
  if (!same_shape(a, b)) return false;
  if (a.is_empty()) return true;
  for (int32_t axis = 0; axis < a.ndim; ++axis)
    if (a.extents[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  return true;
}

// Exact for layouts in which each axis steps over all smaller ones (all that slicing, transposing and padding can
// make); other layouts count as overlapping.
bool has_self_overlap(const Geometry& geometry) noexcept {
  if (geometry.is_empty()) return false;
  int32_t axes[KINA_MAX_NDIM];
  const int32_t used = sorted_axes(geometry, axes);
  uint64_t reach = 0;
  for (int32_t i = 0; i < used; ++i) {
    const uint64_t magnitude = magnitude_of(geometry.strides[axes[i]]);
    if (magnitude <= reach) return true;
    reach += magnitude * static_cast<uint64_t>(geometry.extents[axes[i]] - 1);
  }
  return false;
}

int32_t checked_axis(int32_t axis, int32_t ndim, const char* clause, Argument argument) {
  require<Message::axis_out_of_range>(axis >= -ndim && axis < ndim, clause, argument, axis, ndim);
  return axis < 0 ? axis + ndim : axis;
}

ShapeText::ShapeText(const Geometry& geometry) noexcept {
  size_t used = 0;
  text_[used++] = '(';
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    if (used + 30 > sizeof(text_)) {
      std::memcpy(text_ + used, "...", 3);
      used += 3;
      break;
    }
    if (axis != 0) {
      text_[used++] = ',';
      text_[used++] = ' ';
    }
    used += Part(geometry.extents[axis]).write(text_ + used, 24);
  }
  text_[used++] = ')';
  text_[used] = '\0';
}

}  // namespace kina
