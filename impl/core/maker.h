// Counts that the thread which made an object changes by plain stores, until another thread comes to change one.
#pragma once

#include <atomic>
#include <cstdint>

#include "impl/core/lease.h"
#include "impl/core/thread_registry.h"

namespace kina {

// One thread as the maker of objects. It alone changes what it made, without locked instructions. The first other
// thread that wants to change something of it pays one fence of all threads; from then on everything of this maker is
// changed by locked instructions, its own thread's changes included.
class Maker : public ThreadEntry {
 public:
  // Written into what was made; 0: nobody's, everybody changes it by locked instructions.
  using Number = uint32_t;

  Maker() noexcept;
  ~Maker();

  // For what the thread makes now.
  Number number() const noexcept { return has_company_.load(std::memory_order_relaxed) ? 0 : number_; }
  // Whether the calling thread, whose maker this is, made an object that says `number`.
  bool made(Number number) const noexcept { return number == number_; }

  // Runs `change`, which loads and stores, where no other thread can be at what this one made; false, with nothing
  // done, where one can.
  template <class Change>
  [[gnu::always_inline]] bool change_alone(Change&& change) noexcept {
    is_changing_.store(true, std::memory_order_relaxed);
    fence_lease();
    const bool is_alone = !has_company_.load(std::memory_order_relaxed);
    if (is_alone) [[likely]]
      change();
    is_changing_.store(false, std::memory_order_release);
    return is_alone;
  }

 private:
  friend class MakerRegistry;
  Number number_ = 0;
  std::atomic<bool> is_changing_{false};
  std::atomic<bool> has_company_{false};
};

// From here on everybody changes the object by locked instructions. `maker` is what it says of its maker.
void admit_all(std::atomic<Maker::Number>& maker) noexcept;

// Runs `change` where the calling thread, `own`, made the object and no other thread can be at it; false, with nothing
// done, where the change takes a locked instruction, which may follow now. `own` is NULL for a thread without a block.
template <class Change>
[[gnu::always_inline]] inline bool change_alone(Maker* own, std::atomic<Maker::Number>& maker,
                                                Change&& change) noexcept {
  const Maker::Number number = maker.load(std::memory_order_acquire);
  if (number == 0) [[unlikely]]
    return false;
  if (own == nullptr || !own->made(number) || !own->change_alone(change)) [[unlikely]] {
    admit_all(maker);
    return false;
  }
  return true;
}

}  // namespace kina
