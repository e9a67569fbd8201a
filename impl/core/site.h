// The places of the code that establish or remember order. Each has an id of its own, and a test build can make any one
// of them go wrong, which shows that every one is needed.
#pragma once

#include <cstdint>

namespace kina {

// What a place does, and so in which ways it can go wrong.
enum class SiteKind : uint8_t {
  wait,   // makes somebody wait: left out
  pin,    // remembers a use, or keeps what others still need: left out
  known,  // remembers an order, so that nobody pays for it again: left out, or claims more than is so
};

#if defined(KINA_DROP_SITES)

// Where a call stands in the source. Made by the default argument of the ordering functions, never by hand. Each such
// call leaves a row in the section `kina_sites`, so that those are known as well which no program reaches. GNU C++,
// optimised.
struct Site {
  const char* file;
  uint64_t line;

  [[gnu::always_inline]] static inline Site here(const char* file = __builtin_FILE(),
                                                 uint64_t line = __builtin_LINE()) {
    asm volatile(".pushsection kina_sites, \"aw\", @progbits\n.quad %c0, %c1\n.popsection" : : "i"(file), "i"(line));
    return {file, line};
  }
};

// Whether this place is to be left out.
bool is_dropped(Site site, SiteKind kind = SiteKind::wait) noexcept;
// The position that this place is to remember: `position`, or a wrong one.
uint64_t learned(uint64_t position, Site site) noexcept;

#else

struct Site {
  static constexpr Site here() noexcept { return {}; }
};
constexpr bool is_dropped(Site, SiteKind = SiteKind::wait) noexcept { return false; }
constexpr uint64_t learned(uint64_t position, Site) noexcept { return position; }

#endif

}  // namespace kina
