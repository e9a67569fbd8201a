// Order between streams: what each is known to run after, and events that are recorded only where that is not known.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "impl/backend/backend.h"
#include "impl/core/counted.h"
#include "impl/core/mutex.h"
#include "impl/core/site.h"

namespace kina {

class Stream;

// A moment of a stream, which outlives all that speaks of it: all work enqueued on it up to `position`.
struct Point {
  Stream* stream = nullptr;
  uint64_t position = 0;
};

// For each stream, by its serial number, the position that some moment is ordered after.
class Knowledge {
 public:
  uint64_t of(uint64_t serial) const noexcept;
  void raise(uint64_t serial, uint64_t position, Site site = Site::here());
  void join(const Knowledge& other, Site site = Site::here());

 private:
  struct Entry {
    uint64_t serial, position;
  };
  std::vector<Entry> entries_;  // by serial
};

// Some of a stream's knowledge, for looks without its mutex. What was once noted stays true: knowledge grows, and
// before the object stands for another native stream all that the former one ran after is over.
class Glimpses {
 public:
  bool cover(uint64_t serial, uint64_t position) const noexcept {
    const uint64_t seen = place_of(serial).load(std::memory_order_acquire);
    return seen >> kPositionBits == serial && (seen & kMostPosition) >= position;
  }
  // One thread at a time.
  void note(uint64_t serial, uint64_t position) noexcept {
    if (serial >> (64 - kPositionBits) != 0 || position > kMostPosition) return;
    place_of(serial).store(serial << kPositionBits | position, std::memory_order_release);
  }

 private:
  using Place = std::atomic<uint64_t>;
  static constexpr int kPositionBits = 40;
  static constexpr uint64_t kMostPosition = (uint64_t{1} << kPositionBits) - 1;
  Place& place_of(uint64_t serial) noexcept { return places_[serial % places_.size()]; }
  const Place& place_of(uint64_t serial) const noexcept { return places_[serial % places_.size()]; }
  std::array<Place, 4> places_{};
};

// A recorded event and what it stands for.
class Event final : public Counted {
 public:
  // Records it now, at `position` of the stream. Throws what the driver refuses with.
  Event(Backend& backend, NativeStream stream, uint64_t position, Knowledge known)
      : backend_(backend), position_(position), known_(std::move(known)), native_(backend.record(stream)) {}

  NativeEvent native() const noexcept { return native_; }
  uint64_t position() const noexcept { return position_; }
  const Knowledge& known() const noexcept { return known_; }

 private:
  ~Event() override { backend_.release(native_); }
  Backend& backend_;
  uint64_t position_;
  Knowledge known_;
  NativeEvent native_;  // the last: whatever else may fail comes before it
};

// The order of one stream: how far it is, its newest event, and what it runs after.
struct Timeline {
  mutable Mutex mutex{Mutex::Place::inner};
  uint64_t position = 0;             // pieces of work enqueued
  std::atomic<uint64_t> reached{0};  // of these, known to have run because the host waited for them
  Ref<Event> newest;                 // the only event kept: older positions are covered by it
  Knowledge known;
  mutable Glimpses glimpses;  // changed with `mutex`
  uint64_t event_records = 0;
  uint64_t stream_waits = 0;
  std::atomic<bool> has_foreign_work{false};  // the native handle came in or went out: nobody counts all work on it
  std::atomic<bool> has_ended{false};  // the native stream is its owner's again and may be gone; set with `mutex`

  // A piece of work, or a wait, takes the next position; with `mutex` held.
  void advance(Site site = Site::here()) noexcept {
    if (!is_dropped(site, SiteKind::pin)) ++position;
  }
  // The host knows that everything up to `seen` has run.
  void reach(uint64_t seen, Site site = Site::here()) noexcept;
};

// What an order cost in calls of the device.
struct OrderCalls {
  uint32_t event_records = 0;
  uint32_t stream_waits = 0;
};

// Work enqueued on `waiter` from now on runs after `point`. No call of the device where that is known already.
OrderCalls order_after(Stream& waiter, const Point& point, Site site = Site::here());

// Without memory for an event: how often a stream is asked, 10,000 times a second, before that counts as a failure.
inline constinit std::atomic<int> most_looks{50'000};

// Returns when `point` has run.
void wait_for(const Point& point, Site site = Site::here());

// The same where memory that is out is no answer, because work is under way: asks again until there is some or all has
// run.
void wait_surely(const Point& point, Site site = Site::here());

// The same where nothing may be thrown: false where the device refuses.
bool try_order_after(Stream& waiter, const Point& point, OrderCalls& calls, Site site = Site::here()) noexcept;
bool try_wait_for(const Point& point, Site site = Site::here()) noexcept;
// Whether `point` is seen to have run, without waiting; false also where that cannot be learned.
bool is_seen_over(const Point& point, OrderCalls& calls) noexcept;

// Returns when everything enqueued on `stream` so far has run; false where that cannot be learned.
bool settle(Stream& stream, Site site = Site::here()) noexcept;

// Whether `point` has run, without waiting.
bool has_run(const Point& point, OrderCalls* calls = nullptr);

// The same for everything enqueued on `stream` so far, by whomever.
bool is_idle(Stream& stream);

// True where order_after would cost nothing.
bool is_ordered(const Stream& waiter, const Point& point);  // in stream.h
// The same of another stream's, behind a look at the glimpses.
bool is_ordered_unseen(const Stream& waiter, const Point& point);

// Work that the caller enqueued by itself has taken a position on `stream`.
Point after_foreign_work(Stream& stream, Site site = Site::here());

// From here on the caller may enqueue work by itself, because the native handle came in or went out.
void note_foreign(Stream& stream, Site site = Site::here());

// From here on the native stream may be gone: what was enqueued so far is followed without asking it again.
void note_end(Stream& stream) noexcept;

// Whether nobody can learn any more when what was on a stream that has ended is over: its driver refused to say.
bool is_lost_sight_of(Stream& stream) noexcept;

// What the library knows to be on `stream`.
Point last_of(Stream& stream);

// Everything enqueued on `stream` so far. Foreign work that the library did not see counts where it can exist.
Point now(Stream& stream);

}  // namespace kina
