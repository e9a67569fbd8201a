// Walks indices in row-major order and keeps the element offset of each operand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "impl/core/geometry.h"

namespace kina::cpu {

// Some axes, with the strides that each operand has on them. None of the extents is 0.
template <size_t kOperands>
class Walk {
 public:
  void add_axis(int64_t extent, const std::array<int64_t, kOperands>& strides) noexcept {
    if (extent == 1) return;
    extents_[ndim_] = extent;
    strides_[ndim_] = strides;
    ++ndim_;
  }

  int64_t offset(size_t operand) const noexcept { return offsets_[operand]; }

  // On to the next index; false, and back at the first one, behind the last.
  bool next() noexcept {
    for (int32_t axis = ndim_; axis-- > 0;) {
      move(axis, 1);
      if (++index_[axis] < extents_[axis]) return true;
      move(axis, -extents_[axis]);
      index_[axis] = 0;
    }
    return false;
  }

 private:
  void move(int32_t axis, int64_t steps) noexcept {
    for (size_t operand = 0; operand < kOperands; ++operand) offsets_[operand] += steps * strides_[axis][operand];
  }

  int32_t ndim_ = 0;
  int64_t extents_[KINA_MAX_NDIM];
  int64_t index_[KINA_MAX_NDIM] = {};
  std::array<int64_t, kOperands> strides_[KINA_MAX_NDIM];
  std::array<int64_t, kOperands> offsets_{};
};

}  // namespace kina::cpu
