// Time stamps of rows: what the processor counts, which is cheap to read, made nanoseconds by the thread that drains.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace kina {

inline uint64_t now_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

#if defined(__x86_64__)
// Whether the counter runs evenly, whatever the processor does.
inline bool has_even_ticks() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 0x100U) != 0;
}
inline const bool kHasTicks = has_even_ticks();
inline uint64_t now_ticks() noexcept { return kHasTicks ? __rdtsc() : now_nanoseconds(); }
#elif defined(__aarch64__)
inline uint64_t now_ticks() noexcept {
  uint64_t ticks = 0;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
#else
inline uint64_t now_ticks() noexcept { return now_nanoseconds(); }
#endif

// From ticks to nanoseconds of the monotonic clock, between the two latest moments in which both were read.
class TickScale {
 public:
  // Rows come in the order of their ticks, or nearly so.
  uint64_t nanoseconds(uint64_t ticks) noexcept {
    if (ticks > to_.ticks) {
      from_ = to_;
      to_ = read();
    }
    const uint64_t inside = std::clamp(ticks, from_.ticks, to_.ticks) - from_.ticks;
    const uint64_t span = to_.ticks - from_.ticks;
    if (span == 0) return to_.nanoseconds;
    const auto share = static_cast<double>(inside) / static_cast<double>(span);
    return from_.nanoseconds + static_cast<uint64_t>(share * static_cast<double>(to_.nanoseconds - from_.nanoseconds));
  }

 private:
  struct Moment {
    uint64_t ticks, nanoseconds;
  };
  static Moment read() noexcept { return {now_ticks(), now_nanoseconds()}; }

  Moment from_ = read();
  Moment to_ = from_;
};

}  // namespace kina
