// Life, exclusivity and failed bytes of storages.
#include "impl/core/storage.h"

#include <array>
#include <memory>
#include <span>

#include "impl/core/capture.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

// Each thread takes them in batches.
uint64_t next_id() noexcept {
  static std::atomic<uint64_t> last{0};
  if (t_cache == nullptr) return last.fetch_add(1, std::memory_order_relaxed) + 1;
  constexpr uint64_t kBatch = 1024;
  StorageIds& ids = t_cache->storage_ids;
  if (ids.last == ids.end) {
    ids.last = last.fetch_add(kBatch, std::memory_order_relaxed);
    ids.end = ids.last + kBatch;
  }
  return ++ids.last;
}

// What torn bytes carry when there was no memory to say more. Made before it can be needed.
const Ref<Claim>& torn() {
  static const Ref<Claim>& made = *new Ref<Claim>(make_counted<Claim>(Failure::make(
      KINA_ERROR_OUT_OF_MEMORY, "an operation", "it came to no end, and no host memory was left to say why")));
  return made;
}

}  // namespace

// A borrowed storage is found by the caller's address as well.
Storage::Storage(Device& device, std::byte* data, uint64_t bytes, StorageOrigin origin, Stream& stream)
    : id_(next_id()),
      device_(device),
      data_(data),
      bytes_(bytes),
      origin_(origin),
      stream_(stream),
      keepers_(origin == StorageOrigin::borrowed ? kHold | kWatched : kHold),
      maker_(origin == StorageOrigin::borrowed || t_cache == nullptr ? 0 : t_cache->maker.number()) {
  stream.gain_storage();
}

Hold Storage::allocate(uint64_t bytes, Stream& stream) {
  const BlockAtHand block = take_at_hand(bytes, stream);
  if (block.data == nullptr) [[unlikely]]
    return allocate_slowly(bytes, stream);
  try {
    Hold storage(new Storage(block.resource->device(), static_cast<std::byte*>(block.data), bytes,
                             StorageOrigin::allocated, stream));
    storage->resource_ = block.resource;
    storage->is_kept_by_block_ = true;
    return storage;
  } catch (...) {
    if (!give_at_hand(block.data, bytes))
      Ref<Resource>::share(block.resource)->deallocate(block.data, bytes, kStorageAlignment, stream);
    throw;
  }
}

Hold Storage::allocate_slowly(uint64_t bytes, Stream& stream) {
  Ref<Resource> resource = resource_for(stream);
  // The block waits in `block` until the object that gives it back exists.
  struct Block {
    Resource& resource;
    Stream& stream;
    uint64_t bytes;
    void* data;
    ~Block() { resource.deallocate(data, bytes, kStorageAlignment, stream); }
  } block{*resource, stream, bytes, resource->allocate(bytes, kStorageAlignment, stream)};
  Hold storage(
      new Storage(resource->device(), static_cast<std::byte*>(block.data), bytes, StorageOrigin::allocated, stream));
  storage->resource_ = resource.detach();
  block.data = nullptr;
  // The bytes may still be in use before the stream comes to this moment.
  const bool is_ordered = stream.device().is_asynchronous() && storage->resource_->supports_streams();
  if (is_ordered && !may_capture(stream)) storage->uses.start(now(stream));
  return storage;
}

Hold Storage::foreign(Device& device, void* data, uint64_t bytes, StorageOrigin origin, Stream& stream) {
  return Hold(new Storage(device, static_cast<std::byte*>(data), bytes, origin, stream));
}

Hold Storage::try_hold(Site site) noexcept {
  admit_all(maker_);
  uint64_t keepers = keepers_.load(std::memory_order_acquire);
  if (is_dropped(site, SiteKind::pin)) return (keepers & ~kWatched) != 0 ? Hold(this) : Hold();
  while ((keepers & ~kWatched) != 0)
    if (keepers_.compare_exchange_weak(keepers, keepers + kHold, std::memory_order_acq_rel)) return Hold(this);
  return Hold();
}

// What takes the bytes back looks at them after every use: in stream order, or when the host sees that all has run.
// False where that cannot be had.
inline bool Storage::settle_uses() noexcept { return uses.is_idle() || settle_open_uses(); }

bool Storage::settle_open_uses() noexcept {
  if (origin_ == StorageOrigin::borrowed) return true;  // its owner keeps the bytes until the streams have passed
  if (uses.is_inherited() && device_.backend().is_asynchronous()) return false;  // lost in a forked child
  const bool is_on_host = resource_ != nullptr ? !resource_->supports_streams() : is_owner_on_host_;
  const auto is_settled = [&](const Point& point) {
    OrderCalls calls;
    return (!is_on_host && try_order_after(stream_, point, calls)) || try_wait_for(point);
  };
  const std::lock_guard lock(uses);
  bool are_all = true;
  uses.each([&](const Point& point) { are_all = is_settled(point) && are_all; });
  return are_all;
}

// Weak references keep this object, not the resource. A block that keeps its resource does so until it is given back.
Ref<Resource> Storage::leave_resource() noexcept {
  Resource* resource = std::exchange(resource_, nullptr);
  return is_kept_by_block_ ? Ref<Resource>::share(resource) : Ref<Resource>::adopt(resource);
}

inline void Storage::give_back() noexcept {
  const bool is_usual = is_kept_by_block_ && uses.is_idle() && !is_abandoned_.load(std::memory_order_acquire);
  if (is_usual && give_at_hand(data_, bytes_)) [[likely]] {
    resource_ = nullptr;
  } else {
    give_back_slowly();
  }
}

void Storage::give_back_slowly() noexcept {
  const bool is_told = resource_->follows_uses() && !uses.is_idle() && !uses.is_inherited();
  if (is_told && !is_abandoned_.load(std::memory_order_acquire)) return give_back_after_uses();
  const bool is_settled = settle_uses() && !is_abandoned_.load(std::memory_order_acquire);
  const Ref<Resource> resource = leave_resource();
  if (is_settled) {
    resource->deallocate(data_, bytes_, kStorageAlignment, stream_);
  } else {
    resource->leak(data_, bytes_, kStorageAlignment);
  }
}

// The resource is told of uses on other streams, so that nobody waits for them before the bytes are needed again.
void Storage::give_back_after_uses() noexcept {
  std::array<Point, 4> others;
  size_t count = 0;
  {
    const std::lock_guard lock(uses);
    uses.each([&](const Point& point) {
      if (point.stream == &stream_) return;
      if (count < others.size()) others[count] = point;
      ++count;
    });
  }
  const bool is_settled = count <= others.size() || settle_uses();
  const Ref<Resource> resource = leave_resource();
  if (!is_settled) return resource->leak(data_, bytes_, kStorageAlignment);
  const std::span<const Point> told(others.data(), count <= others.size() ? count : 0);
  resource->deallocate(data_, bytes_, kStorageAlignment, stream_, told);
}

// Before the owner is called: it may end the native stream then.
void Storage::give_to_owner() noexcept {
  settle_uses();
  if (!is_owner_on_host_) Service::end(stream_);
}

inline void Storage::return_bytes() {
  if (resource_ != nullptr) {
    give_back();
  } else {
    give_to_owner();
  }
  stream_.lose_storage();
  if (owner_.release != nullptr) owner_.release(owner_.context);
}

void Storage::leave(uint64_t keeper) {
  if ((keepers_.fetch_sub(keeper, std::memory_order_acq_rel) & ~kWatched) != keeper) return;
  const Ref<Storage> last = Ref<Storage>::adopt(this);
  return_bytes();
}

// By the only hold, with nobody who watches and no pin: nobody else can come by the object any more, and what others
// did before they let go of it was acquired with that knowledge. Nothing has to be counted.
void Storage::end_alone() {
  struct Last {
    Storage* storage;
    ~Last() { delete storage; }
  } const last{this};
  return_bytes();
}

void Storage::end(Condition* condition) noexcept { delete condition; }

Condition& Storage::condition() {
  Condition* known = condition_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<Condition>();
  return condition_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel) ? *made.release() : *known;
}

FailedRange Storage::failure_in(const View& view, Look look) const {
  if (is_clean()) [[likely]]
    return {};
  return condition_.load(std::memory_order_acquire)->failure_in(Runs(view, data_), look);
}

void Storage::mark_failed(const View& view, const Ref<Claim>& claim) { condition().mark(Runs(view, data_), claim); }

MarkRoom Storage::provide(const View& view) {
  if (Condition* known = condition_.load(std::memory_order_acquire)) return known->promise_room(Runs(view, data_));
  std::unique_ptr<Condition>& spare = demand_thread_block().spare;
  if (spare) [[likely]]
    return {};
  torn();
  auto made = std::make_unique<Condition>();
  made->promise_room(Runs(0, 1)).use();  // the hull is one run
  spare = std::move(made);
  return {};
}

void Storage::tear(const View& view, MarkRoom room) noexcept {
  try {
    Condition* known = condition_.load(std::memory_order_acquire);
    std::unique_ptr<Condition>& spare = demand_thread_block().spare;
    const bool has_spare =
        known == nullptr && spare && condition_.compare_exchange_strong(known, spare.get(), std::memory_order_acq_rel);
    if (has_spare) known = spare.release();
    if (known == nullptr) return;  // nothing was provided
    const Hull hull = hull_of(view);
    const auto base = reinterpret_cast<uint64_t>(data_);
    const Runs bytes(hull.first - base, hull.last - base);
    const size_t promised = has_spare ? FailureMap::kRoomOfRun : room.use();
    promised != 0 ? known->mark(bytes, torn(), promised) : known->mark(bytes, torn());
  } catch (...) {
    return;
  }
}

void Storage::write(const View& view, const Ref<Doubt>& doubt, MarkRoom room) {
  if (is_clean() && !doubt) [[likely]]
    return;
  condition().write(Runs(view, data_), doubt, room.use());
}

MarkRoom Storage::prepare_write(const View& view, Doubts& doubts) {
  return doubts.is_empty() ? MarkRoom() : condition().prepare_write(Runs(view, data_), doubts);
}

void Storage::hand_on(const View& view, Doubts& doubts) const {
  if (is_clean()) [[likely]]
    return;
  condition_.load(std::memory_order_acquire)->hand_on(Runs(view, data_), doubts);
}

void Storage::hand_on_recorded(const View& view, Doubts& doubts) const {
  if (Condition* known = condition_.load(std::memory_order_acquire))
    known->recording().hand_on(Runs(view, data_), doubts);
}

MarkRoom Storage::prepare_recorded_write(const View& view, Doubts& doubts, uint64_t capture) {
  if (condition_.load(std::memory_order_acquire) == nullptr && doubts.is_empty()) return {};
  Condition& known = condition();
  const size_t promised = known.recording().prepare_write(Runs(view, data_), doubts, capture);
  return {known, MarkRoom::Of::recorded_doubts, promised};
}

void Storage::write_recorded(const View& view, const Ref<Doubt>& doubt, MarkRoom room) {
  if (Condition* known = condition_.load(std::memory_order_acquire))
    known->recording().write(Runs(view, data_), doubt, room.use());
}

void Storage::collect_replays(const char* function, Stream& stream) {
  if (Condition* known = condition_.load(std::memory_order_acquire)) known->collect_replays(function, stream);
}

bool Storage::clear_failed(const View& view) {
  if (failure_in(view, Look::all).claim) return condition().clear(Runs(view, data_));
  return false;
}

// The view was checked, so that neither product leaves 64 bits; a borrowed one may say that it reaches further than
// half of all addresses.
Hull hull_of(const View& view) noexcept {
  if (view.geometry.is_empty()) return {};
  const Span span = span_of(view.geometry);
  const auto element = static_cast<int64_t>(bytes_of(view.dtype));
  const auto address = reinterpret_cast<uint64_t>(view.data);
  return {address + static_cast<uint64_t>(span.low * element),
          address + static_cast<uint64_t>((span.high + 1) * element)};
}

}  // namespace kina
