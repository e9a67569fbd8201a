// What is wrong, or may turn out to be, with the bytes of one storage.
#pragma once

#include <utility>

#include "impl/core/recording.h"

namespace kina {

class Condition;

// Room for one mark that a condition has promised to whoever has this, and to nobody else. It goes back unless it is
// used.
class MarkRoom {
 public:
  enum class Of : uint8_t { failures, doubts, recorded_doubts };
  MarkRoom() = default;
  MarkRoom(Condition& condition, Of of, size_t promised) noexcept
      : condition_(&condition), promised_(promised), of_(of) {}
  MarkRoom(MarkRoom&& other) noexcept { *this = std::move(other); }
  MarkRoom& operator=(MarkRoom&& other) noexcept {
    std::swap(condition_, other.condition_);
    std::swap(promised_, other.promised_);
    std::swap(of_, other.of_);
    return *this;
  }
  ~MarkRoom() {
    if (promised_ != 0) [[unlikely]]
      give_back();
  }

  // For the mark, which takes it back.
  size_t use() noexcept { return std::exchange(promised_, 0); }

 private:
  void give_back() noexcept;

  Condition* condition_ = nullptr;
  size_t promised_ = 0;
  Of of_ = Of::failures;
};

// Failed bytes, and bytes that depend on checks. May be used by many threads.
class Condition {
 public:
  bool is_clean() const noexcept { return !is_marked_.load(std::memory_order_acquire); }

  // The lowest failed bytes under `runs`; without a claim when there are none. With Look::all no check is open behind
  // them any more. Throws bad_alloc, and what a device refuses with when it is waited for.
  FailedRange failure_in(const Runs& runs, Look look);
  // `claim` takes over the bytes under `runs`. Throws bad_alloc with nothing changed.
  void mark(const Runs& runs, const Ref<Claim>& claim);
  // Promises room so that one mark of the hull takes no memory. Throws bad_alloc.
  [[nodiscard]] MarkRoom promise_room(const Runs& runs);
  // That mark.
  void mark(const Runs& runs, const Ref<Claim>& claim, size_t promised) noexcept;
  // The bytes under `runs` are good; true when one of them was failed. Throws bad_alloc with nothing changed.
  bool clear(const Runs& runs);

  // Adds the checks that the bytes under `runs` depend on.
  void hand_on(const Runs& runs, Doubts& doubts);
  // Adds the checks of bytes that `write` of the same runs will claim beside them, and promises room for it.
  [[nodiscard]] MarkRoom prepare_write(const Runs& runs, Doubts& doubts);
  // The bytes under `runs` are written: good, exactly as far as there is memory, if every check of `doubt`, which was
  // prepared for, is fine.
  void write(const Runs& runs, const Ref<Doubt>& doubt, size_t promised) noexcept;

  // The same of work that is recorded: it counts when it is replayed.
  Recording& recording() noexcept { return recording_; }
  // Replays are on `stream`: what they met since this was asked last becomes checks of all bytes that they wrote. In a
  // turn on the storage. Throws what a launch throws; no check is lost by that.
  void collect_replays(const char* function, Stream& stream);

 private:
  friend class MarkRoom;
  Mutex& mutex() const noexcept { return shared_mutex_of(this); }
  Ref<Doubt> next_to_decide(const Runs& runs, Look look, Doubt::Verdict& verdict) noexcept;
  std::vector<Ref<Doubt>> doubts_under(const Runs& runs);
  std::vector<ClaimedRange<Doubt>> with_replays(const Replays& replays, const std::vector<ClaimedRange<Doubt>>& ranges);
  void note_marks() noexcept;

  std::atomic<bool> is_marked_{false};
  FailureMap failures_;
  Ranges<Doubt> doubts_;
  Recording recording_;
};

}  // namespace kina
