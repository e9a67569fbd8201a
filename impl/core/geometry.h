// Extents and strides: counts, hulls and broadcasts in arithmetic that cannot wrap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "impl/core/dtype.h"

namespace kina {

// Overflow-checked 64-bit arithmetic: nothing where the result does not fit.
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) noexcept {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
inline std::optional<int64_t> checked_multiply(int64_t a, int64_t b) noexcept {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

// Between the steps of a loop over few entries: a compiler that sees through it makes it a call of memcpy or memset,
// which costs more than the loop.
inline void keep_loop() noexcept { __asm__ volatile(""); }

// Shape and strides of a tensor, both in elements. Only the first `ndim` entries mean anything.
struct Geometry {
  int32_t ndim = 0;
  int64_t extents[KINA_MAX_NDIM];
  int64_t strides[KINA_MAX_NDIM];

  Geometry() = default;  // rank 0: one element
  Geometry(const Geometry& other) noexcept { assign(other.ndim, other.extents, other.strides); }
  Geometry& operator=(const Geometry& other) noexcept {
    if (this != &other) assign(other.ndim, other.extents, other.strides);
    return *this;
  }
  // All 32 axes are half a kilobyte, and those that count are few.
  void assign(int32_t rank, const int64_t* from_extents, const int64_t* from_strides) noexcept {
    ndim = rank;
    for (int32_t axis = 0; axis < rank; ++axis) {
      extents[axis] = from_extents[axis];
      strides[axis] = from_strides[axis];
      keep_loop();
    }
  }

  bool is_empty() const noexcept {
    for (int32_t axis = 0; axis < ndim; ++axis)
      if (extents[axis] == 0) return true;
    return false;
  }
  // The number of elements of a geometry that was checked.
  int64_t count() const noexcept {
    int64_t result = 1;
    for (int32_t axis = 0; axis < ndim; ++axis) result *= extents[axis];
    return result;
  }
};

// Elements touched around element 0: from `low` (at most 0) to `high` inclusive. An empty geometry has {0, -1}.
struct Span {
  int64_t low = 0;
  int64_t high = 0;

  bool is_empty() const noexcept { return high < low; }
};

// What a check finds out on its way.
struct Reach {
  Span span;
  bool is_nested = true;  // each axis steps over all that lie behind it: nothing overlaps
  int64_t count = 1;      // of elements
};

// Rank, extents, element count and byte size are in range, else INVALID_SHAPE. Strides become compact row-major when
// `strides` is NULL. The span in bytes of `element_bytes` elements is checked as well. `overflow` is the clause that an
// overflow breaks.
inline Reach check_geometry(Geometry& filled, const int64_t* extents, const int64_t* strides, int32_t ndim,
                            uint64_t element_bytes, Argument argument, const char* overflow = "KINA-STATUS-25");
Geometry checked_geometry(const int64_t* extents, const int64_t* strides, int32_t ndim, uint64_t element_bytes,
                          Argument argument, const char* overflow = "KINA-STATUS-25");

// The two halves: false where something is out of range, and which that is.
bool fill_geometry(Geometry& filled, Reach& reach, const int64_t* extents, const int64_t* strides, int32_t ndim,
                   uint64_t element_bytes) noexcept;
[[noreturn]] void refuse_geometry(const Geometry& filled, int32_t ndim, Argument argument, const char* overflow);

// The first half where every number is small, as nearly always: no step leaves 64 bits then. False, with nothing found
// out, where one is not, or an axis is empty.
inline constexpr int kSmallBits = 31;
static_assert(2 * kSmallBits < 63, "what one step multiplies fits");
inline bool fill_small_compact(Geometry& filled, Reach& reach, const int64_t* extents) noexcept {
  uint64_t count = 1;
  for (int32_t axis = filled.ndim; axis-- > 0;) {
    const auto extent = static_cast<uint64_t>(extents[axis]);
    filled.extents[axis] = static_cast<int64_t>(extent);
    filled.strides[axis] = static_cast<int64_t>(count);
    if (((extent - 1) | count) >> kSmallBits != 0) [[unlikely]]
      return false;
    count *= extent;
  }
  reach.count = static_cast<int64_t>(count);
  reach.span.high = reach.count - 1;
  return count >> kSmallBits == 0;
}
inline bool fill_small_strided(Geometry& filled, Reach& reach, const int64_t* extents,
                               const int64_t* strides) noexcept {
  int64_t low = 0, high = 0, count = 1;
  bool is_nested = true;
  for (int32_t axis = filled.ndim; axis-- > 0;) {
    const int64_t extent = extents[axis], stride = strides[axis];
    filled.extents[axis] = extent;
    filled.strides[axis] = stride;
    if (extent == 1) continue;
    const uint64_t magnitude = stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    const auto reached = static_cast<uint64_t>(high - low);
    if (((static_cast<uint64_t>(extent) - 1) | magnitude | reached | static_cast<uint64_t>(count)) >> kSmallBits != 0)
        [[unlikely]]
      return false;
    is_nested &= magnitude > reached;
    const int64_t last = (extent - 1) * stride;
    low += last < 0 ? last : 0;
    high += last < 0 ? 0 : last;
    count *= extent;
  }
  reach = {{low, high}, is_nested, count};
  return (static_cast<uint64_t>(high - low) | static_cast<uint64_t>(count)) >> kSmallBits == 0;
}
inline bool fill_small(Geometry& filled, Reach& reach, const int64_t* extents, const int64_t* strides, int32_t ndim,
                       uint64_t element_bytes) noexcept {
  if (static_cast<uint32_t>(ndim) > KINA_MAX_NDIM || element_bytes >> 16 != 0) [[unlikely]]
    return false;
  filled.ndim = ndim;
  return strides == nullptr ? fill_small_compact(filled, reach, extents)
                            : fill_small_strided(filled, reach, extents, strides);
}

[[gnu::always_inline]] inline Reach check_geometry(Geometry& filled, const int64_t* extents, const int64_t* strides,
                                                   int32_t ndim, uint64_t element_bytes, Argument argument,
                                                   const char* overflow) {
  Reach reach;
  if (fill_small(filled, reach, extents, strides, ndim, element_bytes)) [[likely]]
    return reach;
  reach = {};
  if (!fill_geometry(filled, reach, extents, strides, ndim, element_bytes)) [[unlikely]]
    refuse_geometry(filled, ndim, argument, overflow);
  return reach;
}

// Row-major strides for the extents in place: the stride of an axis is the product of max(extent, 1) behind it.
void make_compact(Geometry& geometry) noexcept;

bool is_compact(const Geometry& geometry) noexcept;
bool same_shape(const Geometry& a, const Geometry& b) noexcept;
// Same shape and same strides wherever a stride means anything (extents above 1, no empty axis).
bool same_layout(const Geometry& a, const Geometry& b) noexcept;
// True where strides can map two different indices to one element (conservative only above rank 1: see the definition).
bool has_self_overlap(const Geometry& geometry) noexcept;

// The span of a geometry that was checked.
inline Span span_of(const Geometry& geometry) noexcept {
  Span span;
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    const int64_t extent = geometry.extents[axis];
    if (extent == 1) continue;  // its stride means nothing
    if (extent == 0) return {0, -1};
    const int64_t reach = (extent - 1) * geometry.strides[axis];
    span.low += reach < 0 ? reach : 0;
    span.high += reach < 0 ? 0 : reach;
  }
  return span;
}

// -ndim … ndim-1 → 0 … ndim-1, else INVALID_SHAPE under `clause`.
int32_t checked_axis(int32_t axis, int32_t ndim, const char* clause, Argument argument);

// "(2, 3)" for messages.
class ShapeText {
 public:
  explicit ShapeText(const Geometry& geometry) noexcept;
  operator const char*() const noexcept { return text_; }

 private:
  char text_[96];
};

}  // namespace kina
