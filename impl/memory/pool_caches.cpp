// What threads keep at hand of a pool: opening, closing, forks, counting.
#include <new>

#include "impl/core/device.h"
#include "impl/core/lasting.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

uint32_t next_number() noexcept {
  static std::atomic<uint64_t> last{0};
  return static_cast<uint32_t>(last.fetch_add(1, kRelaxed) % Block::kCacheMask + 1);
}

}  // namespace

Mutex& caches_mutex() noexcept {
  static Lasting<Mutex> mutex;
  return *mutex;
}

void OwnersLock::give_way() noexcept {
  do {
    is_held_.store(false, std::memory_order_release);
    while (has_visitor_.load(std::memory_order_relaxed)) std::this_thread::yield();
    is_held_.store(true, std::memory_order_relaxed);
    fence_lease();
  } while (has_visitor_.load(std::memory_order_acquire));
}

void OwnersLock::await_owner() const noexcept {
  while (is_held()) std::this_thread::yield();
}

PoolCache* first_cache(const ThreadBlock& thread) noexcept {
  const auto* caches = static_cast<const PoolCaches*>(thread.pool_caches.get());
  return caches == nullptr ? nullptr : caches->first;
}

PoolCache::~PoolCache() {
  while (streams != nullptr) delete std::exchange(streams, streams->next);
}

// The thread ends, or has ended, and is in none of them. What it has at hand goes back to pools that still are there.
PoolCaches::~PoolCaches() {
  const std::lock_guard all(caches_mutex());
  while (first != nullptr) {
    const std::unique_ptr<PoolCache> cache(std::exchange(first, first->next_of_thread));
    cache->lock.await_owner();  // behind what it did last
    if (cache->pool != nullptr) cache->pool->close(*cache);
  }
}

bool PoolResource::select(PoolCache& cache, Stream& stream) noexcept {
  const auto is_of = [&](const StreamCache* known) { return !is_ordered_ || known->lane.stream() == &stream; };
  if (cache.current != nullptr && is_of(cache.current)) return true;
  cache.names = {};
  cache.use(nullptr);
  for (StreamCache* known = cache.streams; known != nullptr; known = known->next)
    if (is_of(known)) {
      cache.use(known);
      return true;
    }
  Lane* lane = nullptr;
  {
    const Lock lock = enter();
    lane = lane_of(stream);
  }
  StreamCache* made = lane == nullptr ? nullptr : new (std::nothrow) StreamCache(*lane, cache.number, sizes_);
  if (made == nullptr) return false;
  made->next = std::exchange(cache.streams, made);
  cache.counters.streams.fetch_add(1, kRelaxed);
  cache.use(made);
  return true;
}

// ---- opening and closing

PoolCache* PoolResource::enter_cache() noexcept {
  ThreadBlock* thread = thread_block();
  while (thread != nullptr) {
    PoolCache* newest = thread->newest_pool_cache;
    if (newest != nullptr && enter_open(*newest)) return newest;
    for (PoolCache* cache = first_cache(*thread); cache != nullptr; cache = cache->next_of_thread)
      if (cache != newest && enter_open(*cache)) return thread->newest_pool_cache = cache;
    if (open_cache(*thread) == nullptr) break;
  }
  return nullptr;
}

// Without the lock of all caches, for a thread that takes turns between pools.
bool PoolResource::enter_open(PoolCache& cache) const noexcept {
  if (cache.serial != serial_) return false;
  cache.lock.lock();
  if (cache.is_open) return true;
  cache.lock.unlock();
  return false;
}

// A cache that the thread has: of this pool, or closed, or made now.
PoolCache* PoolResource::find_cache(ThreadBlock& thread) const noexcept {
  auto* mine = static_cast<PoolCaches*>(thread.pool_caches.get());
  if (mine == nullptr) {
    mine = new (std::nothrow) PoolCaches;
    if (mine == nullptr) return nullptr;
    thread.pool_caches.reset(mine);
  }
  PoolCache* closed = nullptr;
  for (PoolCache* cache = mine->first; cache != nullptr; cache = cache->next_of_thread) {
    if (cache->pool == this) return cache;
    if (cache->pool == nullptr) closed = cache;
  }
  if (closed != nullptr) return closed;
  auto* made = new (std::nothrow) PoolCache(&thread, next_number());
  if (made != nullptr) made->next_of_thread = std::exchange(mine->first, made);
  return made;
}

PoolCache* PoolResource::open_cache(ThreadBlock& thread) noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  PoolCache* cache = find_cache(thread);
  if (cache == nullptr) return nullptr;
  thread.newest_pool_cache = cache;
  if (cache->pool == this) return cache;
  const std::lock_guard lock(cache->lock);
  cache->forget_names();
  cache->pool = this;
  cache->serial = serial_;
  cache->tag = pool_tag(serial_);
  cache->sizes = sizes_;
  cache->is_ordered = is_ordered_;
  cache->is_open = true;
  cache->next = std::exchange(caches_, cache);
  if (cache->next != nullptr) cache->next->previous = cache;
  open_caches_.fetch_add(1, kRelaxed);
  if (!std::exchange(keeps_itself_, true)) retain();
  return cache;
}

void PoolResource::close(PoolCache& cache) noexcept {
  drain(cache);
  unlink(cache);
}

void PoolResource::announce_visits() noexcept {
  bool are_own = true;
  for (PoolCache* cache = caches_; cache != nullptr; cache = cache->next) {
    cache->lock.announce_visit();
    are_own = are_own && cache->owner == t_cache;
  }
  if (!are_own) fence_all_threads_surely();
}

void PoolResource::unlink(PoolCache& cache) noexcept {
  stop_logging(cache);
  fold(cache);
  mutex_.end(cache.residence);
  while (cache.streams != nullptr) delete std::exchange(cache.streams, cache.streams->next);
  cache.counters.streams.store(0, kRelaxed);
  cache.is_open = false;
  cache.use(nullptr);
  cache.pool = nullptr;
  (cache.previous == nullptr ? caches_ : cache.previous->next) = cache.next;
  if (cache.next != nullptr) cache.next->previous = cache.previous;
  cache.previous = nullptr;
  cache.next = nullptr;
  open_caches_.fetch_sub(1, kRelaxed);
}

void PoolResource::drain(PoolCache& cache) noexcept {
  const bool is_only_one = open_caches_.load(kRelaxed) == 1;
  const auto send = [&](StreamCache& here, uint32_t size_class, Block*& blocks, uint16_t& count) {
    is_only_one ? pass_on(here, size_class, blocks, count) : reunite(here, size_class, blocks, count);
  };
  for (StreamCache* stream = cache.streams; stream != nullptr; stream = stream->next)
    for (uint32_t i = 0; i < SizeClasses::kCount; ++i) {
      Magazine& magazine = stream->magazines[i];
      send(*stream, i, magazine.loaded, magazine.count);
      send(*stream, i, magazine.spare, magazine.spare_count);
      send(*stream, i, magazine.foreign, magazine.foreign_count);
    }
}

uint64_t PoolResource::flush_caches() noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  uint64_t allocations = counters().allocations.load(kRelaxed);
  visit_caches([&](PoolCache& cache) {
    drain(cache);
    allocations += cache.counters.allocations.load(kRelaxed);
  });
  return allocations;
}

// In a forked child: the other threads are not here. What one of them was about to change stays as it is, out of use.
void PoolResource::renew_caches() noexcept {
  if (cache_forks_ == forks()) return;
  cache_forks_ = forks();
  const auto* thread = static_cast<const ThreadBlock*>(t_cache);
  for (PoolCache* cache = caches_; cache != nullptr;) {
    PoolCache& each = *std::exchange(cache, cache->next);
    if (each.owner == thread) continue;
    if (each.lock.is_held()) {
      each.streams = nullptr;
    } else {
      drain(each);
    }
    unlink(each);
  }
}

// The last but one reference goes. The pool's own one keeps it while blocks are live; they are counted here, now that
// nobody can come by a cache.
Resource::Ending PoolResource::release_near_end() const noexcept {
  auto& self = const_cast<PoolResource&>(*this);  // references are no part of what is const
  const std::lock_guard all(caches_mutex());
  self.renew_caches();
  self.visit_caches([&](PoolCache& cache) { self.close(cache); });
  if (keeps_itself_ && counters().live_blocks() == 0) {
    if (release_one_of(2)) self.keeps_itself_ = false;
    return Ending::look_again;
  }
  return release_one_of(2) ? Ending::is_released : Ending::look_again;
}

Return PoolResource::give_without_cache(std::span<const Point> uses, void* data, const Request& request,
                                        Stream& stream) noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  return put_back_after(uses, nullptr, nullptr, data, request, stream);
}

// ---- counting

// Blocks of the arena are few and large: what is live of them is known to all at once, and the caches count bytes of
// slabs alone.

void PoolResource::count_taken(uint64_t bytes, bool is_hit) noexcept {
  if (PoolCache* cache = enter_cache()) {
    const std::lock_guard lock(cache->lock, std::adopt_lock);
    if (!is_hit) cache->counters.missed();
    (void)cache->counters.taken(bytes);
    return fold_bytes(*cache);
  }
  counters().live_bytes.fetch_add(bytes, kRelaxed);
  counters().allocations.fetch_add(1, kRelaxed);
  if (is_hit) counters().cache_hits.fetch_add(1, kRelaxed);
  raise_peak(shared_bytes());
}

void PoolResource::count_given(PoolCache* cache, uint64_t bytes) noexcept {
  if (cache == nullptr) return Resource::count_given({bytes, 0, BlockUse::internal});
  if (cache->counters.given(bytes)) [[unlikely]]
    fold_bytes(*cache);
}

uint64_t PoolResource::shared_bytes() const noexcept {
  return counters().live_bytes.load(kRelaxed) + arena_bytes_.get();
}

void PoolResource::settle_peak(PoolCache& cache) noexcept {
  CacheCounters& counted = cache.counters;
  raise_peak(shared_bytes() + static_cast<uint64_t>(counted.high_bytes.load(kRelaxed)));
  counted.high_bytes.store(static_cast<int64_t>(counted.live_bytes.load(kRelaxed)), kRelaxed);
}

void PoolResource::add_arena_bytes(PoolCache* cache, uint64_t bytes) noexcept {
  if (cache != nullptr) settle_peak(*cache);
  arena_bytes_.add(bytes);
  raise_peak(shared_bytes() + (cache == nullptr ? 0 : cache->counters.live_bytes.load(kRelaxed)));
}

void PoolResource::remove_arena_bytes(PoolCache* cache, uint64_t bytes) noexcept {
  if (cache != nullptr) settle_peak(*cache);
  arena_bytes_.subtract(bytes);
}

void PoolResource::fold_bytes(PoolCache& cache) noexcept {
  CacheCounters& from = cache.counters;
  settle_peak(cache);
  counters().live_bytes.fetch_add(from.live_bytes.exchange(0, kRelaxed), kRelaxed);
  from.high_bytes.store(0, kRelaxed);
  raise_peak(shared_bytes());
}

void PoolResource::fold(PoolCache& cache) noexcept {
  fold_bytes(cache);
  cache.counters.fold_calls(counters());
}

void CacheCounters::add_to(KinaResourceInfo& info, int64_t& peak) const noexcept {
  const uint64_t taken = allocations.load(kRelaxed);
  info.live_bytes += live_bytes.load(kRelaxed);
  info.allocations += taken;
  info.deallocations += deallocations.load(kRelaxed);
  info.cache_hits += taken - std::min(taken, misses.load(kRelaxed));
  peak += high_bytes.load(kRelaxed);
}

void CacheCounters::fold_calls(ResourceCounters& to) noexcept {
  const uint64_t taken = allocations.exchange(0, kRelaxed);
  to.allocations.fetch_add(taken, kRelaxed);
  to.deallocations.fetch_add(deallocations.exchange(0, kRelaxed), kRelaxed);
  to.cache_hits.fetch_add(taken - misses.exchange(0, kRelaxed), kRelaxed);
}

void PoolResource::raise_peak(uint64_t live) noexcept { counters().raise_peak(static_cast<int64_t>(live)); }

// A collection costs what all blocks at hand cost to look at. Where it helps a small request alone, that has to be
// spread over many allocations; otherwise the pool rather grows.
bool PoolResource::is_collecting_due() const noexcept {
  KinaResourceInfo info{};
  describe(info);
  const Lock lock = mutex_.own();
  return info.live_bytes == 0 || info.allocations - collected_at_ >= 8 * collected_blocks_;
}

void PoolResource::describe(KinaResourceInfo& info) const noexcept {
  const std::lock_guard all(caches_mutex());
  Resource::describe(info);
  info.live_bytes = shared_bytes();
  auto peak = static_cast<int64_t>(info.live_bytes);
  info.metadata_bytes = sizeof(*this) - sizeof(arena_);
  for (const PoolCache* cache = caches_; cache != nullptr; cache = cache->next) {
    cache->counters.add_to(info, peak);
    info.metadata_bytes += sizeof(PoolCache) + cache->counters.streams.load(kRelaxed) * sizeof(StreamCache);
  }
  info.live_blocks = info.allocations - info.deallocations;
  info.peak_bytes = std::max(info.peak_bytes, static_cast<uint64_t>(std::max(peak, int64_t{0})));
  info.event_records = event_records_.load(kRelaxed);
  info.stream_waits = stream_waits_.load(kRelaxed);
  info.maximum_bytes = plan_.maximum_bytes;
  info.reserved_bytes = reserved_bytes_.get();
  info.peak_bytes = std::min(info.peak_bytes, most_reserved_bytes_.get());  // what threads had at most need not add up
  info.metadata_bytes += table_bytes_.get() + arena_.metadata_bytes();
}

}  // namespace kina
