// A memory resource: where bytes come from. Adaptors hold another one upstream.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "impl/core/counted.h"
#include "impl/core/error.h"
#include "impl/core/handle.h"
#include "impl/core/lease.h"
#include "impl/core/thread_cache.h"
#include "kina_runtime.h"

namespace kina {

class Device;
class LoggingResource;
class ResidentMutex;
class Stream;
struct Point;

inline constexpr uint64_t kStorageAlignment = 256;
// On one another: a request passes them one by one, on the stack of its caller.
inline constexpr uint32_t kMostAdaptors = 64;

// Whose a block is, and so who may give it back. Internal ones belong to a storage or an adaptor, which holds a
// reference itself. Raw ones are a caller's (runtime_memory_allocate) and keep the resource alive. Ending ones were a
// caller's, and an adaptor is about to give them back. Numbers from `adaptor` on are the adaptors that stand above: a
// block that a caller has through one of them is known by its number all the way down.
enum class BlockUse : uint16_t { internal, raw, ending, adaptor };
inline constexpr uint16_t kLastUse = 0x3FFF;

// What was asked for; a block is given back with the same numbers.
struct Request {
  uint64_t bytes = 0;
  uint64_t alignment = 0;  // a power of two; 0 and values below the resource's own count as its own
  BlockUse use = BlockUse::internal;

  bool operator==(const Request&) const = default;
};

// A block, or why there is none.
struct Allocation {
  void* data = nullptr;
  KinaStatus status = KINA_SUCCESS;
};

// How the return of a block went: not a live block of this resource and use, live but with other numbers, or done.
enum class Return : uint8_t { unknown, different, done };

// What a resource has counted. Single counters are never torn; together they are exact while no call is running.
struct ResourceCounters {
  std::atomic<uint64_t> live_bytes{0}, peak_bytes{0};
  std::atomic<uint64_t> allocations{0}, deallocations{0}, failures{0};
  std::atomic<uint64_t> leaked_bytes{0}, leaked_blocks{0};
  std::atomic<uint64_t> upstream_calls{0}, cache_hits{0};

  // Below zero: what another thread has counted is still on its way.
  void raise_peak(int64_t live) noexcept {
    uint64_t seen = peak_bytes.load(std::memory_order_relaxed);
    while (live > static_cast<int64_t>(seen) &&
           !peak_bytes.compare_exchange_weak(seen, static_cast<uint64_t>(live), std::memory_order_relaxed)) {
    }
  }
  uint64_t live_blocks() const noexcept {
    const uint64_t gone = deallocations.load(std::memory_order_relaxed);  // first: never more than there were
    return allocations.load(std::memory_order_relaxed) - gone;
  }
};

// Nothing here throws but `allocate`, and nothing is called under a lock: a resource may be the caller's own callbacks.
class Resource : public Leasable {
 public:
  Resource(Device& device, Ref<Resource> upstream, std::string name, uint64_t alignment = kStorageAlignment);

  Device& device() const noexcept { return device_; }
  Resource* upstream() const noexcept { return upstream_.get(); }
  const char* name() const noexcept { return name_.c_str(); }
  uint64_t alignment() const noexcept { return alignment_; }
  uint32_t depth() const noexcept { return depth_; }  // how many resources stand below it

  // A block on the device, ordered after the work on `stream`; NULL and SUCCESS for zero bytes.
  Allocation take(Request request, Stream& stream) noexcept;
  // Gives back what `take` gave for `request`; the bytes are free for reuse once `stream` has passed, and `uses` where
  // the resource follows them.
  Return give(void* data, Request request, Stream& stream, std::span<const Point> uses = {}) noexcept;

  // The same for storages and temporaries: throws OUT_OF_MEMORY or what the upstream refused with.
  void* allocate(uint64_t bytes, uint64_t alignment, Stream& stream);
  void deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream& stream,
                  std::span<const Point> uses = {}) noexcept;
  // Whether `give` may be told of uses on other streams, rather than the stream having to wait for them first.
  virtual bool follows_uses() const noexcept { return false; }
  // Ends a block that a device may still touch: its bytes stay out of use for good and count as leaked.
  virtual void leak(void* data, uint64_t bytes, uint64_t alignment) noexcept;
  // A live block of `request` is from here on one of `use`. Of several callers exactly one gets `done`. For requests
  // whose alignment is the one that counts.
  virtual Return change_use(void* data, const Request& request, BlockUse use) noexcept = 0;

  // This, where callers' blocks may come and go without it being asked, as long as it is told.
  virtual LoggingResource* as_logging() noexcept { return nullptr; }

  virtual bool supports_streams() const noexcept = 0;
  // What its live blocks may reach together, and how much of that is taken.
  struct Bound {
    uint64_t maximum_bytes = ~uint64_t{0};
    uint64_t taken_bytes = 0;
    bool leaves(uint64_t bytes) const noexcept {
      return bytes <= maximum_bytes && taken_bytes <= maximum_bytes - bytes;
    }
  };
  virtual Bound bound() const noexcept { return {}; }
  // Fills everything of `info` behind struct_size.
  virtual void describe(KinaResourceInfo& info) const noexcept;
  // Gives unused bytes beyond `keep_bytes` back upstream; returns how many.
  virtual uint64_t trim(uint64_t keep_bytes) noexcept { return upstream_ ? upstream_->trim(keep_bytes) : 0; }

  // Its counted handle has ended, and what the handle kept is about to be given back.
  virtual void handle_ended() noexcept {}

  void release() const noexcept {
    while (!release_one_not_of(2))
      if (release_near_end() == Ending::is_released) return;
  }

  uint64_t handle = 0;                    // the borrowed name, which lives as long as the resource; 0: not named yet
  std::atomic<bool> is_releasing{false};  // its counted handle is about to end, unless it is installed
  // Its counted handle keeps it, or it is a built-in default: neither ends while it is installed.
  std::atomic<bool> is_kept{false};

 protected:
  ~Resource() override = default;
  void last_reference_gone() const noexcept override;

  // As `take` and `give`, for more than zero bytes and with the alignment that counts.
  virtual Allocation do_take(const Request& request, Stream& stream) noexcept = 0;
  // Calls `count_given` between knowing that the block is live and giving it up.
  virtual Return do_give(void* data, const Request& request, Stream& stream) noexcept = 0;
  // The same of a resource that follows uses.
  virtual Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                               Stream& stream) noexcept {
    (void)uses;
    return do_give(data, request, stream);
  }

  // A resource that counts its blocks itself, and lives as long as it has live ones by a reference to itself.
  virtual bool has_own_account() const noexcept { return false; }
  // Called before one of the last two references goes: either gives it back, or changes who refers to it.
  enum class Ending : uint8_t { is_released, look_again };
  virtual Ending release_near_end() const noexcept {
    return release_one_of(2) ? Ending::is_released : Ending::look_again;
  }

  void count_taken(const Request& request) noexcept;
  void count_given(const Request& request) noexcept;
  void count_leaked(uint64_t bytes) noexcept;
  ResourceCounters& counters() noexcept { return counters_; }
  const ResourceCounters& counters() const noexcept { return counters_; }

 private:
  Request counted(Request request) const noexcept;

  Device& device_;
  Ref<Resource> upstream_;
  std::string name_;
  uint64_t alignment_;
  uint32_t depth_;
  ResourceCounters counters_;
};

using AllResources = TheTable<Resource, Kind::resource>;
inline HandleTable<Resource>& resources() { return AllResources::get(); }

// The resource of a live name, for the length of a call; else none.
[[gnu::always_inline]] inline Lease<Resource> look_up(const HandleTable<Resource>& table, uint64_t handle) {
  return lease<Resource>(
      t_cache == nullptr ? nullptr : &t_cache->leases, [&] { return table.find(handle); },
      [&] { return table.acquire(handle); });
}

// The same in place, where it takes no lock; else none, and the other one decides.
[[gnu::always_inline]] inline Lease<Resource> look_up_at_once(LeaseRow& leases, uint64_t handle) noexcept {
  const HandleTable<Resource>* table = AllResources::known();
  LeaseRow::Place* place = leases.free_place();
  if (table == nullptr || place == nullptr) [[unlikely]]
    return {};
  const std::atomic<uint64_t>* name = nullptr;
  Resource* named = table->find(handle, name);
  return lease_at(*place, named, [=] { return name->load(std::memory_order_acquire) == handle; });
}

// Installed is a resource that is the default of a device, or stands in a scope of a thread: then its counted handle is
// not released. Nobody counts that; a release fences all threads and looks.

// Puts a resource that a call looks at into `place`, one of those that a release looks at; false, with nothing changed,
// where it may end all the same: then the next one decides.
inline bool install_at_once(std::atomic<Resource*>& place, Resource& resource) noexcept {
  place.store(&resource, std::memory_order_relaxed);
  fence_lease();  // with the fence of a release between saying so and looking
  if (!resource.is_releasing.load(std::memory_order_acquire) && resource.is_kept.load(std::memory_order_relaxed))
      [[likely]]
    return true;
  place.store(nullptr, std::memory_order_release);
  return false;
}
// Puts the resource that `handle` names into `place`, one of those that a release looks at; into `kept` goes a
// reference where nothing else keeps it. INVALID_HANDLE, with nothing changed, where its name has ended meanwhile.
void install_resource(std::atomic<Resource*>& place, Ref<Resource>& kept, Resource& resource, uint64_t handle,
                      Argument argument);

// Held by whoever changes the default of a device.
ResidentMutex& defaults_mutex() noexcept;
// A reference to the default in force of a device; none where nobody has asked for one yet.
Ref<Resource> share_default(const Device& device) noexcept;

// Throws what a request for `bytes` was refused with.
[[noreturn]] void refuse_allocation(const char* clause, KinaStatus status, uint64_t bytes, const Resource& resource);

// Gives a resource, and what stands upstream of it, borrowed names where they have none.
void name_resource(Resource& resource);

// Gives a new resource its two names and returns the counted one, which holds the reference.
uint64_t publish_resource(Ref<Resource> resource);

enum class Release : uint8_t { stale, borrowed, busy, done };
// Ends a counted name and its reference.
Release release_resource(uint64_t handle) noexcept;

// A block for a storage, when the resource in force for work on `stream` is a pool of which the calling thread has one
// at hand; else none, with nothing changed. It keeps its resource until it is given back. Defined by impl/memory.
struct BlockAtHand {
  Resource* resource = nullptr;
  void* data = nullptr;
};
BlockAtHand take_at_hand(uint64_t bytes, const Stream& stream) noexcept;
// Gives such a block back, on any thread; false, with nothing changed, where the calling thread has the pool not open.
bool give_at_hand(void* data, uint64_t bytes) noexcept;

// The resource in force for a device on this thread: innermost push, else the device's default. Defined by impl/memory.
Ref<Resource> current_resource(Device& device);
// The same for the length of a call.
Lease<Resource> look_at_current_resource(Device& device);

}  // namespace kina
