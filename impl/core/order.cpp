// Lazy events and the table of known order.
#include "impl/core/order.h"

#include <algorithm>

#include "impl/core/device.h"

namespace kina {
namespace {

// The newest event of `stream` that covers `position`, recorded now where there is none.
Ref<Event> event_at(Stream& stream, uint64_t position, OrderCalls* calls = nullptr) {
  Timeline& line = stream.timeline;
  const std::lock_guard lock(line.mutex);
  if (!line.newest || line.newest->position() < position) {
    Backend& backend = stream.device().backend();
    line.newest = make_counted<Event>(backend, backend.record(stream.native()), line.position, line.known);
    ++line.event_records;
    if (calls != nullptr) ++calls->event_records;
  }
  return line.newest;
}

bool is_reached(Stream& stream, uint64_t position) {
  const std::lock_guard lock(stream.timeline.mutex);
  return stream.timeline.reached >= position;
}

bool is_trivial(const Point& point) {
  return point.position == 0 || !point.stream->device().backend().is_asynchronous() ||
         is_reached(*point.stream, point.position);
}

}  // namespace

uint64_t Knowledge::of(uint64_t serial) const noexcept {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), serial,
                       [](const Entry& candidate, uint64_t wanted) { return candidate.serial < wanted; });
  return entry != entries_.end() && entry->serial == serial ? entry->position : 0;
}

void Knowledge::raise(uint64_t serial, uint64_t position) {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), serial,
                       [](const Entry& candidate, uint64_t wanted) { return candidate.serial < wanted; });
  if (entry == entries_.end() || entry->serial != serial) {
    entries_.insert(entry, {serial, position});
  } else {
    entry->position = std::max(entry->position, position);
  }
}

void Knowledge::join(const Knowledge& other) {
  for (const Entry& entry : other.entries_) raise(entry.serial, entry.position);
}

OrderCalls order_after(Stream& waiter, const Point& point, Site site) {
  OrderCalls calls;
  if (point.stream.get() == &waiter || is_ordered(waiter, point) || is_dropped(site)) return calls;
  if (&waiter.device().backend() != &point.stream->device().backend()) {
    wait_for(point, site);  // events do not cross
    return calls;
  }
  const Ref<Event> event = event_at(*point.stream, point.position, &calls);
  Timeline& line = waiter.timeline;
  const std::lock_guard lock(line.mutex);
  waiter.device().backend().wait(waiter.native(), event->native());
  ++line.stream_waits;
  ++calls.stream_waits;
  line.known.join(event->known());
  line.known.raise(point.stream->serial(), event->position());
  return calls;
}

bool is_ordered(const Stream& waiter, const Point& point) {
  if (point.stream.get() == &waiter || is_trivial(point)) return true;
  const std::lock_guard lock(waiter.timeline.mutex);
  return waiter.timeline.known.of(point.stream->serial()) >= point.position;
}

void wait_for(const Point& point, Site site) {
  if (is_trivial(point) || is_dropped(site)) return;
  const Ref<Event> event = event_at(*point.stream, point.position);
  Stream& stream = *point.stream;
  stream.device().backend().synchronize(event->native());
  const std::lock_guard lock(stream.timeline.mutex);
  stream.timeline.reached = std::max(stream.timeline.reached, event->position());
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
    if (is_trivial(point)) return true;
    const Ref<Event> event = event_at(*point.stream, point.position, &calls);
    return point.stream->device().backend().is_done(event->native());
  } catch (...) {
    return false;
  }
}

bool settle(Stream& stream, Site site) noexcept {
  return is_read_by_host(stream.device().type()) || try_wait_for(now(stream), site);
}

bool has_run(const Point& point) {
  if (is_trivial(point)) return true;
  const Ref<Event> event = event_at(*point.stream, point.position);
  return point.stream->device().backend().is_done(event->native());
}

Point after_foreign_work(Stream& stream) {
  const std::lock_guard lock(stream.timeline.mutex);
  return {Ref<Stream>::share(&stream), ++stream.timeline.position};
}

void note_foreign(Stream& stream) { stream.timeline.has_foreign_work.store(true, std::memory_order_release); }

void count_work(Stream& stream) noexcept {
  const std::lock_guard lock(stream.timeline.mutex);
  ++stream.timeline.position;
}

Point now(Stream& stream) {
  const std::lock_guard lock(stream.timeline.mutex);
  if (stream.timeline.has_foreign_work) ++stream.timeline.position;
  return {Ref<Stream>::share(&stream), stream.timeline.position};
}

}  // namespace kina
