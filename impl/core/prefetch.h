// A hint that a line of the cache is about to be written.
#pragma once

namespace kina {

// Compilers make a plain read of it unless they are told for which processor they compile: then another core that has
// the line would be asked twice, to read it and to write. Processors that do not know the instruction pass over it.
inline void ask_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace kina
