// The places of the code that establish order: each has an id of its own, and a test build can leave out any one of
// them.
#pragma once

#include <cstdint>

namespace kina {

// Where an ordering call stands in the source. Made by the default argument of the ordering functions, never by hand.
struct Site {
  const char* file;
  uint32_t line;

  static constexpr Site here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

#if defined(KINA_DROP_SITES)
// True where the environment asks to leave this site out (KINA_DROP_SITE="operation.cpp:57"); notes that it was
// reached.
bool is_dropped(Site site) noexcept;
#else
constexpr bool is_dropped(Site) noexcept { return false; }
#endif

}  // namespace kina
