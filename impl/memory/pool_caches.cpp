// What threads keep at hand of a pool: opening, serving, closing, counting.
#include <new>

#include "impl/core/device.h"
#include "impl/core/lasting.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Guards which caches belong to which pool, and whether a pool that nobody refers to any more still has live blocks.
Mutex& caches_mutex() noexcept {
  static Lasting<Mutex> mutex;
  return *mutex;
}

using CacheLock = std::lock_guard<BriefLock>;

bool has_names(const PoolCache& cache, const ThreadBlock& thread, uint64_t resource, uint64_t stream) noexcept {
  const PoolCache::Names& names = cache.names;
  if (names.resource != resource || names.stream != stream || resource == 0) return false;
  if (names.resource_place->load(std::memory_order_acquire) != resource) return false;
  if (names.stream_place == nullptr) return thread.scopes.is_empty();
  return names.stream_place->load(std::memory_order_acquire) == stream;
}

PoolCache* named_cache(uint64_t resource, uint64_t stream) noexcept {
  const ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  return cache != nullptr && has_names(*cache, *thread, resource, stream) ? cache : nullptr;
}

bool is_plain(uint64_t bytes, uint64_t alignment) noexcept { return bytes != 0 && (alignment & (alignment - 1)) == 0; }

}  // namespace

void* take_at_hand(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = named_cache(resource, stream);
  if (cache == nullptr || !is_plain(bytes, alignment)) return nullptr;
  const CacheLock lock(cache->lock);
  return cache->is_open ? cache->pool->take_at_hand(*cache, {bytes, alignment, BlockUse::raw}) : nullptr;
}

bool give_at_hand(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = named_cache(resource, stream);
  if (cache == nullptr || !is_plain(bytes, alignment) || data == nullptr) return false;
  const CacheLock lock(cache->lock);
  return cache->is_open && cache->pool->give_at_hand(*cache, data, {bytes, alignment, BlockUse::raw});
}

void learn_names(const Resource& pool, uint64_t resource, uint64_t stream) noexcept {
  const ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  if (cache == nullptr || cache->pool != &pool || cache->owner != thread) return;
  if (stream == 0 && !thread->scopes.is_empty()) return;
  cache->names = {resource, stream, resources().place_of(resource), stream == 0 ? nullptr : streams().place_of(stream)};
  if (cache->names.resource_place == nullptr || (stream != 0 && cache->names.stream_place == nullptr))
    cache->names = {};  // another thread ended the name meanwhile
}

void BriefLock::wait() noexcept {
  do {
    while (is_held_.load(kRelaxed)) std::this_thread::yield();
  } while (is_held_.exchange(true, std::memory_order_acquire));
}

PoolCache::~PoolCache() {
  while (streams != nullptr) delete std::exchange(streams, streams->next);
}

// The thread ends. What it has at hand goes back to pools that still are there.
PoolCaches::~PoolCaches() {
  const std::lock_guard all(caches_mutex());
  while (first != nullptr) {
    const std::unique_ptr<PoolCache> cache(std::exchange(first, first->next_of_thread));
    if (cache->pool != nullptr) cache->pool->close(*cache);
  }
}

// On streams that the caller uses by itself as well more is asked of a call than a cache knows.
bool PoolResource::is_ordinary(const PoolCache& cache) const noexcept {
  if (!is_ordered_) return true;
  return !cache.current->lane.stream()->timeline.has_foreign_work.load(std::memory_order_acquire) && !is_lost();
}

void* PoolResource::take_at_hand(PoolCache& cache, Request request) noexcept {
  if (!is_ordinary(cache)) [[unlikely]]
    return nullptr;
  request.alignment = std::max(request.alignment, alignment());
  void* data = serve(*cache.current, request);
  if (data != nullptr) count_taken(cache, request, true);
  return data;
}

bool PoolResource::give_at_hand(PoolCache& cache, void* data, Request request) noexcept {
  request.alignment = std::max(request.alignment, alignment());
  if (!is_ordinary(cache)) [[unlikely]]
    return false;
  if (put_back(*cache.current, data, request) != Return::done) return false;
  count_given(cache, request);
  return true;
}

Allocation PoolResource::do_take(const Request& request, Stream& stream) noexcept {
  {
    PoolCache& cache = enter_cache();
    const CacheLock lock(cache.lock, std::adopt_lock);
    if (!select(cache, stream)) return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
    if (void* data = serve(*cache.current, request)) {
      count_taken(cache, request, true);
      return {data, KINA_SUCCESS};
    }
  }
  return take_slowly(request, stream);
}

Return PoolResource::do_give(void* data, const Request& request, Stream& stream) noexcept {
  return do_give_after({}, data, request, stream);
}

// Nobody waits: whoever is given the bytes next runs after what is under way on them now.
Return PoolResource::do_give_after(std::span<const Point> uses, void* data, const Request& request,
                                   Stream& stream) noexcept {
  PoolCache& cache = enter_cache();
  const CacheLock lock(cache.lock, std::adopt_lock);
  StreamCache* here = select(cache, stream) ? cache.current : nullptr;
  const bool is_plain = here != nullptr && uses.empty() && !is_lost();
  const Return answer = is_plain ? put_back(*here, data, request) : put_back_after(uses, here, data, request, stream);
  if (answer == Return::done) count_given(cache, request);
  return answer;
}

bool PoolResource::is_lost() const noexcept { return is_ordered_ && device().backend().is_lost(device().id()); }

bool PoolResource::select(PoolCache& cache, Stream& stream) noexcept {
  const auto is_of = [&](const StreamCache* known) { return !is_ordered_ || known->lane.stream() == &stream; };
  if (cache.current != nullptr && is_of(cache.current)) return true;
  cache.names = {};
  cache.current = nullptr;
  for (StreamCache* known = cache.streams; known != nullptr; known = known->next)
    if (is_of(known)) {
      cache.current = known;
      return true;
    }
  Lane* lane = nullptr;
  {
    const Lock lock = enter();
    lane = lane_of(stream);
  }
  StreamCache* made = lane == nullptr ? nullptr : new (std::nothrow) StreamCache(*lane, sizes_);
  if (made == nullptr) return false;
  made->next = std::exchange(cache.streams, made);
  cache.current = made;
  return true;
}

void* PoolResource::serve(StreamCache& here, const Request& request) noexcept {
  if (is_cut_from_slab(request)) {
    const uint32_t size_class = sizes_.class_of(request.bytes);
    Block* block = here.magazines[size_class].pop();
    if (block == nullptr) [[unlikely]]
      block = refill(here, size_class);
    if (block != nullptr) {
      block->take(request);
      return block->data;
    }
  }
  const Lock lock = enter();
  void* data = arena_.take(request, here.lane.shelf());
  return data != nullptr || !is_ordered_ ? data : arena_.take(request);
}

// A batch of the lane, or else the first blocks of a new slab, whose other batches go to the lane.
Block* PoolResource::refill(StreamCache& here, uint32_t size_class) noexcept {
  Magazine& magazine = here.magazines[size_class];
  uint32_t count = 0;
  Block* batch = here.lane.take(size_class, count);
  if (batch == nullptr && is_ordered_) batch = home_.take(size_class, count);
  if (batch == nullptr) {
    {
      const Lock lock = enter();
      batch = cut_slab(size_class, here.lane);
    }
    const uint64_t position = batch == nullptr ? 0 : here.lane.position();
    while (batch != nullptr) {
      Block* last = batch;
      for (count = 1; count < magazine.limit && last->next != nullptr; ++count) last = last->next;
      Block* rest = std::exchange(last->next, nullptr);
      if (rest == nullptr) break;
      here.lane.put(size_class, batch, count, position);
      batch = rest;
    }
  }
  if (batch == nullptr) return nullptr;
  magazine.loaded = batch;
  magazine.count = static_cast<uint16_t>(count);
  return magazine.pop();
}

Return PoolResource::end_block(void* data, const Request& request, Slab*& slab, Block*& block) noexcept {
  slab = Slab::find(data);
  if (slab == nullptr || slab->pool() != serial_ || !slab->contains(data)) {
    slab = nullptr;
    return Return::unknown;
  }
  block = slab->block_at(data);
  if (block == nullptr) return Return::unknown;
  if (request.alignment == alignment()) return block->give(request);
  return block->is_live(request.use) ? Return::different : Return::unknown;
}

Return PoolResource::put_back(StreamCache& here, void* data, const Request& request) noexcept {
  Slab* slab = nullptr;
  Block* block = nullptr;
  const Return answer = end_block(data, request, slab, block);
  if (slab == nullptr) {
    Stamp stamp = here.lane.stamp();
    const Lock lock = enter();
    return arena_.give(data, request, std::move(stamp));
  }
  if (answer != Return::done) return answer;
  const uint32_t size_class = slab->size_class();
  Magazine& magazine = here.magazines[size_class];
  if (magazine.push(*block)) [[likely]]
    return answer;
  here.lane.put(size_class, magazine.spare, magazine.spare_count, here.lane.position());
  magazine.spare = nullptr;
  magazine.spare_count = 0;
  magazine.push(*block);
  return answer;
}

// A block that was used on other streams as well, or of a device that is lost, or without host memory for the ordinary
// way. What cannot be waited for is never used again.
Return PoolResource::put_back_after(std::span<const Point> uses, StreamCache* here, void* data, const Request& request,
                                    Stream& stream) noexcept {
  Stamp stamp;
  const bool is_followed = here != nullptr && !is_lost();
  const bool is_reusable = is_followed ? make_stamp(uses, here->lane, stamp) : wait_for_all(uses, stream);
  Slab* slab = nullptr;
  Block* block = nullptr;
  Return answer = end_block(data, request, slab, block);
  if (slab == nullptr) {
    const Lock lock = enter();
    answer = is_reusable ? arena_.give(data, request, std::move(stamp)) : arena_.abandon(data, request);
  } else if (answer == Return::done && is_reusable) {
    keep_after(stamp, is_followed ? here->lane : home_, *block, slab->size_class());
  }
  if (answer == Return::done && !is_reusable) count_leaked(request.bytes);
  return answer;
}

bool PoolResource::wait_for_all(std::span<const Point> uses, Stream& stream) noexcept {
  if (!is_ordered_) return true;
  return std::all_of(uses.begin(), uses.end(), [](const Point& use) { return try_wait_for(use); }) && settle(stream);
}

// Without host memory to remember the uses the stream waits for them now.
bool PoolResource::make_stamp(std::span<const Point> uses, Lane& lane, Stamp& stamp) noexcept {
  OrderCalls calls;
  Ref<Points> points = Ref<Points>::adopt(new (std::nothrow) Points);
  bool is_made = true;
  for (const Point& use : uses)
    is_made = is_made && (points ? points->add(use, calls) : try_order_after(*lane.stream(), use, calls));
  if (!points && calls.stream_waits != 0) count_work(*lane.stream());
  count(calls);
  stamp = lane.stamp();
  if (!points) return is_made;
  is_made = is_made && points->add({Ref<Stream>::share(stamp.stream), stamp.position}, calls);
  stamp = {Stamp::kPoints, 0, nullptr, std::move(points)};
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
  if (calls.stream_waits != 0) count_work(*lane.stream());
  if (is_ordered) lane.put(size_class, &block, 1, lane.position());
}

// ---- opening and closing

PoolCache& PoolResource::enter_cache() noexcept {
  const ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  while (true) {
    if (cache != nullptr) {
      cache->lock.lock();
      if (cache->is_open && cache->pool == this) return *cache;
      cache->lock.unlock();
    }
    cache = &open_cache();
  }
}

// A cache that the thread has: of this pool, or closed, or made now.
PoolCache* PoolResource::find_cache(ThreadBlock* thread) noexcept {
  if (thread == nullptr) return nullptr;
  auto* mine = static_cast<PoolCaches*>(thread->pool_caches.get());
  if (mine == nullptr) {
    mine = new (std::nothrow) PoolCaches;
    if (mine == nullptr) return nullptr;
    thread->pool_caches.reset(mine);
  }
  PoolCache* closed = nullptr;
  for (PoolCache* cache = mine->first; cache != nullptr; cache = cache->next_of_thread) {
    if (cache->pool == this) return cache;
    if (cache->pool == nullptr) closed = cache;
  }
  if (closed != nullptr) return closed;
  auto* made = new (std::nothrow) PoolCache;
  if (made == nullptr) return nullptr;
  made->owner = thread;
  made->next_of_thread = std::exchange(mine->first, made);
  return made;
}

PoolCache& PoolResource::open_cache() noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  ThreadBlock* thread = thread_block();
  PoolCache* found = find_cache(thread);
  PoolCache& cache = found == nullptr ? common_ : *found;
  if (thread != nullptr && found != nullptr) thread->newest_pool_cache = found;
  if (cache.pool == this) return cache;
  const CacheLock lock(cache.lock);
  cache.names = {};
  cache.pool = this;
  cache.is_open = true;
  cache.next = std::exchange(caches_, &cache);
  if (cache.next != nullptr) cache.next->previous = &cache;
  if (!std::exchange(keeps_itself_, true)) retain();
  return cache;
}

void PoolResource::close(PoolCache& cache) noexcept {
  const CacheLock lock(cache.lock);
  drain(cache);
  unlink(cache);
}

void PoolResource::unlink(PoolCache& cache) noexcept {
  fold(cache);
  while (cache.streams != nullptr) delete std::exchange(cache.streams, cache.streams->next);
  cache.current = nullptr;
  cache.is_open = false;
  cache.pool = nullptr;
  (cache.previous == nullptr ? caches_ : cache.previous->next) = cache.next;
  if (cache.next != nullptr) cache.next->previous = cache.previous;
  cache.previous = nullptr;
  cache.next = nullptr;
}

void PoolResource::drain(PoolCache& cache) noexcept {
  for (StreamCache* stream = cache.streams; stream != nullptr; stream = stream->next) {
    const uint64_t position = stream->lane.position();
    for (uint32_t i = 0; i < SizeClasses::kCount; ++i) {
      Magazine& magazine = stream->magazines[i];
      if (magazine.loaded != nullptr) stream->lane.put(i, magazine.loaded, magazine.count, position);
      if (magazine.spare != nullptr) stream->lane.put(i, magazine.spare, magazine.spare_count, position);
      magazine.loaded = magazine.spare = nullptr;
      magazine.count = magazine.spare_count = 0;
    }
  }
}

void PoolResource::flush_caches() noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  for (PoolCache* cache = caches_; cache != nullptr; cache = cache->next) {
    const CacheLock lock(cache->lock);
    drain(*cache);
  }
}

// In a forked child: the other threads are not here. What one of them was about to change stays as it is, out of use.
void PoolResource::renew_caches() noexcept {
  if (cache_forks_ == forks()) return;
  cache_forks_ = forks();
  const ThreadBlock* thread = thread_block();
  for (PoolCache* cache = caches_; cache != nullptr;) {
    PoolCache& each = *std::exchange(cache, cache->next);
    if (each.owner == thread && thread != nullptr) continue;
    if (each.lock.try_lock()) {
      drain(each);
    } else {
      each.streams = nullptr;
    }
    unlink(each);
    each.lock.unlock();
  }
}

// The last but one reference goes. The pool's own one keeps it while blocks are live; they are counted here, now that
// nobody can come by a cache.
Resource::Ending PoolResource::release_near_end() const noexcept {
  auto& self = const_cast<PoolResource&>(*this);  // references are no part of what is const
  const std::lock_guard all(caches_mutex());
  self.renew_caches();
  while (self.caches_ != nullptr) self.close(*self.caches_);
  if (keeps_itself_ && counters().live_blocks.load(kRelaxed) == 0) {
    if (release_one_of(2)) self.keeps_itself_ = false;
    return Ending::look_again;
  }
  return release_one_of(2) ? Ending::is_released : Ending::look_again;
}

// ---- counting

void PoolResource::count_taken(PoolCache& cache, const Request& request, bool is_hit) noexcept {
  cache.counters.taken(request.bytes, is_hit);
  if (cache.counters.is_full()) [[unlikely]]
    fold(cache);
}

void PoolResource::count_given(PoolCache& cache, const Request& request) noexcept {
  cache.counters.given(request.bytes);
  if (cache.counters.is_full()) [[unlikely]]
    fold(cache);
}

void PoolResource::fold(PoolCache& cache) noexcept {
  CacheCounters& from = cache.counters;
  ResourceCounters& to = counters();
  raise_peak(static_cast<int64_t>(to.live_bytes.load(kRelaxed)) + from.high_bytes.exchange(0, kRelaxed));
  to.live_bytes.fetch_add(from.live_bytes.exchange(0, kRelaxed), kRelaxed);
  const uint64_t allocations = from.allocations.exchange(0, kRelaxed);
  const uint64_t deallocations = from.deallocations.exchange(0, kRelaxed);
  to.live_blocks.fetch_add(allocations - deallocations, kRelaxed);
  to.allocations.fetch_add(allocations, kRelaxed);
  to.deallocations.fetch_add(deallocations, kRelaxed);
  to.cache_hits.fetch_add(from.cache_hits.exchange(0, kRelaxed), kRelaxed);
}

void PoolResource::raise_peak(int64_t live) noexcept {
  std::atomic<uint64_t>& peak = counters().peak_bytes;
  uint64_t seen = peak.load(kRelaxed);
  while (live > static_cast<int64_t>(seen) &&
         !peak.compare_exchange_weak(seen, static_cast<uint64_t>(live), kRelaxed)) {
  }
}

void PoolResource::describe(KinaResourceInfo& info) const noexcept {
  const std::lock_guard all(caches_mutex());
  Resource::describe(info);
  auto peak = static_cast<int64_t>(info.live_bytes);
  info.metadata_bytes = sizeof(*this) - sizeof(arena_);
  for (const PoolCache* cache = caches_; cache != nullptr; cache = cache->next) {
    const CacheCounters& counted = cache->counters;
    info.live_bytes += counted.live_bytes.load(kRelaxed);
    info.allocations += counted.allocations.load(kRelaxed);
    info.deallocations += counted.deallocations.load(kRelaxed);
    info.cache_hits += counted.cache_hits.load(kRelaxed);
    peak += counted.high_bytes.load(kRelaxed);
    info.metadata_bytes += sizeof(PoolCache);
    for (const StreamCache* stream = cache->streams; stream != nullptr; stream = stream->next)
      info.metadata_bytes += sizeof(StreamCache);
  }
  info.live_blocks = info.allocations - info.deallocations;
  info.peak_bytes = std::max(info.peak_bytes, static_cast<uint64_t>(std::max(peak, int64_t{0})));
  info.event_records = event_records_.load(kRelaxed);
  info.stream_waits = stream_waits_.load(kRelaxed);
  const Lock lock = mutex_.own();
  info.maximum_bytes = plan_.maximum_bytes;
  info.reserved_bytes = reserved_bytes_;
  info.metadata_bytes += slab_metadata_bytes_ + arena_.metadata_bytes();
  for (const Lane* lane = first_lane_; lane != &home_; lane = lane->next) info.metadata_bytes += sizeof(Lane);
}

}  // namespace kina
