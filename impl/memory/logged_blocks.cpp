// The fast ways of the two raw block functions through a logging resource right above a pool of the host.
#include <algorithm>
#include <mutex>

#include "impl/memory/logging.h"
#include "impl/memory/raw_blocks.h"

namespace kina {
namespace {

using CacheLock = std::lock_guard<OwnersLock>;

// The calling thread's cache under these names.
PoolCache* look_up_logged(uint64_t resource, uint64_t stream) noexcept {
  const ThreadBlock* thread = thread_block();
  PoolCache* cache = thread == nullptr ? nullptr : thread->newest_pool_cache;
  return cache != nullptr && cache->logged.names.are(resource, stream, *thread) ? cache : nullptr;
}

// With the lock: whether a magazine serves the request, and the logging resource is there to be told.
bool serves(const PoolCache& cache, uint64_t bytes, uint64_t alignment) noexcept {
  return cache.logged.resource != nullptr && cache.has_magazines(bytes, alignment);
}

// With the lock, while nobody else has the block or can be given it.
void tell(LoggedCalls& logged, KinaLogEvent event, void* data, uint64_t bytes, bool is_full) noexcept {
  if (is_full) [[unlikely]]
    logged.resource->fold_bytes(logged.counters);
  logged.resource->report(event, KINA_SUCCESS, data, {bytes, logged.resource->alignment()}, *logged.stream,
                          logged.thread, logged.clock.now());
}

}  // namespace

void* take_logged(uint64_t resource, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = look_up_logged(resource, stream);
  if (cache == nullptr) return nullptr;
  const CacheLock lock(cache->lock);
  if (!serves(*cache, bytes, alignment)) return nullptr;
  LoggedCalls& logged = cache->logged;
  Block* block = cache->take(bytes, logged.resource->use_of_callers());
  if (block == nullptr) return nullptr;
  tell(logged, KINA_LOG_EVENT_ALLOCATE, block->address(), bytes, logged.counters.taken(bytes));
  return block->address();
}

bool give_logged(uint64_t resource, void* data, uint64_t bytes, uint64_t alignment, uint64_t stream) noexcept {
  PoolCache* cache = look_up_logged(resource, stream);
  if (cache == nullptr) return false;
  const CacheLock lock(cache->lock);
  if (!serves(*cache, bytes, alignment)) return false;
  LoggedCalls& logged = cache->logged;
  const uint32_t size_class = cache->sizes.class_of(bytes);
  Block* block = cache->find(data, size_class);
  uint32_t taker = 0;
  if (block == nullptr || !block->give_small(bytes, logged.resource->use_of_callers(), taker)) return false;
  tell(logged, KINA_LOG_EVENT_DEALLOCATE, data, bytes, logged.counters.given(bytes));
  cache->give(*block, size_class, taker, bytes);
  return true;
}

// Once the counted handle has ended nothing would say when the resource is needed no more.
void learn_logged(PoolCache& cache, LoggingResource& logging, const CallNames& names, const Stream& place) noexcept {
  const std::lock_guard all(caches_mutex());
  const CacheLock lock(cache.lock);
  const bool is_here = cache.is_open && cache.pool == logging.upstream();
  if (!is_here || cache.is_ordered || logging.has_frames() || !logging.is_kept.load(std::memory_order_relaxed)) return;
  LoggedCalls& logged = cache.logged;
  if (logged.resource != &logging) {
    PoolResource::stop_logging(cache);
    logged.resource = &logging;
    logging.begin_cache(*cache.pool);
  }
  logged.names = names;
  logged.stream = &place;
  logged.thread = name_of_thread();
}

// ---- the same seen from the pool

void PoolResource::stop_logging(PoolCache& cache) noexcept {
  if (LoggingResource* logging = std::exchange(cache.logged.resource, nullptr))
    logging->end_cache(cache.logged.counters);
}

void PoolResource::stop_logging(const LoggingResource& logging) noexcept {
  const std::lock_guard all(caches_mutex());
  renew_caches();
  visit_caches([&](PoolCache& cache) {
    if (cache.logged.resource == &logging) stop_logging(cache);
  });
}

void PoolResource::add_logged(const LoggingResource& logging, KinaResourceInfo& info, int64_t& peak) const noexcept {
  for (const PoolCache* cache = caches_; cache != nullptr; cache = cache->next)
    if (cache->logged.resource == &logging) cache->logged.counters.add_to(info, peak);
}

// ---- the same seen from the logging resource

void LoggingResource::begin_cache(PoolResource& pool) noexcept {
  retain_many(kReferencesOfCache);
  pool_of_caches_.store(&pool, std::memory_order_release);
}

void LoggingResource::end_cache(CacheCounters& counted) noexcept {
  const uint64_t live = counted.allocations.load(kRelaxed) - counted.deallocations.load(kRelaxed);
  fold_bytes(counted);
  counted.fold_calls(counters());
  release_many(kReferencesOfCache - live);
}

void LoggingResource::fold_bytes(CacheCounters& counted) noexcept {
  const uint64_t before = counters().live_bytes.fetch_add(counted.live_bytes.load(kRelaxed), kRelaxed);
  counters().raise_peak(static_cast<int64_t>(before) + counted.high_bytes.load(kRelaxed));
  counted.live_bytes.store(0, kRelaxed);
  counted.high_bytes.store(0, kRelaxed);
}

void LoggingResource::fold_own_bytes() noexcept {
  if (t_cache == nullptr || pool_of_caches_.load(kRelaxed) == nullptr) return;
  for (PoolCache* cache = first_cache(static_cast<ThreadBlock&>(*t_cache)); cache != nullptr;
       cache = cache->next_of_thread) {
    const CacheLock lock(cache->lock);
    if (cache->logged.resource == this) fold_bytes(cache->logged.counters);
  }
}

// With the lock: a cache that begins meanwhile has either said so, or will see that no handle keeps the resource.
void LoggingResource::handle_ended() noexcept {
  PoolResource* pool = nullptr;
  {
    const std::lock_guard all(caches_mutex());
    pool = pool_of_caches_.load(kRelaxed);
  }
  if (pool != nullptr) pool->stop_logging(*this);
}

void LoggingResource::describe(KinaResourceInfo& info) const noexcept {
  const std::lock_guard all(caches_mutex());
  AdaptorResource::describe(info);
  auto peak = static_cast<int64_t>(info.live_bytes);
  const uint64_t calls = info.allocations + info.deallocations;
  if (const PoolResource* pool = pool_of_caches_.load(std::memory_order_acquire)) pool->add_logged(*this, info, peak);
  info.cache_hits = 0;
  info.live_blocks = info.allocations - info.deallocations;
  info.peak_bytes = std::max(info.peak_bytes, static_cast<uint64_t>(std::max(peak, int64_t{0})));
  info.reserved_bytes = info.live_bytes + info.leaked_bytes;
  info.upstream_calls += info.allocations + info.deallocations - calls;
  info.metadata_bytes += drain_->bytes();
  info.dropped_rows = drain_->dropped_rows();
}

}  // namespace kina
