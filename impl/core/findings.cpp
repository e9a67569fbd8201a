// Slabs of findings. They are few and never given back.
#include "impl/core/findings.h"

#include <map>

#include "impl/core/device.h"
#include "impl/core/lasting.h"

namespace kina {
namespace {

constexpr size_t kSlab = 64;

bool is_lost(const Point& point) noexcept {
  const Device& device = point.stream->device();
  return device.backend().is_lost(device.id());
}

// False also where it cannot be learned, as of a stream that captures.
bool is_over(const Point& point) noexcept {
  try {
    return has_run(point);
  } catch (...) {
    return false;
  }
}

}  // namespace

Findings& Findings::of(Backend& backend) {
  static Lasting<Mutex> mutex;
  static Lasting<std::map<Backend*, Findings>> all;
  const std::lock_guard lock(*mutex);
  Findings& findings = (*all)[&backend];
  findings.backend_ = &backend;
  return findings;
}

Finding* Findings::take() {
  while (true) {
    reap();
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Finding* finding = free_.back();
        free_.pop_back();
        *finding = {};
        return finding;
      }
    }
    add_slab();
  }
}

void Findings::put_back(Finding* finding) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(finding);
}

void Findings::retire(Finding* finding, const Point& point, Ref<Counted> read) noexcept {
  const std::lock_guard lock(mutex_);
  retired_.push_back({finding, point, std::move(read)});
}

// The driver is asked under no lock: with one of its own it gives back what a graph kept.
void Findings::add_slab() {
  std::unique_lock lock(mutex_);
  free_.reserve(made_ + kSlab);
  retired_.reserve(made_ + kSlab);
  made_ += kSlab;
  lock.unlock();
  auto* slab = static_cast<Finding*>(backend_->allocate_shared(kSlab * sizeof(Finding)));
  lock.lock();
  if (slab == nullptr) made_ -= kSlab;
  require<Message::out_of_host_memory>(slab != nullptr, "KINA-STATUS-44", {});
  for (size_t i = 0; i < kSlab; ++i) free_.push_back(slab + i);
}

// Takes retired findings back, the oldest first, until one is free. Devices are asked under no lock.
void Findings::reap() {
  for (;;) {
    Retired oldest;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty() || retired_.empty()) return;
      oldest = std::move(retired_.front());
      retired_.erase(retired_.begin());
    }
    if (is_lost(oldest.point)) continue;  // its work may still write: nobody can be told when it is over
    if (!is_over(oldest.point)) return retire(oldest.finding, oldest.point, oldest.read);
    put_back(oldest.finding);
  }
}

}  // namespace kina
