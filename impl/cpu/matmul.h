// By which means the host computed products, for tests that prove it.
#pragma once

#include <cstdint>

namespace kina::cpu {

// How many matrices of batches were computed by which means, since the process began.
struct ProductCounts {
  uint64_t plain;   // by the loop that reads like the specification
  uint64_t vendor;  // by OpenBLAS
  uint64_t packed;  // operands copied because OpenBLAS cannot take their strides or dtype
};
ProductCounts product_counts() noexcept;

}  // namespace kina::cpu
