// Lazy events and the table of known order.
#include "impl/core/order.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "impl/core/capture.h"
#include "impl/core/device.h"

namespace kina {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{100};

// What the host knows to have run on every stream, because what it waited for was ordered after that.
struct HostKnowledge {
  Mutex mutex{Mutex::Place::inner};
  Knowledge known;
};
HostKnowledge& host() {
  static auto& knowledge = *new HostKnowledge;
  return knowledge;
}

// The newest event of `stream` that covers `position`, recorded now where there is none.
Ref<Event> event_at(Stream& stream, uint64_t position, OrderCalls* calls = nullptr) {
  Timeline& line = stream.timeline;
  const std::lock_guard lock(line.mutex);
  if (!line.newest || line.newest->position() < position) {
    // A stream that has ended left an event of all that was on it, or was over, unless its driver refused both.
    require<Message::driver_failed>(!line.has_ended, "KINA-DEVICE-23", {},
                                    "telling when a stream that has ended is over");
    Backend& backend = stream.device().backend();
    Knowledge known;
    known.join(line.known);
    line.newest = make_counted<Event>(backend, stream.native(), learned(line.position, Site::here()), std::move(known));
    ++line.event_records;
    if (calls != nullptr) ++calls->event_records;
  }
  return line.newest;
}

bool leaves_event(const Point& point) noexcept {
  try {
    return static_cast<bool>(event_at(*point.stream, point.position));
  } catch (...) {
    return false;
  }
}

// The host has seen that `stream` came to `position`: all that this was ordered after is over as well.
void note_done(Stream& stream, uint64_t position, const Knowledge& known) {
  stream.timeline.reach(position);
  HostKnowledge& all = host();
  const std::lock_guard lock(all.mutex);
  all.known.join(known);
}

// Where no event of it can be had, the stream is asked now and then until all up to `position` has run. False where
// that cannot be learned.
bool is_idle_in_time(Stream& stream, uint64_t position) noexcept {
  if (stream.timeline.has_ended) return false;
  try {
    for (int looks = 0; !stream.device().backend().is_idle(stream.native()); ++looks) {
      if (looks >= most_looks.load(std::memory_order_relaxed)) return false;
      std::this_thread::sleep_for(kBetweenLooks);
    }
    note_done(stream, position, {});
    return true;
  } catch (...) {
    return false;
  }
}

bool is_reached(const Stream& stream, uint64_t position) noexcept {
  return stream.timeline.reached.load(std::memory_order_acquire) >= position;
}

bool is_known_to_host(const Stream& stream, uint64_t position) {
  HostKnowledge& all = host();
  const std::lock_guard lock(all.mutex);
  return all.known.of(stream.serial()) >= position;
}

// Nothing to wait for: no work, work of a device that is done when it returns, or work that the host has seen done.
bool is_trivial(const Point& point) noexcept {
  return point.position == 0 || !point.stream->device().backend().is_asynchronous() ||
         is_reached(*point.stream, point.position);
}

// Makes `waiter` wait for an event of `awaited`; false where it has ended meanwhile.
bool follow(Stream& waiter, const Stream& awaited, const Event& event, OrderCalls& calls) {
  Timeline& line = waiter.timeline;
  const std::lock_guard lock(line.mutex);
  if (line.has_ended) return false;
  waiter.device().backend().wait(waiter.native(), event.native());
  ++line.stream_waits;
  ++calls.stream_waits;
  line.advance();  // who waits for the stream waits for that work too
  line.known.join(event.known());
  line.known.raise(awaited.serial(), event.position());
  line.glimpses.note(awaited.serial(), line.known.of(awaited.serial()));
  return true;
}

bool has_passed(const Point& point) { return is_trivial(point) || is_known_to_host(*point.stream, point.position); }

}  // namespace

uint64_t Knowledge::of(uint64_t serial) const noexcept {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), serial,
                       [](const Entry& candidate, uint64_t wanted) { return candidate.serial < wanted; });
  return entry != entries_.end() && entry->serial == serial ? entry->position : 0;
}

void Knowledge::raise(uint64_t serial, uint64_t position, Site site) {
  position = learned(position, site);
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), serial,
                       [](const Entry& candidate, uint64_t wanted) { return candidate.serial < wanted; });
  if (entry == entries_.end() || entry->serial != serial) {
    entries_.insert(entry, {serial, position});
  } else {
    entry->position = std::max(entry->position, position);
  }
}

void Knowledge::join(const Knowledge& other, Site site) {
  for (const Entry& entry : other.entries_) raise(entry.serial, entry.position, site);
}

void Timeline::reach(uint64_t seen, Site site) noexcept {
  seen = learned(seen, site);
  uint64_t known_so_far = reached.load(std::memory_order_relaxed);
  while (known_so_far < seen && !reached.compare_exchange_weak(known_so_far, seen, std::memory_order_release)) {
  }
}

OrderCalls order_after(Stream& waiter, const Point& point, Site site) {
  OrderCalls calls;
  if (point.stream == &waiter || is_ordered(waiter, point) || is_dropped(site)) return calls;
  // Events do not cross, and a stream that has ended waits no more.
  const bool may_wait = &waiter.device().backend() == &point.stream->device().backend() && !waiter.timeline.has_ended;
  if (!may_wait || !follow(waiter, *point.stream, *event_at(*point.stream, point.position, &calls), calls))
    wait_for(point, site);
  return calls;
}

bool is_ordered_unseen(const Stream& waiter, const Point& point) {
  const Timeline& line = waiter.timeline;
  const uint64_t serial = point.stream->serial();
  if (is_trivial(point)) return true;
  {
    const std::lock_guard lock(line.mutex);
    const uint64_t known = line.known.of(serial);
    if (known >= point.position) {
      line.glimpses.note(serial, known);
      return true;
    }
  }
  return is_known_to_host(*point.stream, point.position);
}

void wait_for(const Point& point, Site site) {
  if (has_passed(point) || is_dropped(site)) return;
  Stream& stream = *point.stream;
  Backend& backend = stream.device().backend();
  try {
    const Ref<Event> event = event_at(stream, point.position);
    backend.synchronize(event->native());
    note_done(stream, event->position(), event->known());
  } catch (const std::bad_alloc&) {  // releases have no other way than to look until the stream is idle
    if (!is_idle_in_time(stream, point.position)) throw;
  }
}

void wait_surely(const Point& point, Site site) {
  for (;; std::this_thread::sleep_for(kBetweenLooks)) try {
      return wait_for(point, site);
    } catch (const std::bad_alloc&) {
      continue;  // it has looked for long, unless the stream cannot be asked
    } catch (const Error& error) {
      if (error.status != KINA_ERROR_OUT_OF_MEMORY) throw;
      if (is_idle_in_time(*point.stream, point.position)) return;
    }
}

bool try_order_after(Stream& waiter, const Point& point, OrderCalls& calls, Site site) noexcept {
  try {
    const OrderCalls made = order_after(waiter, point, site);
    calls.event_records += made.event_records;
    calls.stream_waits += made.stream_waits;
    return true;
  } catch (...) {
    return false;
  }
}

bool try_wait_for(const Point& point, Site site) noexcept {
  try {
    wait_for(point, site);
    return true;
  } catch (...) {
    return false;
  }
}

bool is_seen_over(const Point& point, OrderCalls& calls) noexcept {
  try {
    return has_run(point, &calls);
  } catch (...) {
    return false;
  }
}

bool settle(Stream& stream, Site site) noexcept {
  return is_read_by_host(stream.device().type()) || try_wait_for(now(stream), site);
}

bool has_run(const Point& point, OrderCalls* calls) {
  if (has_passed(point)) return true;
  const Ref<Event> event = event_at(*point.stream, point.position, calls);
  if (!point.stream->device().backend().is_done(event->native())) return false;
  note_done(*point.stream, event->position(), event->known());
  return true;
}

bool is_idle(Stream& stream) {
  if (!stream.device().backend().is_asynchronous()) return true;
  Timeline& line = stream.timeline;
  std::unique_lock lock(line.mutex);
  const uint64_t position = line.position;
  if (!line.has_foreign_work && is_reached(stream, position)) return true;
  const Knowledge known = line.known;
  lock.unlock();
  if (!stream.device().backend().is_idle(stream.native())) return false;
  note_done(stream, position, known);
  return true;
}

Point after_foreign_work(Stream& stream, Site site) {
  const std::lock_guard lock(stream.timeline.mutex);
  stream.timeline.advance(site);
  return {&stream, stream.timeline.position};
}

void note_foreign(Stream& stream, Site site) {
  if (!is_dropped(site, SiteKind::pin)) stream.timeline.has_foreign_work.store(true, std::memory_order_release);
}

void note_end(Stream& stream) noexcept {
  if (!may_capture(stream)) {
    const Point last = now(stream);
    if (!leaves_event(last) && !is_dropped(Site::here())) is_idle_in_time(stream, last.position);
  }
  const std::lock_guard lock(stream.timeline.mutex);
  stream.timeline.has_foreign_work.store(false, std::memory_order_release);
  stream.timeline.has_ended.store(true, std::memory_order_release);
}

bool is_lost_sight_of(Stream& stream) noexcept {
  Timeline& line = stream.timeline;
  const std::lock_guard lock(line.mutex);
  const bool is_covered = line.newest && line.newest->position() >= line.position;
  return line.has_ended && !is_covered && !is_reached(stream, line.position);
}

Point last_of(Stream& stream) {
  const std::lock_guard lock(stream.timeline.mutex);
  return {&stream, stream.timeline.position};
}

Point now(Stream& stream) {
  // What is recorded is not on the stream: it stands where the push of the capture left an event.
  const bool is_recording = stream.is_announced() && may_capture(stream);
  const std::lock_guard lock(stream.timeline.mutex);
  if (stream.timeline.has_foreign_work && !is_recording) stream.timeline.advance();
  return {&stream, stream.timeline.position};
}

}  // namespace kina
