// Which threads are makers, and how another thread comes in.
#include "impl/core/maker.h"

#include <sched.h>

#include <mutex>

#include "impl/core/thread_cache.h"

namespace kina {

// The makers whose threads run. In a forked child what other threads made is nobody's: what they had begun to change
// they never will.
class MakerRegistry : public ThreadRegistry<MakerRegistry, Maker> {
 public:
  static Maker* own() noexcept { return own_maker(); }

  void add(Maker& maker) noexcept {
    const std::lock_guard lock(mutex());
    if (last_number_ != UINT32_MAX) maker.number_ = ++last_number_;  // used up one day: 0 then, for good
    // Where each fence is the thread's own it would cost more than the locked instruction.
    const bool is_worth_it = maker.number_ != 0 && fences_are_remote.load(std::memory_order_relaxed);
    maker.has_company_.store(!is_worth_it, std::memory_order_relaxed);
    enter(maker);
  }

  // A maker that is not found has ended, and what it did before it took this lock is seen behind it.
  void join(Maker::Number number) noexcept {
    const std::lock_guard lock(mutex());
    Maker* maker = find([=](const Maker& each) { return each.number_ == number; });
    if (maker == nullptr || maker->has_company_.load(std::memory_order_relaxed)) return;
    maker->has_company_.store(true, std::memory_order_relaxed);
    fence_all_threads_surely();
    while (maker->is_changing_.load(std::memory_order_acquire)) sched_yield();
  }

 private:
  Maker::Number last_number_ = 0;
};

Maker::Maker() noexcept { MakerRegistry::instance().add(*this); }
Maker::~Maker() { MakerRegistry::instance().remove(*this); }

void admit_all(std::atomic<Maker::Number>& maker) noexcept {
  Maker::Number number = maker.load(std::memory_order_acquire);
  if (number == 0) return;
  const Maker* own = own_maker();
  if (own == nullptr || !own->made(number)) MakerRegistry::instance().join(number);
  // Another object may stand there by now, of another maker: that one is left as it is.
  maker.compare_exchange_strong(number, 0, std::memory_order_acq_rel);
}

}  // namespace kina
