// Checks and derivations on extents and strides.
#include "impl/core/geometry.h"

#include <algorithm>
#include <cstring>

namespace kina {
namespace {

uint64_t magnitude_of(int64_t stride) noexcept {
  return stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
}

// Orders axes by the size of their strides, smallest first. Most layouts are row-major, so that the last axis comes
// first and nothing moves.
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

}  // namespace

Geometry checked_geometry(const int64_t* extents, const int64_t* strides, int32_t ndim, uint64_t element_bytes,
                          Argument argument, const char* overflow) {
  Geometry geometry;
  check_geometry(geometry, extents, strides, ndim, element_bytes, argument, overflow);
  return geometry;
}

void check_geometry(Geometry& geometry, const int64_t* extents, const int64_t* strides, int32_t ndim,
                    uint64_t element_bytes, Argument argument, const char* overflow) {
  require<Message::rank_out_of_range>(ndim >= 0 && ndim <= KINA_MAX_NDIM, "KINA-TENSOR-15", argument, argument.name,
                                      ndim);
  geometry.ndim = ndim;
  auto bytes = static_cast<int64_t>(element_bytes);
  bool overflows = false;
  for (int32_t axis = 0; axis < ndim; ++axis) {
    const int64_t extent = extents[axis];
    require<Message::negative_extent>(extent >= 0, "KINA-TENSOR-15", argument, argument.name, extent, axis);
    geometry.extents[axis] = extent;
    geometry.strides[axis] = strides == nullptr ? 0 : strides[axis];
    overflows |= __builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes);
  }
  require<Message::shape_overflow>(!overflows, overflow, argument, argument.name);
  if (strides == nullptr) make_compact(geometry);
  if (geometry.is_empty()) return;
  const std::optional<Span> span = span_of(geometry);
  const auto has_room = [element_bytes](int64_t elements) {  // for so many elements and two more
    int64_t reach = 0;
    return !__builtin_add_overflow(elements, 2, &reach) &&
           !__builtin_mul_overflow(reach, static_cast<int64_t>(element_bytes), &reach);
  };
  require<Message::shape_overflow>(span && has_room(span->high) && span->low != INT64_MIN && has_room(-span->low),
                                   overflow, argument, argument.name);
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
  return a.ndim == b.ndim && std::equal(a.extents, a.extents + a.ndim, b.extents);
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

std::optional<Span> span_of(const Geometry& geometry) noexcept {
  int64_t low = 0, high = 0;
  bool is_lost = false;
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    if (geometry.extents[axis] <= 1) continue;
    int64_t reach = 0;
    is_lost |= __builtin_mul_overflow(geometry.extents[axis] - 1, geometry.strides[axis], &reach);
    is_lost |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  return is_lost ? std::nullopt : std::optional(Span{low, high});
}

int32_t checked_axis(int32_t axis, int32_t ndim, const char* clause, Argument argument) {
  require<Message::axis_out_of_range>(axis >= -ndim && axis < ndim, clause, argument, argument.name, axis, ndim);
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
