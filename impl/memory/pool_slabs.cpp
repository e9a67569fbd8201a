// How a pool cuts slabs, finds free bytes of any stream, and makes free pieces of slabs that nobody uses.
#include <new>

#include "impl/core/capture.h"
#include "impl/core/device.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

// Until a size was asked for so often its blocks come one by one from the arena, so that small pools are packed
// exactly; and until a slab of the size was so often not to be had.
constexpr uint8_t kDemand = 8;
// The same where another stream has room for one, which growing keeps from being used, but which nobody may have at
// once.
constexpr uint8_t kShortage = 64;
// Where a slab can lie beside no other one it takes a place where others can follow.
constexpr uint32_t kLooksForSlabs = 64;
constexpr uint64_t kRoomForSlabs = uint64_t{256} * 1024;

// Adds a moment to what the next user of the slab runs after; false where that cannot be had.
bool add_point(Slab& slab, const Point& point, OrderCalls& calls) noexcept {
  Stamp& stamp = slab.stamp;
  if (!slab.points) {
    slab.points = Ref<Points>::adopt(new (std::nothrow) Points);
    if (!slab.points) return false;
    if (stamp.stream != nullptr) slab.points->add({stamp.stream, stamp.position}, calls);
    stamp = {Stamp::kPoints, 0, nullptr, slab.points};
  }
  return slab.points->add(point, calls);
}

bool add_lane(Slab& slab, const Lane& lane, uint64_t position, OrderCalls& calls) noexcept {
  Stamp& stamp = slab.stamp;
  if (lane.stream() == nullptr) return true;
  if (slab.points || (stamp.stream != nullptr && stamp.stream != lane.stream()))
    return add_point(slab, {lane.stream(), position}, calls);
  stamp = {lane.shelf(), std::max(stamp.position, position), lane.stream(), nullptr};
  return true;
}

bool is_free(const Slab& slab) noexcept { return slab.free_count == slab.count() && !slab.is_stuck; }

// Calls f(block, position) for every block of the lane's batches.
template <class F>
void for_each_block(const Lane& lane, F&& f) {
  for (Block* first : lane.gathered)
    for (; first != nullptr; first = first->next_batch.load(std::memory_order_relaxed))
      for (Block* block = first; block != nullptr; block = block->next) f(*block, first->batch_position());
}

}  // namespace

Lane* PoolResource::lane_of(Stream& stream) noexcept {
  if (!is_ordered_) return &home_;
  const auto key = reinterpret_cast<uint64_t>(&stream);
  if (Lane** known = lanes_.find(key)) return *known;
  if (arena_.shelves() > Block::kShelfMask || !lanes_.reserve_one() || !arena_.add_shelf(&stream)) return nullptr;
  Lane* made = new (std::nothrow) Lane(&stream, arena_.shelves() - 1);
  if (made == nullptr) return nullptr;
  made->next = std::exchange(first_lane_, made);
  ++lane_count_;
  table_bytes_.add(sizeof(Lane));
  lanes_.insert(key, made);
  return made;
}

Block* PoolResource::cut_slab(uint32_t size_class, Lane& lane) noexcept {
  if (demand_[size_class] < kDemand) {
    ++demand_[size_class];
    return nullptr;
  }
  // Twice as large each time, as far as there is room: small pools hold slabs of many sizes. Where there is room for
  // more, each stream begins with small ones.
  const uint32_t least = sizes_.least_blocks_of_slab(size_class);
  const uint32_t doublings = slab_counts_[size_class] / (is_bounded() ? 1 : std::max(lane_count_, 1U));
  uint32_t blocks = std::min(least << std::min(doublings, 8U), sizes_.most_blocks_of_slab(size_class));
  void* base = take_among_slabs(slab_request(size_class, blocks), lane.shelf());
  while (base == nullptr && (base = take_at_once(slab_request(size_class, blocks), lane.shelf())) == nullptr &&
         blocks > least)
    blocks = std::max(least, blocks / 2);
  if (base == nullptr && is_ordered_ && !may_capture(*lane.stream())) {
    blocks = least;
    base = take_in_known_order(slab_request(size_class, blocks), lane);
  }
  uint8_t& shortage = shortages_[size_class];
  if (base == nullptr) {
    const uint8_t before = shortage;
    if (before < kShortage) ++shortage;
    if (before + 1 == kDemand && !has_elsewhere(slab_request(size_class, least), lane)) shortage = kShortage;
    return nullptr;
  }
  shortage = 0;
  Slab* slab = Slab::make(serial_, base, size_class, blocks, sizes_);
  if (slab == nullptr) {
    arena_.give(base, slab_request(size_class, blocks), lane.stamp());
    return nullptr;
  }
  ++slab_counts_[size_class];
  slab->next = std::exchange(slabs_, slab);
  slab->free_count = 0;
  slab_bytes_ += slab->bytes();
  table_bytes_.add(slab->metadata_bytes());
  return slab->blocks();
}

bool PoolResource::has_elsewhere(const Request& request, const Lane& here) const noexcept {
  for (uint32_t shelf = Stamp::kPoints; shelf < arena_.shelves(); ++shelf)
    if (shelf != here.shelf() && arena_.can_take(request, shelf)) return true;
  return false;
}

// Of no cache, so that whoever gives it back reunites it.
void* PoolResource::take_apart(const Request& request, const Lane& here) noexcept {
  uint32_t count = 0;
  Block* block = is_cut_from_slab(request) ? apart_.take(slabs_, sizes_.class_of(request.bytes), 1, count) : nullptr;
  if (block == nullptr) return nullptr;
  block->take(request, here.shelf(), 0);
  return block->address();
}

// Free pieces that hold a block but no slab would have threads come here for every block, one at a time.
bool PoolResource::is_short_of_slabs(const Request& request) const noexcept {
  return !is_bounded() && !was_refused_ && is_cut_from_slab(request) &&
         shortages_[sizes_.class_of(request.bytes)] == kShortage;
}

void PoolResource::grow_for_slabs(uint32_t size_class, Stream& stream, Lock& lock) noexcept {
  shortages_[size_class] = 0;
  const Request least = slab_request(size_class, sizes_.least_blocks_of_slab(size_class));
  const Step step = next_step(least.bytes, false);
  if (step.kind == Step::Kind::grow) grow(step.bytes, alignment(), stream, lock);
}

// Slabs stay for long. One here and one there would cut the room for large blocks to pieces.
void* PoolResource::take_among_slabs(const Request& request, uint32_t shelf) noexcept {
  uint32_t looks = kLooksForSlabs;
  for (Slab* slab = slabs_; slab != nullptr && looks > 0; slab = slab->next, --looks)
    if (void* data = arena_.take_behind(slab->base(), request, shelf)) return data;
  return arena_.take(request, shelf, shelf, kRoomForSlabs);
}

void* PoolResource::take_at_once(const Request& request, uint32_t shelf) noexcept {
  void* data = arena_.has_pieces(shelf) ? arena_.take(request, shelf, shelf) : nullptr;
  const bool is_over = data != nullptr || shelf == Stamp::kNothing || !arena_.has_pieces(Stamp::kNothing);
  return is_over ? data : arena_.take(request, Stamp::kNothing, shelf);
}

template <class F>
void* PoolResource::search_lanes(const Request& request, Lane& here, F&& can_follow) noexcept {
  if (is_cut_from_slab(request)) {
    const uint32_t size_class = sizes_.class_of(request.bytes);
    for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
      Block* block = lane == &here ? nullptr : lane->take_one(size_class, can_follow);
      if (block == nullptr) block = lane->take_used(size_class, can_follow);
      if (block == nullptr) continue;
      block->take(request, here.shelf(), 0);
      return block->address();
    }
  }
  for (uint32_t shelf = Stamp::kPoints; shelf < arena_.shelves(); ++shelf) {
    if (shelf == here.shelf()) continue;
    if (void* data = arena_.take_after(request, shelf, here.shelf(), can_follow)) return data;
  }
  return nullptr;
}

void* PoolResource::take_in_known_order(const Request& request, Lane& here) noexcept {
  const Stream& stream = *here.stream();
  return search_lanes(request, here, [&](const Point& point) { return is_ordered(stream, point); });
}

void* PoolResource::search(const Request& request, Lane& here, bool has_collected, bool& is_hit) noexcept {
  if (is_cut_from_slab(request)) {
    const uint32_t size_class = sizes_.class_of(request.bytes);
    const auto at_once = [](const Point&) { return true; };
    Block* block = here.take_one(size_class, at_once);
    if (block == nullptr && &here != &home_) block = home_.take_one(size_class, at_once);
    if (block != nullptr) {
      block->take(request, here.shelf(), 0);
      return block->address();
    }
  }
  if (void* data = take_at_once(request, here.shelf())) return data;
  if (!is_ordered_) return nullptr;
  Stream& stream = *here.stream();
  if (may_capture(stream)) return nullptr;  // a graph runs at times that no order is known of
  OrderCalls calls;
  const auto is_known = [&](const Point& point) {
    return is_ordered(stream, point) || (plan_.is_opportunistic && is_seen_over(point, calls));
  };
  const auto follow = [&](const Point& point) { return try_order_after(stream, point, calls); };
  void* data = search_lanes(request, here, is_known);
  if (data == nullptr) {
    data = search_lanes(request, here, follow);
    is_hit = is_hit && data == nullptr;
  }
  if (const Arena::Run run = data == nullptr && has_collected ? arena_.find_run(request) : Arena::Run()) {
    if (arena_.all(run, follow)) {
      arena_.join(run, here.stamp());
      data = arena_.take(request, here.shelf(), here.shelf());
    }
  }
  count(calls);
  return data;
}

void PoolResource::collect(Lock& lock) noexcept {
  lock.unlock();
  const uint64_t allocations = flush_caches();
  lock = enter();
  collected_at_ = allocations;
  collected_blocks_ = 0;
  idle_slab_bytes_ = 0;
  if (slabs_ == nullptr) return;
  for (uint32_t i = 0; i < SizeClasses::kCount; ++i)
    while (apart_.lay_next(home_, i, sizes_.batch_of(i))) {
    }
  for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
    lane->mutex.lock();
    lane->gather();
  }
  count_free_blocks();
  note_stamps();
  drop_blocks_of_free_slabs();
  for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
    lane->scatter();
    lane->mutex.unlock();
  }
  end_free_slabs();
}

void PoolResource::count_free_blocks() noexcept {
  for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
    for_each_block(*lane, [this](const Block& block, uint64_t) {
      ++Slab::find(block.address())->free_count;
      ++collected_blocks_;
    });
    for (const UsedBlock* used = lane->used; used != nullptr; used = used->next)
      ++Slab::find(used->block->address())->free_count;
  }
  // These may become whole fours meanwhile, but only by a block that is not counted.
  for (Slab* slab = slabs_; slab != nullptr; slab = slab->next) slab->free_count += slab->count_apart();
}

void PoolResource::note_stamps() noexcept {
  OrderCalls calls;
  for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
    for_each_block(*lane, [&](const Block& block, uint64_t position) {
      Slab& slab = *Slab::find(block.address());
      if (is_free(slab) && !add_lane(slab, *lane, position, calls)) slab.is_stuck = true;
    });
    for (const UsedBlock* used = lane->used; used != nullptr; used = used->next) {
      Slab& slab = *Slab::find(used->block->address());
      for (const Point& point : used->points->list())
        if (is_free(slab) && !add_point(slab, point, calls)) slab.is_stuck = true;
    }
  }
  count(calls);
}

void PoolResource::drop_blocks_of_free_slabs() noexcept {
  for (Lane* lane = first_lane_; lane != nullptr; lane = lane->next) {
    for (Block*& batches : lane->gathered) {
      for (Block* first = std::exchange(batches, nullptr); first != nullptr;) {
        Block* following = first->next_batch.load(std::memory_order_relaxed);
        const uint64_t position = first->batch_position();
        Block* kept = nullptr;
        uint32_t count = 0;
        for (Block* block = first; block != nullptr;) {
          Block* next = block->next;
          if (!is_free(*Slab::find(block->address()))) {
            block->next = std::exchange(kept, block);
            ++count;
          }
          block = next;
        }
        if (kept != nullptr) {
          kept->start_batch(count, position);
          kept->next_batch.store(std::exchange(batches, kept), std::memory_order_relaxed);
        }
        first = following;
      }
    }
    for (UsedBlock** at = &lane->used; *at != nullptr;) {
      if (is_free(*Slab::find((*at)->block->address()))) {
        const std::unique_ptr<UsedBlock> dropped(std::exchange(*at, (*at)->next));
      } else {
        at = &(*at)->next;
      }
    }
  }
}

void PoolResource::end_free_slabs() noexcept {
  for (Slab** at = &slabs_; *at != nullptr;) {
    Slab& slab = **at;
    if (!is_free(slab)) {
      idle_slab_bytes_ += slab.free_count * sizes_.bytes_of(slab.size_class());
      slab.free_count = 0;
      slab.is_stuck = false;
      slab.stamp = {};
      slab.points = nullptr;
      at = &slab.next;
      continue;
    }
    *at = slab.next;
    slab_bytes_ -= slab.bytes();
    table_bytes_.subtract(slab.metadata_bytes());
    demand_[slab.size_class()] = 0;
    --slab_counts_[slab.size_class()];
    slab.free_count = 0;
    apart_.forget(slab);
    arena_.give(slab.base(), slab_request(slab.size_class(), slab.count()), slab.stamp);
    slab.end();
  }
}

}  // namespace kina
