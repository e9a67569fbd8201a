// Where the elements of a geometry lie, by enumeration: what the arithmetic of strides is held against.
#pragma once

#include <cstdint>
#include <vector>

#include "impl/core/geometry.h"

namespace kina {

// The offsets of all elements in row-major order.
inline std::vector<int64_t> offsets_of(const Geometry& geometry) {
  std::vector<int64_t> offsets{0};
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < geometry.extents[axis]; ++i) longer.push_back(offset + i * geometry.strides[axis]);
    offsets.swap(longer);
  }
  return offsets;
}

}  // namespace kina
