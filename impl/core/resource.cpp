// Names, counters and the common half of every resource.
#include "impl/core/resource.h"

#include <algorithm>

#include "impl/core/device.h"
#include "impl/core/lasting.h"
#include "impl/core/mutex.h"
#include "impl/core/order.h"
#include "impl/core/scope.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Held by a release that decides whether the resource is installed. Nothing is called under it.
Mutex& release_mutex() noexcept {
  static Lasting<Mutex> mutex;
  return *mutex;
}

// Names the bound that is in the way, where one of the resources that a request passes has such a bound.
Error out_of_memory(uint64_t bytes, const Resource& resource) {
  constexpr const char* kClause = "KINA-STATUS-44";
  Error error = make_error<Message::out_of_memory>(kClause, {}, bytes, resource.name());
  for (const Resource* passed = &resource; passed != nullptr; passed = passed->upstream()) {
    const Resource::Bound bound = passed->bound();
    if (bound.leaves(bytes)) continue;
    error =
        make_error<Message::limit_reached>(kClause, {}, bytes, bound.taken_bytes, bound.maximum_bytes, passed->name());
    break;
  }
  error.requested_bytes = bytes;
  return error;
}

}  // namespace

void refuse_allocation(const char* clause, KinaStatus status, uint64_t bytes, const Resource& resource) {
  if (status == KINA_ERROR_OUT_OF_MEMORY) throw out_of_memory(bytes, resource);
  if (status == KINA_ERROR_DEVICE_LOST) refuse<Message::resource_device_lost>(clause, {}, resource.name());
  refuse<Message::resource_device>(clause, {}, resource.name());
}

Resource::Resource(Device& device, Ref<Resource> upstream, std::string name, uint64_t alignment)
    : device_(device),
      upstream_(std::move(upstream)),
      name_(std::move(name)),
      alignment_(alignment),
      depth_(upstream_ ? upstream_->depth_ + 1 : 0) {}

void Resource::last_reference_gone() const noexcept {
  if (handle != 0) resources().end_name(handle);
  Leasable::last_reference_gone();
}

Request Resource::counted(Request request) const noexcept {
  request.alignment = std::max(request.alignment, alignment_);
  return request;
}

Allocation Resource::take(Request request, Stream& stream) noexcept {
  if (request.bytes == 0) return {};
  const Request wanted = counted(request);
  const bool is_raw = wanted.use == BlockUse::raw;
  if (is_raw && !try_retain()) return {nullptr, KINA_ERROR_INVALID_HANDLE};  // ended since the call looked
  const Allocation made = do_take(wanted, stream);
  if (made.status != KINA_SUCCESS) counters_.failures.fetch_add(1, kRelaxed);
  const bool is_counted = made.status == KINA_SUCCESS && !has_own_account();
  if (is_counted) count_taken(wanted);
  if (is_raw && !is_counted) release();
  return made;
}

Return Resource::give(void* data, Request request, Stream& stream, std::span<const Point> uses) noexcept {
  if (data == nullptr && request.bytes == 0) return Return::done;
  const bool is_raw = request.use == BlockUse::raw;
  if (is_raw && has_own_account() && !try_retain()) return Return::unknown;  // ended: it has no live blocks
  const Return answer =
      uses.empty() ? do_give(data, counted(request), stream) : do_give_after(uses, data, counted(request), stream);
  if (is_raw && (answer == Return::done || has_own_account())) release();
  return answer;
}

void* Resource::allocate(uint64_t bytes, uint64_t alignment, Stream& stream) {
  const Allocation made = take({bytes, alignment, BlockUse::internal}, stream);
  if (made.status != KINA_SUCCESS) [[unlikely]]
    refuse_allocation("KINA-RESOURCE-63", made.status, bytes, *this);
  return made.data;
}

void Resource::deallocate(void* data, uint64_t bytes, uint64_t alignment, Stream& stream,
                          std::span<const Point> uses) noexcept {
  if (data != nullptr) give(data, {bytes, alignment, BlockUse::internal}, stream, uses);
}

void Resource::leak(void* data, uint64_t bytes, uint64_t alignment) noexcept {
  if (data == nullptr) return;
  count_given(counted({bytes, alignment, BlockUse::internal}));
  count_leaked(bytes);
}

void Resource::count_taken(const Request& request) noexcept {
  const uint64_t live = counters_.live_bytes.fetch_add(request.bytes, kRelaxed) + request.bytes;
  counters_.raise_peak(static_cast<int64_t>(live));
  counters_.allocations.fetch_add(1, kRelaxed);
}

void Resource::count_given(const Request& request) noexcept {
  counters_.live_bytes.fetch_sub(request.bytes, kRelaxed);
  counters_.deallocations.fetch_add(1, kRelaxed);
}

void Resource::count_leaked(uint64_t bytes) noexcept {
  counters_.leaked_bytes.fetch_add(bytes, kRelaxed);
  counters_.leaked_blocks.fetch_add(1, kRelaxed);
}

void Resource::describe(KinaResourceInfo& info) const noexcept {
  info.device_type = device_.type();
  info.device_id = device_.id();
  info.supports_streams = supports_streams() ? 1 : 0;
  info.upstream = upstream_ ? handle_of<KinaResource>(upstream_->handle) : nullptr;
  info.name = name();
  info.alignment = alignment_;
  info.live_bytes = counters_.live_bytes.load(kRelaxed);
  info.peak_bytes = counters_.peak_bytes.load(kRelaxed);
  info.live_blocks = counters_.live_blocks();
  info.leaked_bytes = counters_.leaked_bytes.load(kRelaxed);
  info.leaked_blocks = counters_.leaked_blocks.load(kRelaxed);
  info.reserved_bytes = info.live_bytes + info.leaked_bytes;
  info.allocations = counters_.allocations.load(kRelaxed);
  info.deallocations = counters_.deallocations.load(kRelaxed);
  info.failures = counters_.failures.load(kRelaxed);
  info.upstream_calls = counters_.upstream_calls.load(kRelaxed);
  info.cache_hits = counters_.cache_hits.load(kRelaxed);
}

void install_resource(std::atomic<Resource*>& place, Ref<Resource>& kept, Resource& resource, uint64_t handle,
                      Argument argument) {
  if (install_at_once(place, resource)) [[likely]]
    return;
  const std::lock_guard lock(release_mutex());  // until it is decided
  const bool is_live = resources().find(handle) == &resource;
  if (is_live && !resource.is_kept.load(kRelaxed)) kept = Ref<Resource>::try_share(&resource);
  require<Message::stale_handle>(is_live && (kept || resource.is_kept.load(kRelaxed)), "KINA-STATUS-26", argument,
                                 argument.name, word_of(Kind::resource));
  place.store(&resource, kRelaxed);
}

ResidentMutex& defaults_mutex() noexcept {
  static Lasting<ResidentMutex> mutex;
  return *mutex;
}

// In force under both locks it is kept: by its counted handle, which ends under the one, or as `kept_default`.
Ref<Resource> share_default(const Device& device) noexcept {
  const std::lock_guard release_lock(release_mutex());
  const std::lock_guard lock(defaults_mutex());
  return Ref<Resource>::try_share(device.default_in_force.load(std::memory_order_acquire));
}

void name_resource(Resource& resource) {
  for (Resource* each = &resource; each != nullptr && each->handle == 0; each = each->upstream())
    each->handle = resources().insert(each);
}

uint64_t publish_resource(Ref<Resource> resource) {
  name_resource(*resource);
  const uint64_t counted = resources().insert(resource.get());
  resource->is_kept.store(true, kRelaxed);
  resource.detach();  // the counted name's reference
  return counted;
}

namespace {

Release try_release(uint64_t handle) noexcept {
  Ref<Resource> resource;
  {
    const std::lock_guard lock(release_mutex());
    resource = resources().acquire(handle);
    if (!resource) return Release::stale;
    if (resource->handle == handle) return Release::borrowed;
    resource->is_releasing.store(true, std::memory_order_seq_cst);
    fence_all_threads_surely();
    const bool is_installed = is_in_scope(*resource) ||  // first, as from there it becomes a default
                              resource->device().default_in_force.load(std::memory_order_acquire) == resource.get();
    const bool is_live = is_installed || resources().end_name(handle) != nullptr;
    if (!is_installed) resource->is_kept.store(false, kRelaxed);
    resource->is_releasing.store(false, std::memory_order_release);
    if (is_installed) return Release::busy;
    if (!is_live) return Release::stale;
  }
  resource->handle_ended();
  resource->release();  // the counted name's reference; `resource` is the last one if nothing else needs it
  return Release::done;
}

}  // namespace

Release release_resource(uint64_t handle) noexcept {
  const Release answer = try_release(handle);
  return answer == Release::busy && end_dead_threads() ? try_release(handle) : answer;
}

}  // namespace kina
