// The composition root: the one file that knows which devices this build has.
#include "impl/core/device.h"
#include "impl/cpu/backend.h"
#include "impl/sim/backend.h"

namespace kina {

Backend* const* backends() noexcept {
  static Backend* const list[] = {&host_backend(), &simulated_backend(), nullptr};
  return list;
}

}  // namespace kina
