// The same elements in the same order under another shape, without moving them.
#pragma once

#include "impl/core/geometry.h"

namespace kina {

// Gives `to`, whose extents hold as many elements as `from`, the strides that reach from's elements in the same order.
// False when there are none; the strides of `to` then mean nothing.
bool restride(const Geometry& from, Geometry& to) noexcept;

}  // namespace kina
