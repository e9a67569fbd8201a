// The places where work of a device says what it found, for the host to read when that work has run.
#pragma once

#include <vector>

#include "impl/core/order.h"

namespace kina {

class Findings {
 public:
  // Those of a backend's devices.
  static Findings& of(Backend& backend);

  // An empty one. Throws OUT_OF_MEMORY.
  Finding* take();
  // Nobody writes `finding` any more.
  void put_back(Finding* finding) noexcept;
  // Nobody writes it any more once `point` has run, and nobody reads `read` on its behalf.
  void retire(Finding* finding, const Point& point, Ref<Counted> read = {}) noexcept;

 private:
  struct Retired {
    Finding* finding = nullptr;
    Point point;
    Ref<Counted> read;
  };

  void add_slab();
  void reap();

  Backend* backend_ = nullptr;
  Mutex mutex_;
  size_t made_ = 0;
  std::vector<Finding*> free_;  // both have room for all: what ends takes no memory
  std::vector<Retired> retired_;
};

}  // namespace kina
