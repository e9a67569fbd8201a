// How blocks go out of a thread's cache and come back to it.
#include <new>

#include "impl/core/device.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

using CacheLock = std::lock_guard<OwnersLock>;

}  // namespace

// On streams that the caller uses by itself as well more is asked of a call than a cache knows.
bool PoolResource::is_ordinary(const PoolCache& cache) const noexcept {
  if (!is_ordered_) return true;
  return !cache.current->lane.stream()->timeline.has_foreign_work.load(std::memory_order_acquire) && !is_lost();
}

void* PoolResource::take_at_hand(PoolCache& cache, uint64_t bytes, uint64_t alignment) noexcept {
  if (!is_ordinary(cache)) [[unlikely]]
    return nullptr;
  return serve(cache, {bytes, std::max(alignment, this->alignment()), BlockUse::raw}, Reach::known_order);
}

bool PoolResource::give_at_hand(PoolCache& cache, void* data, uint64_t bytes, uint64_t alignment) noexcept {
  const Request request{bytes, std::max(alignment, this->alignment()), BlockUse::raw};
  Return answer = Return::unknown;
  return is_ordinary(cache) && put_back(cache, data, request, answer) && answer == Return::done;
}

Allocation PoolResource::do_take(const Request& request, Stream& stream) noexcept {
  {
    PoolCache* cache = enter_cache();
    if (cache == nullptr) return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
    const CacheLock lock(cache->lock, std::adopt_lock);
    if (!select(*cache, stream)) return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
    if (void* data = serve(*cache, request, Reach::own)) return {data, KINA_SUCCESS};
    settle_peak(*cache);
  }
  return take_slowly(request, stream);
}

// Nobody waits: whoever is given the bytes next runs after what is under way on them now.
Return PoolResource::do_give_after(std::span<const Point> uses, void* data, const Request& request,
                                   Stream& stream) noexcept {
  PoolCache* cache = enter_cache();
  if (cache == nullptr) return give_without_cache(uses, data, request, stream);
  const CacheLock lock(cache->lock, std::adopt_lock);
  StreamCache* here = select(*cache, stream) ? cache->current : nullptr;
  Return answer = Return::unknown;
  const bool is_usual = here != nullptr && uses.empty() && !is_lost();
  if (!is_usual || !put_back(*cache, data, request, answer))
    answer = put_back_after(uses, cache, here, data, request, stream);
  return answer;
}

bool PoolResource::is_lost() const noexcept { return is_ordered_ && device().backend().is_lost(device().id()); }

// Small blocks may come from the arena as well.
bool PoolResource::is_of_slab(const void* data, const Request& request) const noexcept {
  Slab* slab = nullptr;
  return is_cut_from_slab(request) && find_block(data, slab) != nullptr;
}

void* PoolResource::serve(PoolCache& cache, const Request& request, Reach reach) noexcept {
  StreamCache& here = *cache.current;
  if (is_cut_from_slab(request)) {
    const uint32_t size_class = sizes_.class_of(request.bytes);
    Block* block = here.magazines[size_class].pop();
    if (block == nullptr) [[unlikely]]
      block = refill(here, size_class);
    if (block != nullptr) {
      block->take(request, here.lane.shelf(), here.number);
      if (cache.counters.taken(request.bytes)) [[unlikely]]
        fold_bytes(cache);
      return block->address();
    }
  }
  const ResidentLock lock(mutex_, cache.residence);
  renew_in_child();
  if (is_short_of_slabs(request)) return nullptr;
  void* data = take_at_once(request, here.lane.shelf());
  if (data == nullptr && is_ordered_ && reach == Reach::known_order) data = take_in_known_order(request, here.lane);
  if (data == nullptr) return nullptr;
  const bool is_counted_here = is_of_slab(data, request);
  if (!is_counted_here) add_arena_bytes(&cache, request.bytes);
  if (cache.counters.taken(is_counted_here ? request.bytes : 0)) [[unlikely]]
    fold_bytes(cache);
  return data;
}

Block* PoolResource::refill(StreamCache& here, uint32_t size_class) noexcept {
  Magazine& magazine = here.magazines[size_class];
  uint32_t count = 0;
  Block* batch = here.lane.take(size_class, count);
  if (batch == nullptr && is_ordered_) batch = home_.take(size_class, count);
  while (batch == nullptr && apart_.lay_next(here.lane, size_class, magazine.limit))
    batch = here.lane.take(size_class, count);
  if (batch == nullptr) batch = find_batch(here, size_class, count);
  if (batch == nullptr) return nullptr;
  magazine.loaded = batch;
  magazine.count = static_cast<uint16_t>(count);
  return magazine.pop();
}

// Of a new slab, whose other batches go to the lane. Where there is none what lies apart or is others', but threads
// would write the same lines from then on: so the pool grows before that, unless more lies apart than they may have at
// hand.
Block* PoolResource::find_batch(StreamCache& here, uint32_t size_class, uint32_t& count) noexcept {
  Magazine& magazine = here.magazines[size_class];
  Block* batch = nullptr;
  {
    const Lock lock = enter();
    const uint64_t at_hand = uint64_t{2} * magazine.limit * open_caches_.load(std::memory_order_relaxed);
    if (apart_.count(size_class) > at_hand) batch = apart_.take(slabs_, size_class, magazine.limit, count);
    if (batch == nullptr) batch = cut_slab(size_class, here.lane);
    if (batch == nullptr && !is_ordered_ && may_grow(sizes_.bytes_of(size_class))) return nullptr;
    if (batch == nullptr) batch = apart_.take(slabs_, size_class, magazine.limit, count);
  }
  if (batch == nullptr) {
    count = std::exchange(magazine.foreign_count, uint16_t{0});
    return std::exchange(magazine.foreign, nullptr);
  }
  const uint64_t position = here.lane.position();
  while (true) {
    Block* last = batch;
    for (count = 1; count < magazine.limit && last->next != nullptr; ++count) last = last->next;
    Block* rest = std::exchange(last->next, nullptr);
    if (rest == nullptr) return batch;
    here.lane.put(size_class, batch, count, position);
    batch = rest;
  }
}

Block* PoolResource::find_block(const void* data, Slab*& slab) const noexcept {
  slab = Slab::find(data);
  return slab == nullptr || slab->pool() != serial_ ? nullptr : slab->block_at(data);
}

Return PoolResource::change_use(void* data, const Request& request, BlockUse use) noexcept {
  Slab* slab = nullptr;
  if (Block* block = find_block(data, slab))
    return request.alignment == alignment() ? block->change_use(request, use) : block->refuse(request.use);
  const Lock lock = enter();
  return arena_.change_use(data, request, use);
}

Return PoolResource::end_block(Block& block, const Request& request, uint32_t& cache) const noexcept {
  return request.alignment == alignment() ? block.give(request, cache) : block.refuse(request.use);
}

// Whoever gave the bytes up before a block was taken is waited for by the stream that took it. A block may be given up
// on another one, which nobody has to order after that.
bool PoolResource::put_back(PoolCache& cache, void* data, const Request& request, Return& answer) noexcept {
  StreamCache& here = *cache.current;
  Slab* slab = nullptr;
  Block* block = request.bytes > SizeClasses::kLargest ? nullptr : find_block(data, slab);
  if (block != nullptr) {
    if (is_ordered_ && block->shelf() != here.lane.shelf()) return false;
    uint32_t number = 0;
    answer = end_block(*block, request, number);
    if (answer != Return::done) return true;
    keep(here, *block, slab->size_class(), number);
    count_given(&cache, request.bytes);
    return true;
  }
  const Stamp stamp = here.lane.stamp();
  const ResidentLock lock(mutex_, cache.residence);
  renew_in_child();
  if (is_ordered_ && arena_.taker_of(data) != here.lane.shelf()) return false;
  answer = arena_.give(data, request, stamp);
  if (answer == Return::unknown) return false;  // a block of a slab, perhaps
  if (answer != Return::done) return true;
  remove_arena_bytes(&cache, request.bytes);
  count_given(&cache, 0);
  return true;
}

Stream* PoolResource::taker_of(const void* data) noexcept {
  if (!is_ordered_) return nullptr;
  Slab* slab = nullptr;
  const Block* block = find_block(data, slab);
  const Lock lock = enter();
  return arena_.stream_of(block == nullptr ? arena_.taker_of(data) : block->shelf());
}

void PoolResource::keep(StreamCache& here, Block& block, uint32_t size_class, uint32_t taker) noexcept {
  Magazine& magazine = here.magazines[size_class];
  const bool is_foreign = taker != here.number;
  if (magazine.keep(block, is_foreign)) return;
  if (is_foreign) {
    reunite(here, size_class, magazine.foreign, magazine.foreign_count);
  } else {
    pass_on(here, size_class, magazine.spare, magazine.spare_count);
  }
  magazine.keep(block, is_foreign);
}

void PoolResource::pass_on(StreamCache& here, uint32_t size_class, Block*& batch, uint16_t& count) noexcept {
  if (batch != nullptr) here.lane.put(size_class, batch, count, here.lane.position());
  batch = nullptr;
  count = 0;
}

void PoolResource::reunite(StreamCache& here, uint32_t size_class, Block*& blocks, uint16_t& count) noexcept {
  if (is_ordered_) return pass_on(here, size_class, blocks, count);
  if (blocks != nullptr) apart_.put(size_class, blocks, count);
  blocks = nullptr;
  count = 0;
}

// A block that was used on other streams as well, or of a device that is lost, or without host memory for the ordinary
// way. What cannot be waited for is never used again.
Return PoolResource::put_back_after(std::span<const Point> uses, PoolCache* cache, StreamCache* here, void* data,
                                    const Request& request, Stream& stream) noexcept {
  Stamp stamp;
  Stream* taker = taker_of(data);
  if (taker == &stream) taker = nullptr;
  const bool is_followed = here != nullptr && !is_lost();
  const bool is_reusable = is_followed ? make_stamp(uses, taker, here->lane, stamp) : wait_for_all(uses, taker, stream);
  Slab* slab = nullptr;
  Block* block = find_block(data, slab);
  uint32_t number = 0;
  Return answer = block == nullptr ? Return::unknown : end_block(*block, request, number);
  if (block == nullptr) {
    const Lock lock = enter();
    answer = is_reusable ? arena_.give(data, request, stamp) : arena_.abandon(data, request);
    if (answer == Return::done) remove_arena_bytes(cache, request.bytes);
  } else if (answer == Return::done && is_reusable) {
    keep_after(stamp, is_followed ? here->lane : home_, *block, slab->size_class());
  }
  if (answer == Return::done && !is_reusable) count_leaked(request.bytes);
  if (answer == Return::done) count_given(cache, block == nullptr ? 0 : request.bytes);
  return answer;
}

bool PoolResource::wait_for_all(std::span<const Point> uses, Stream* taker, Stream& stream) noexcept {
  if (!is_ordered_) return true;
  const auto wait = [](const Point& use) { return try_wait_for(use); };
  return std::all_of(uses.begin(), uses.end(), wait) && (taker == nullptr || wait(now(*taker))) && settle(stream);
}

// Without host memory to remember the uses the stream waits for them now.
bool PoolResource::make_stamp(std::span<const Point> uses, Stream* taker, Lane& lane, Stamp& stamp) noexcept {
  OrderCalls calls;
  Ref<Points> points = Ref<Points>::adopt(new (std::nothrow) Points);
  const auto add = [&](const Point& use) {
    return points ? points->add(use, calls) : try_order_after(*lane.stream(), use, calls);
  };
  bool is_made = std::all_of(uses.begin(), uses.end(), add) && (taker == nullptr || add(now(*taker)));
  stamp = lane.stamp();
  if (points) {
    is_made = is_made && points->add({stamp.stream, stamp.position}, calls);
    stamp = {Stamp::kPoints, 0, nullptr, std::move(points)};
  }
  count(calls);
  return is_made;
}

void PoolResource::keep_after(const Stamp& stamp, Lane& lane, Block& block, uint32_t size_class) noexcept {
  block.next = nullptr;
  auto* used = stamp.points ? new (std::nothrow) UsedBlock{&block, size_class, stamp.points, nullptr} : nullptr;
  if (used != nullptr) return lane.put(used);
  OrderCalls calls;
  const bool is_ordered = stamp.all(
      [&](const Point& use) { return lane.stream() == nullptr || try_order_after(*lane.stream(), use, calls); });
  count(calls);
  if (is_ordered) lane.put(size_class, &block, 1, lane.position());
}

}  // namespace kina
