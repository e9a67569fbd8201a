// Which threads are makers, and how another thread comes in.
#include "impl/core/maker.h"

#include <pthread.h>
#include <sched.h>

#include <mutex>
#include <utility>

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"
#include "impl/core/sanitizers.h"
#include "impl/core/thread_cache.h"

namespace kina {

// The makers whose threads run.
class MakerBook {
 public:
  static MakerBook& instance() noexcept {
    static Lasting<MakerBook> book;
    return *book;
  }

  // In a forked child what other threads made is nobody's: what they had begun to change they never will.
  MakerBook() noexcept {
    pthread_atfork(nullptr, nullptr, [] { instance().forget_other_threads(); });
  }

  void add(Maker& maker) noexcept {
    const std::lock_guard lock(mutex_);
    if (last_number_ != UINT32_MAX) maker.number_ = ++last_number_;  // used up one day: 0 then, for good
    // Where each fence is the thread's own it would cost more than the locked instruction.
    const bool is_worth_it = maker.number_ != 0 && fences_are_remote.load(std::memory_order_relaxed);
    maker.has_company_.store(!is_worth_it, std::memory_order_relaxed);
    maker.next_ = std::exchange(first_, &maker);
    if (maker.next_ != nullptr) maker.next_->previous_ = &maker;
  }
  void remove(Maker& maker) noexcept {
    const std::lock_guard lock(mutex_);
    (maker.previous_ == nullptr ? first_ : maker.previous_->next_) = maker.next_;
    if (maker.next_ != nullptr) maker.next_->previous_ = maker.previous_;
  }

  // A maker that is not found has ended, and what it did before it took this lock is seen behind it.
  void join(Maker::Number number) noexcept {
    const std::lock_guard lock(mutex_);
    Maker* maker = first_;
    while (maker != nullptr && maker->number_ != number) maker = maker->next_;
    if (maker == nullptr || maker->has_company_.load(std::memory_order_relaxed)) return;
    maker->has_company_.store(true, std::memory_order_relaxed);
    fence_all_threads_surely();
    while (maker->is_changing_.load(std::memory_order_acquire)) sched_yield();
  }

 private:
  void forget_other_threads() noexcept {
    first_ = t_cache == nullptr ? nullptr : &t_cache->maker;
    if (first_ != nullptr) first_->previous_ = first_->next_ = nullptr;
  }

  Mutex mutex_{Mutex::Place::inner};
  Maker* first_ = nullptr;
  Maker::Number last_number_ = 0;
};

Maker::Maker() noexcept { MakerBook::instance().add(*this); }
Maker::~Maker() { MakerBook::instance().remove(*this); }

void admit_all(std::atomic<Maker::Number>& maker) noexcept {
  Maker::Number number = maker.load(std::memory_order_acquire);
  if (number == 0) return;
  const Maker* own = own_maker();
  if (own == nullptr || !own->made(number)) MakerBook::instance().join(number);
  // Another object may stand there by now, of another maker: that one is left as it is.
  maker.compare_exchange_strong(number, 0, std::memory_order_acq_rel);
}

}  // namespace kina
