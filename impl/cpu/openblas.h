// Products through OpenBLAS's serial build, when it is installed.
//
// An implementation detail of this runtime: the library file is opened at the first product that is worth it, never
// linked, and never replaced by a build with threads of its own. KINA_OPENBLAS=off in the environment keeps it closed.
#pragma once

#include <cstdint>

namespace kina::cpu {

// One operand of a row-major product: a matrix, or a transposed one, whose rows are `leading` elements apart.
template <class T>
struct BlasMatrix {
  T* data;
  int32_t leading;
  bool is_transposed;
};

template <class T>
struct BlasProduct {
  int32_t m, n, k;    // all above 0
  BlasMatrix<T> out;  // not transposed
  BlasMatrix<const T> a, b;
};

// Whether the library is there and may be used; the first call opens it.
bool is_openblas_usable() noexcept;

// out = A·B. False when the library did not run and nothing was written.
bool openblas_product(const BlasProduct<float>& product) noexcept;
bool openblas_product(const BlasProduct<double>& product) noexcept;

}  // namespace kina::cpu
