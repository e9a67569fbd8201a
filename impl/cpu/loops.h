// Loops over strided views: the run of elements behind a row of an operation, and the walk over all runs.
#pragma once

#include <array>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "impl/backend/backend.h"

namespace kina::cpu {

template <size_t kOperands>
using Pointers = std::array<std::byte*, kOperands>;
template <size_t kOperands>
using Strides = std::array<int64_t, kOperands>;

// Axes of one shape with the byte strides of several operands; neighbours that are one axis to all of them are merged.
template <size_t kOperands>
class Loop {
 public:
  // Appends an axis inside the ones that are there.
  void add(int64_t extent, const Strides<kOperands>& strides) noexcept {
    is_empty_ = is_empty_ || extent == 0;
    if (is_empty_ || extent == 1) return;
    if (ndim_ != 0 && continues(extent, strides)) {
      extents_[ndim_ - 1] *= extent;
      strides_[ndim_ - 1] = strides;
      return;
    }
    extents_[ndim_] = extent;
    strides_[ndim_] = strides;
    ++ndim_;
  }

  // Calls run(pointers, strides, count) for each innermost run, in row-major order.
  template <class Run>
  void for_each_run(Pointers<kOperands> at, Run&& run) const {
    if (is_empty_) return;
    if (ndim_ == 0) return run(at, Strides<kOperands>{}, int64_t{1});
    if (ndim_ == 1) return run(at, strides_[0], extents_[0]);
    const int32_t inner = ndim_ - 1;
    int64_t index[KINA_MAX_NDIM] = {};
    for (;;) {
      run(at, strides_[inner], extents_[inner]);
      int32_t axis = inner;
      for (; axis > 0; --axis) {
        const int32_t outer = axis - 1;
        if (++index[outer] < extents_[outer]) {
          step(at, outer, 1);
          break;
        }
        index[outer] = 0;
        step(at, outer, 1 - extents_[outer]);
      }
      if (axis == 0) return;
    }
  }

 private:
  bool continues(int64_t extent, const Strides<kOperands>& strides) const noexcept {
    for (size_t i = 0; i < kOperands; ++i) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(extent, strides[i], &reach) || strides_[ndim_ - 1][i] != reach) return false;
    }
    return true;
  }
  void step(Pointers<kOperands>& at, int32_t axis, int64_t count) const noexcept {
    for (size_t i = 0; i < kOperands; ++i) at[i] += strides_[axis][i] * count;
  }

  int32_t ndim_ = 0;
  bool is_empty_ = false;
  int64_t extents_[KINA_MAX_NDIM];
  Strides<kOperands> strides_[KINA_MAX_NDIM];
};

// The byte stride of one axis. On an axis of extent 1 it may be any number and means nothing.
inline int64_t byte_stride(int32_t axis, const View& view) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(view.geometry.strides[axis]) * bytes_of(view.dtype));
}

// Those of views of one rank. In a view without elements strides mean nothing; it stays where it is.
template <class... Views>
Strides<sizeof...(Views)> byte_strides(int32_t axis, const Views&... views) noexcept {
  return {views.geometry.is_empty() ? 0 : byte_stride(axis, views)...};
}

// Whether a run steps from element to element in all operands, without a call to compare a few numbers.
template <size_t kOperands>
bool is_dense(const Strides<kOperands>& strides, const Strides<kOperands>& dense) noexcept {
  bool is_same = true;
  for (size_t i = 0; i < kOperands; ++i) is_same &= strides[i] == dense[i];
  return is_same;
}

// The loop over all axes of views of one shape.
template <class... Views>
auto whole(const Views&... views) noexcept {
  Loop<sizeof...(Views)> loop;
  const Geometry& geometry = std::get<0>(std::tie(views...)).geometry;
  if (geometry.is_empty()) loop.add(0, {});
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) loop.add(geometry.extents[axis], {byte_stride(axis, views)...});
  return loop;
}

// Elements through memcpy: in and out may be one buffer of two types.
template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(T));
}

// Whether a C++ type is that of a computing dtype.
template <class T>
inline constexpr bool kIsComputing = false;
#define KINA_ROW(NAME, WORD, TYPE, GROUP, COMPUTING) \
  template <>                                        \
  inline constexpr bool kIsComputing<TYPE> = COMPUTING;
KINA_DTYPES(KINA_ROW)
#undef KINA_ROW

// What a dtype is computed in: f16 and bf16 in float, a bool as bool.
template <class T>
struct ComputingType {
  using type = T;
};
template <>
struct ComputingType<Bool> {
  using type = bool;
};
template <class Storage, class Format>
struct ComputingType<Rounded<Storage, Format>> {
  using type = float;
};
template <class T>
using Computing = typename ComputingType<T>::type;

// One element as a number to compute with.
template <class T>
Computing<T> number(const std::byte* from) noexcept {
  return static_cast<Computing<T>>(load<T>(from));
}

// The type that holds a result of an operation on T: predicates give bool.
template <class T, class Value>
using Result = std::conditional_t<std::is_same_v<Value, bool>, Bool, T>;

}  // namespace kina::cpu
