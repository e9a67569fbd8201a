// Waiting for earlier users of bytes, and remembering later ones.
#include "impl/core/uses.h"

#include <algorithm>
#include <memory>

#include "impl/core/storage.h"
#include "impl/core/stream.h"

namespace kina {

Uses::Record& Uses::make_record() {
  auto made = std::make_unique<Record>();
  Record* first = nullptr;
  return record_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel) ? *made.release() : *first;
}

void Uses::end(Record* record) noexcept { delete record; }

void Uses::order(Stream& stream, Access access, Site site) {
  if (is_dropped(site)) return;
  if (known().writer) order_after(stream, *known().writer);
  if (access == Access::read) return;
  for (const Point& reader : known().readers) order_after(stream, reader);
}

void Uses::wait(Access access, Site site) {
  if (is_dropped(site)) return;
  if (known().writer) wait_for(*known().writer);
  if (access == Access::read) return;
  for (const Point& reader : known().readers) wait_for(reader);
}

void Uses::reserve() {
  const std::lock_guard lock(shared_mutex_of(this));  // a fork finds the lists whole
  known().readers.reserve(known().readers.size() + 1);
  known().peers.reserve(known().peers.size() + 1);
}

void Uses::put(std::vector<Point>& points, const Point& point) noexcept {
  const auto same =
      std::find_if(points.begin(), points.end(), [&](const Point& other) { return other.stream == point.stream; });
  if (same != points.end()) {
    *same = point;
  } else {
    points.push_back(point);
  }
}

void Uses::note(Access access, const Point& point, Site site) noexcept {
  if (is_dropped(site, SiteKind::pin)) return;
  const std::lock_guard lock(shared_mutex_of(this));
  if (access == Access::write) {
    known().writer = point;
    known().readers.clear();  // the write waited for them
  } else {
    put(known().readers, point);
  }
  known().is_used.store(true, std::memory_order_release);
}

void Uses::note_peer(const Point& point, Site site) noexcept {
  if (is_dropped(site, SiteKind::pin)) return;
  const std::lock_guard lock(shared_mutex_of(this));
  put(known().peers, point);
  known().is_used.store(true, std::memory_order_release);
}

void Turn::add(Storage& storage, Access access, bool is_peer) {
  const auto known =
      std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.storage == &storage; });
  if (known == parts_.end()) {
    parts_.push_back({&storage, access, is_peer});
    return;
  }
  if (access == Access::write) known->access = access;
  known->is_peer = known->is_peer && is_peer;  // who comes as the owner as well is ordered as the owner
}

void Turn::begin(Stream& stream, Site site) {
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.storage->id() < b.storage->id(); });
  for (const Part& part : parts_) {
    part.storage->uses.lock();
    ++taken_;
    part.storage->uses.reserve();
  }
  for (const Part& part : parts_)
    if (!part.is_peer) part.storage->uses.order(stream, part.access, site);
}

void Turn::end(const Point& point, Site site) noexcept {
  if (is_dropped(site, SiteKind::pin)) return;
  for (const Part& part : parts_) {
    if (part.is_peer) {
      part.storage->uses.note_peer(point);
    } else {
      part.storage->uses.note(part.access, point);
    }
  }
}

void Turn::leave() noexcept {
  for (size_t i = 0; i < taken_; ++i) parts_[i].storage->uses.unlock();
  taken_ = 0;
  parts_.clear();
}

void wait_for_uses(Storage& storage, Access access, Site site) {
  if (storage.uses.is_idle()) [[likely]]
    return;
  const std::lock_guard lock(storage.uses);
  storage.uses.wait(access, site);
}

}  // namespace kina
