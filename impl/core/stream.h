// A stream: where a device's work is ordered. Host streams are real handles that are always idle.
#pragma once

#include <atomic>
#include <vector>

#include "impl/backend/backend.h"
#include "impl/core/counted.h"
#include "impl/core/handle.h"
#include "impl/core/order.h"
#include "impl/core/resource.h"

namespace kina {

class Device;

enum class StreamOrigin : uint8_t { main, phase, pooled, imported };

// Streams are few and never end as objects, only as names, so that a call may look at one without counting.
class Stream final : public Counted {
 public:
  Stream(Device& device, NativeStream native, StreamOrigin origin);

  Device& device() const noexcept { return device_; }
  NativeStream native() const noexcept { return native_.load(std::memory_order_relaxed); }
  StreamOrigin origin() const noexcept { return origin_; }
  uint64_t serial() const noexcept { return serial_; }  // never reused; handles may come and go

  bool can_end() const noexcept { return origin_ == StreamOrigin::pooled || origin_ == StreamOrigin::imported; }
  // It has ended, or somebody with its device's mutex is about to end it unless a scope binds it.
  bool is_ending() const noexcept { return name_.load(std::memory_order_acquire) != Name::live; }
  // With its device's mutex: ends it, unless a scope binds it.
  enum class Ending : uint8_t { ended, is_bound, had_ended };
  Ending end() noexcept;
  // An ended stream can be bound again.
  void reopen() noexcept { name_.store(Name::live, std::memory_order_release); }
  // Whether its name is one that calls can use; another one may get it later.
  bool has_name() const noexcept { return !can_end() || name_.load(std::memory_order_acquire) != Name::ended; }

  // From here on it is `native` that it stands for, see imports.h.
  void stand_for(NativeStream native) noexcept;
  // Storages whose bytes go back in its order, counted where the object may come to stand for another native stream.
  void gain_storage() noexcept {
    if (origin_ == StreamOrigin::imported) [[unlikely]]
      storages_.fetch_add(1, std::memory_order_relaxed);
  }
  void lose_storage() noexcept {
    if (origin_ == StreamOrigin::imported) [[unlikely]]
      storages_.fetch_sub(1, std::memory_order_release);
  }
  bool has_storages() const noexcept { return storages_.load(std::memory_order_acquire) != 0; }

  // A capture scope announces that the stream captures: memory of work on it comes from the newest one's resource,
  // which lives until that scope withdraws.
  void announce(uint64_t scope, Resource& resource);
  void withdraw(uint64_t scope) noexcept;
  bool is_announced() const noexcept { return is_announced_.load(std::memory_order_acquire); }
  Ref<Resource> announced_resource() const noexcept;

  std::atomic<uint64_t> handle{0};  // its newest name: a checkout on one thread while others read it
  Timeline timeline;

 private:
  struct Announcement {
    uint64_t scope;
    Resource* resource;
  };
  ~Stream() override = default;
  enum class Name : uint8_t { live, ending, ended };
  std::atomic<Name> name_{Name::live};
  std::atomic<uint64_t> storages_{0};
  Device& device_;
  std::atomic<NativeStream> native_;
  StreamOrigin origin_;
  uint64_t serial_;
  std::vector<Announcement> announcements_;  // guarded by the timeline's mutex
  std::atomic<bool> is_announced_{false};
  Stream* older_;  // the chain of all streams
};

inline bool is_ordered(const Stream& waiter, const Point& point) {
  return point.stream == &waiter || waiter.timeline.glimpses.cover(point.stream->serial(), point.position) ||
         is_ordered_unseen(waiter, point);
}

using AllStreams = TheTable<Stream, Kind::stream>;
inline HandleTable<Stream>& streams() { return AllStreams::get(); }

// The stream of a live name, else NULL.
inline Stream* look_up(const HandleTable<Stream>& table, uint64_t handle) noexcept { return table.find(handle); }

}  // namespace kina
