// Waiting for earlier users of bytes, and remembering later ones.
#include "impl/core/uses.h"

#include <algorithm>

#include "impl/core/storage.h"
#include "impl/core/stream.h"

namespace kina {

void Uses::order(Stream& stream, Access access, Site site) {
  if (is_dropped(site)) return;
  if (writer_) order_after(stream, *writer_);
  if (access == Access::read) return;
  for (const Point& reader : readers_) order_after(stream, reader);
}

void Uses::wait(Access access, Site site) {
  if (is_dropped(site)) return;
  if (writer_) wait_for(*writer_);
  if (access == Access::read) return;
  for (const Point& reader : readers_) wait_for(reader);
}

void Uses::reserve() {
  const std::lock_guard lock(shared_mutex_of(this));  // a fork finds the lists whole
  readers_.reserve(readers_.size() + 1);
  peers_.reserve(peers_.size() + 1);
}

void Uses::put(std::vector<Point>& points, const Point& point) noexcept {
  const auto same = std::find_if(points.begin(), points.end(),
                                 [&](const Point& other) { return other.stream.get() == point.stream.get(); });
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
    writer_ = point;
    readers_.clear();  // the write waited for them
  } else {
    put(readers_, point);
  }
  is_used_.store(true, std::memory_order_release);
}

void Uses::note_peer(const Point& point, Site site) noexcept {
  if (is_dropped(site, SiteKind::pin)) return;
  const std::lock_guard lock(shared_mutex_of(this));
  put(peers_, point);
  is_used_.store(true, std::memory_order_release);
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
    part.storage->uses.mutex.lock();
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
  for (size_t i = 0; i < taken_; ++i) parts_[i].storage->uses.mutex.unlock();
  taken_ = 0;
  parts_.clear();
}

void wait_for_uses(Storage& storage, Access access, Site site) {
  if (storage.uses.is_idle()) [[likely]]
    return;
  const std::lock_guard lock(storage.uses.mutex);
  storage.uses.wait(access, site);
}

}  // namespace kina
