// Pending checks: what a device finds out late, and the bytes that depend on it.
#pragma once

#include <atomic>
#include <vector>

#include "impl/core/failure.h"
#include "impl/core/stream.h"

namespace kina {

// Whether one piece of work has met an index outside an extent, which is known when it has run. What it met is shown to
// nobody before a point at which the host looks at bytes that depend on it.
class Check final : public Counted {
 public:
  // Of work that `function` is about to enqueue on `stream`. Throws OUT_OF_MEMORY.
  static Ref<Check> make(const char* function, Stream& stream, int64_t extent);

  // For the work to fill in.
  Finding* finding() const noexcept { return finding_; }
  // The work is enqueued and its turn has not ended: of two checks the one that was enqueued first is the older one.
  void enqueued(const Point& point) noexcept;
  // The work is recorded by `capture` instead, whose graph keeps this: its finding counts what replays meet, and it is
  // never open itself. Fine once the graph is gone and no replay has met anything. Throws bad_alloc.
  void record(uint64_t capture);
  uint64_t capture() const noexcept { return capture_; }  // 0: not recorded
  // For work on `stream` that collects what replays of the recorded work met. Two that tell of one replay have one
  // failure.
  static Ref<Check> for_replays(const Ref<Check>& recorded, Stream& stream);
  // Older ones have smaller numbers.
  uint64_t number() const noexcept { return number_; }
  Stream& stream() const noexcept { return *point_.stream; }

  bool is_fine() const noexcept { return state_.load(std::memory_order_acquire) == State::fine; }
  bool is_shown() const noexcept { return state_.load(std::memory_order_acquire) == State::shown; }
  // Waits for the work; true when it failed. Shows that to nobody else.
  bool has_failed() { return has_failed(&wait_for); }
  // The same without waiting: true where it is known now whether the work failed.
  bool is_over() noexcept;
  // The host looks: waits for the work, and shows what it met. `show_surely` where memory that is out is no answer.
  void show();
  void show_surely();
  // What it met, as the call would have answered it, and as a failure that is the same for all who ask.
  Error error() const;
  Ref<Failure> failure();

 private:
  enum class State : uint8_t { open, fine, failed, shown };
  Check(const char* function, Stream& stream, int64_t extent);
  ~Check() override;
  bool has_failed(void (*wait)(const Point&, Site));
  void settle(State found) noexcept;
  void note_end_of_graph() noexcept;
  bool settle_by_finding() noexcept;

  const char* const function_;
  const int64_t extent_;
  Finding* const finding_;
  Point point_;  // of the stream alone, until the work is enqueued
  bool is_enqueued_ = false;
  uint64_t number_ = 0;
  uint64_t capture_ = 0;
  std::atomic<State> state_{State::open};
  std::atomic<bool> is_lost_{false};  // the work never ran: the device is gone
  Ref<Check> recorded_;               // whose replays it tells of, if any
  Ref<Failure> failure_;
  int64_t failed_run_ = 0;  // that the failure is of
  Check* newer_ = nullptr;  // the chain of open checks
  Check* older_ = nullptr;
  friend class OpenChecks;
};

// Shows every check of work that runs before what is enqueued on `stream` from now on.
void show_checks(Stream& stream);

// What is looked at: what was shown already, or everything, which waits.
enum class Look : uint8_t { shown, all };

// The checks that some bytes depend on, each with the functions that handed it on. Never changes once others see it.
class Doubt final : public Counted {
 public:
  struct Entry {
    Ref<Check> check;
    Chain way;
  };
  const std::vector<Entry>& entries() const noexcept { return entries_; }  // the oldest check first

  // The oldest check that failed is the root; `hidden` is one that has to be shown before more can be said.
  struct Verdict {
    enum class Kind : uint8_t { fine, failed, hidden, pending } kind;
    const Entry* entry = nullptr;
  };
  Verdict judge(Look look) const noexcept;

 private:
  friend class Doubts;
  ~Doubt() override = default;
  std::vector<Entry> entries_;
};

inline bool say_the_same(const Doubt& a, const Doubt& b) noexcept { return &a == &b; }

// The checks that one operation hands on, while it collects them. What adds some throws bad_alloc.
class Doubts {
 public:
  explicit Doubts(const char* function) : function_(function) {}
  bool is_empty() const noexcept { return !doubt_; }
  // The operation reads bytes under `read`.
  void hand_on(const Doubt& read);
  // Bytes under `beside` are claimed with those that it writes.
  void keep(const Doubt& beside);
  // The same, but for checks of `capture`.
  void keep_others(const Doubt& beside, uint64_t capture);
  // Of very many those that are over are dropped, unless they failed. Nothing is waited for [KINA-STORAGE-64].
  void drop_what_is_over() noexcept;
  // The operation's own check, which is newer than all others.
  void raise(const Ref<Check>& check, const Chain& way = {});
  const Ref<Doubt>& result() const noexcept { return doubt_; }

 private:
  void add(Doubt::Entry entry);

  const char* function_;
  Ref<Doubt> doubt_;
};

}  // namespace kina
