// Time stamps of rows: what the processor counts, read as seldom as will do, made nanoseconds by the thread that
// drains.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <utility>

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

// The clocks of this system.
struct SystemClocks {
  static uint64_t ticks() noexcept { return now_ticks(); }
#if defined(CLOCK_MONOTONIC_COARSE)
  // Differs from one step of the kernel's clock, of 1 to 10 ms, to the next. Costs a few loads.
  static constexpr bool kHasSteps = true;
  static uint64_t step() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
  }
#else
  static constexpr bool kHasSteps = false;
  static uint64_t step() noexcept { return 0; }
#endif
};

// What one thread stamps its rows with. To read what the processor counts takes longer than all else of a row on some
// machines, so rows on each other's heels share a reading: eight at most, and none across a step of the coarse clock.
template <class Clocks>
class RowClock {
 public:
  uint64_t now() noexcept {
    if constexpr (!Clocks::kHasSteps) return Clocks::ticks();
    const uint64_t step = Clocks::step();
    if (sharers_ == 0 || step != step_) [[unlikely]]
      return read(step);
    --sharers_;
    return ticks_;
  }

 private:
  static constexpr uint64_t kOnTheHeels = 4096;  // one or two microseconds on x86; up to 170 on aarch64, by its counter
  static constexpr uint32_t kSharers = 7;

  uint64_t read(uint64_t step) noexcept {
    const uint64_t before = std::exchange(ticks_, Clocks::ticks());
    step_ = step;
    sharers_ = ticks_ - before < kOnTheHeels ? kSharers : 0;
    return ticks_;
  }

  uint64_t ticks_ = 0, step_ = 0;
  uint32_t sharers_ = 0;  // rows that may still have `ticks_`
};

// From ticks to nanoseconds of the monotonic clock, between the two latest moments in which both were read.
class TickScale {
 public:
  // Rows come in the order of their ticks, or nearly so; their times do not decrease.
  uint64_t nanoseconds(uint64_t ticks) noexcept { return newest_ = std::max(newest_, scaled(ticks)); }

 private:
  struct Moment {
    uint64_t ticks, nanoseconds;
  };

  uint64_t scaled(uint64_t ticks) noexcept {
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

  // No thread reads both clocks at once: the nanoseconds are the earlier ones, of the try that was interrupted least.
  static Moment read() noexcept {
    Moment best{};
    uint64_t least = ~uint64_t{0};
    for (int tries = 0; tries < 4 && least > kTogether; ++tries) {
      const uint64_t before = now_nanoseconds();
      const uint64_t ticks = now_ticks();
      const uint64_t lasted = now_nanoseconds() - before;
      if (lasted < least) best = {ticks, before};
      least = std::min(least, lasted);
    }
    return best;
  }
  static constexpr uint64_t kTogether = 1000;

  Moment from_ = read();
  Moment to_ = from_;
  uint64_t newest_ = 0;
};

}  // namespace kina
