// What tells this copy of the library from other copies in the process.
#pragma once

#include <cstdint>

namespace kina {

// A number below 1,024 that no other copy of the library in this process has; throws where the process is out of them.
uint64_t copy_mark();

}  // namespace kina
