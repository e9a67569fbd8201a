// When the pool grows, waits, reclaims and gives back. Nothing upstream is called under the lock: it may be a callback.
#include "impl/memory/pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "impl/core/capture.h"
#include "impl/core/device.h"
#include "impl/core/lasting.h"

namespace kina {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kGibibyte = uint64_t{1} << 30;
constexpr uint64_t kFirstSpan = 2 * kMebibyte;
constexpr uint64_t kNextSpan = 32 * kMebibyte;
constexpr uint64_t kFixedStep = 32 * kMebibyte;

// Pools with a threshold, to be found at a synchronise.
struct Thresholds {
  Mutex mutex;
  std::vector<PoolResource*> pools;
};
Thresholds& thresholds() noexcept {
  static Lasting<Thresholds> all;
  return *all;
}

uint64_t next_serial() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

PoolPlan plan_of(const KinaPoolParams& params, bool is_host) {
  PoolPlan plan{};
  plan.growth = params.growth;
  plan.initial_bytes = params.initial_bytes;
  plan.maximum_bytes = params.maximum_bytes;
  plan.is_lazy = (params.flags & KINA_POOL_LAZY) != 0 || (is_host && params.initial_bytes == 0);
  if (plan.initial_bytes == 0 && (!is_host || plan.growth == KINA_GROWTH_NONE))
    plan.initial_bytes = plan.maximum_bytes == 0 ? kGibibyte : std::min(kGibibyte, plan.maximum_bytes);
  plan.is_opportunistic = (params.flags & KINA_POOL_OPPORTUNISTIC) != 0;
  plan.is_initial_default = params.initial_bytes == 0;
  plan.growth_bytes = params.growth_bytes == 0 ? kFixedStep : params.growth_bytes;
  plan.alignment = std::max(params.alignment, kStorageAlignment);
  plan.threshold_bytes = params.release_threshold_bytes;
  return plan;
}

PoolResource::PoolResource(const Ref<Resource>& upstream, const PoolPlan& plan)
    : Resource(upstream->device(), upstream, std::string("pool(") + upstream->name() + ")",
               std::max(plan.alignment, upstream->alignment())),
      plan_(plan),
      serial_(next_serial()),
      sizes_(alignment()),
      is_ordered_(device().backend().is_asynchronous()),
      arena_(alignment()),
      initial_bytes_(plan.initial_bytes) {
  if (plan_.threshold_bytes == 0) return;
  Thresholds& all = thresholds();
  const std::lock_guard lock(all.mutex);
  all.pools.push_back(this);
}

PoolResource::~PoolResource() {
  if (plan_.threshold_bytes != 0) {
    Thresholds& all = thresholds();
    const std::lock_guard lock(all.mutex);
    all.pools.erase(std::find(all.pools.begin(), all.pools.end(), this));
  }
  Lock lock = enter();
  shed(0, device().main(), lock);
  while (Slab* slab = slabs_) {  // of blocks that leaked
    slabs_ = slab->next;
    slab->end();
  }
  // What is left holds blocks that leaked, and nobody is here any more to give it back [KINA-STATUS-54].
  arena_.for_each_span([&](const ArenaSpan& span) { upstream()->leak(span.base, span.bytes, span.alignment); });
  while (first_lane_ != &home_) delete std::exchange(first_lane_, first_lane_->next);
}

KinaStatus PoolResource::start(Stream& stream) noexcept {
  if (plan_.is_lazy) return KINA_SUCCESS;
  Lock lock = enter();
  const KinaStatus status = initial_bytes_ == 0 ? KINA_SUCCESS : grow(initial_bytes_, alignment(), stream, lock);
  return status == KINA_ERROR_OUT_OF_MEMORY && plan_.is_initial_default ? KINA_SUCCESS : status;
}

Allocation PoolResource::take_slowly(const Request& request, Stream& stream) noexcept {
  Lock lock = enter();
  Lane* lane = lane_of(stream);
  const uint64_t needed = arena_.needed(request.bytes);
  if (lane == nullptr || needed == 0) return {nullptr, KINA_ERROR_OUT_OF_MEMORY};
  if (is_short_of_slabs(request)) grow_for_slabs(sizes_.class_of(request.bytes), stream, lock);
  std::optional<bool> is_due;  // whether to collect rather than to grow
  if (needed > SizeClasses::kLargest) is_due = true;
  bool is_hit = true;
  bool is_last_try = false;
  bool has_grown = false;
  bool has_collected = false;
  while (true) {
    void* data = search(request, *lane, has_collected, is_hit);
    if (data == nullptr && (has_collected || is_last_try)) data = take_apart(request, *lane);
    if (data != nullptr) {
      const bool is_counted_by_cache = is_of_slab(data, request);
      if (!is_counted_by_cache) add_arena_bytes(nullptr, request.bytes);
      lock.unlock();
      count_taken(is_counted_by_cache ? request.bytes : 0, is_hit);
      return {data, KINA_SUCCESS};
    }
    if (!is_due) {
      lock.unlock();
      is_due = is_collecting_due();
      lock = enter();
      continue;
    }
    is_hit = false;
    const Step step = has_grown ? Step{Step::Kind::refuse} : next_step(needed, is_last_try);
    KinaStatus status = KINA_ERROR_OUT_OF_MEMORY;
    if (!has_collected && (step.kind == Step::Kind::refuse || (*is_due && may_gain_by_collecting(needed)))) {
      collect(lock);
      has_collected = true;
      continue;
    }
    if (step.kind == Step::Kind::refuse) return {nullptr, status};
    if (step.kind == Step::Kind::wait) {
      mutex_.wait(changed_, lock);
      continue;
    }
    if (step.kind == Step::Kind::grow) {
      status = grow(step.bytes, request.alignment, stream, lock);
      has_grown = status == KINA_SUCCESS && step.bytes >= needed;
      if (status == KINA_SUCCESS) continue;
      if (status != KINA_ERROR_OUT_OF_MEMORY || is_last_try) return {nullptr, status};
    }
    if (!may_capture(stream)) shed(0, stream, lock);  // else the graph may need bytes of any span [KINA-STREAM-39]
    is_last_try = true;
  }
}

bool PoolResource::may_grow(uint64_t needed) const noexcept {
  const Step::Kind kind = next_step(needed, false).kind;
  return !was_refused_ && (kind == Step::Kind::grow || kind == Step::Kind::wait);
}

bool PoolResource::may_gain_by_collecting(uint64_t needed) const noexcept {
  return (slabs_ != nullptr || is_ordered_) && arena_.free_bytes() + slab_bytes_ >= needed;
}

PoolResource::Step PoolResource::next_step(uint64_t needed, bool is_last_try) const noexcept {
  const bool is_fixed_size = plan_.growth == KINA_GROWTH_NONE;
  // A span that another thread got while the initial one was being refused may have left no room for it.
  const bool has_room = initial_bytes_ <= room();
  if (initial_bytes_ != 0 && has_room && (is_fixed_size || !is_last_try)) return {Step::Kind::grow, initial_bytes_};
  const uint64_t wanted = is_fixed_size ? 0 : std::min(is_last_try ? needed : preferred_bytes(needed), room());
  if (wanted >= needed) return {Step::Kind::grow, wanted};
  if (may_wait()) return {Step::Kind::wait};
  return {is_fixed_size || is_last_try ? Step::Kind::refuse : Step::Kind::reclaim};
}

// Spans do not merge: where they are small, what grows finds no room in them, and where they are large, much of the
// last one stays unused. So the first steps are equal, and later ones go by what is held: a sixteenth, or a third of
// that where more than a sixteenth is free, in pieces that hold nothing of what is asked for. Sizes are rounded up by a
// sixteenth at most: blocks that are a little larger than half of those that a span was taken for fit twice.
uint64_t PoolResource::preferred_bytes(uint64_t needed) const noexcept {
  if (plan_.growth == KINA_GROWTH_GEOMETRIC) {
    const uint64_t held = reserved_bytes_.get();
    const uint64_t first = held == 0 ? kFirstSpan : kNextSpan;
    const uint64_t share = arena_.free_bytes() > held / 16 ? held / 48 : held / 16;
    const uint64_t step = held < 4 * kNextSpan ? first : std::min(share, kGibibyte);
    const uint64_t bytes = std::max(needed, step);
    const uint64_t unit = std::max(std::bit_floor(bytes) / 16, uint64_t{1});
    return bytes > ~uint64_t{0} - unit ? bytes : (bytes + unit - 1) / unit * unit;
  }
  const uint64_t steps = needed / plan_.growth_bytes + (needed % plan_.growth_bytes != 0 ? 1 : 0);
  uint64_t bytes = 0;
  return __builtin_mul_overflow(steps, plan_.growth_bytes, &bytes) ? needed : bytes;
}

uint64_t PoolResource::room() const noexcept {
  return plan_.maximum_bytes == 0 ? ~uint64_t{0} - reserved_bytes_.get() : plan_.maximum_bytes - reserved_bytes_.get();
}

// A thread inside an upstream callback of this very pool must not wait: what it would wait for may wait for it.
bool PoolResource::may_wait() const noexcept {
  const std::thread::id here = std::this_thread::get_id();
  for (const Visit* visit = visits_; visit != nullptr; visit = visit->next)
    if (visit->thread == here) return false;
  return visits_ != nullptr;
}

KinaStatus PoolResource::grow(uint64_t bytes, uint64_t alignment, Stream& stream, Lock& lock) noexcept {
  Visit visit{std::this_thread::get_id(), bytes};
  add(visit);
  reserved_bytes_.add(bytes);
  const uint64_t initial_bytes = std::exchange(initial_bytes_, 0);
  const Request request{bytes, std::max(alignment, arena_.granule()), BlockUse::internal};
  counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
  lock.unlock();
  Allocation made = upstream()->take(request, stream);
  come_back(visit, lock);
  // From an upstream that orders by stream the bytes are ready on this one alone.
  const Lane* lane = upstream()->supports_streams() ? lane_of(stream) : &home_;
  if (made.status == KINA_SUCCESS &&
      (lane == nullptr || !arena_.add({made.data, bytes, request.alignment}, lane->stamp()))) {
    counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    upstream()->give(made.data, request, stream);
    come_back(visit, lock);
    made.status = KINA_ERROR_OUT_OF_MEMORY;
  }
  was_refused_ = made.status != KINA_SUCCESS;
  if (was_refused_) {
    reserved_bytes_.subtract(bytes);
    if (initial_bytes != 0) initial_bytes_ = initial_bytes;
  } else {
    most_reserved_bytes_.set(std::max(most_reserved_bytes_.get(), reserved_bytes_.get()));
    if (initial_bytes != 0) initial_bytes_ = 0;  // a forked child put it back
  }
  leave(visit);
  return made.status;
}

uint64_t PoolResource::shed(uint64_t keep_bytes, Stream& stream, Lock& lock) noexcept {
  collect(lock);
  const uint64_t kept = keep_bytes - std::min(keep_bytes, idle_slab_bytes_);
  uint64_t total = 0;
  Visit visit{std::this_thread::get_id(), 0};
  add(visit);
  const uint64_t round = ++shed_rounds_;
  while (auto* span = arena_.find_free_span(kept, round)) {
    const Arena::Run pieces = arena_.detach(*span);
    const uint64_t bytes = visit.bytes = span->memory.bytes;
    moving_bytes_ += bytes;
    const bool is_over = follow(pieces, stream, lock);
    const bool is_gone = is_over || is_lost();
    if (is_gone) {
      counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      give_upstream(span->memory, is_over, stream);
      come_back(visit, lock);
      arena_.end(*span);
      reserved_bytes_.subtract(bytes);
      total += bytes;
    } else {
      arena_.come_back(*span, round);
    }
    moving_bytes_ -= bytes;
    visit.bytes = 0;
  }
  if (reserved_bytes_.get() == 0 && plan_.growth == KINA_GROWTH_NONE) initial_bytes_ = plan_.initial_bytes;
  leave(visit);
  return total;
}

// All work on `pieces` is over: for `stream`, where the upstream goes by its order, or else for the host.
bool PoolResource::follow(Arena::Run pieces, Stream& stream, Lock& lock) noexcept {
  const bool is_in_order = upstream()->supports_streams();
  OrderCalls calls;
  bool is_over = true;
  while (pieces && is_over) {
    const Stamp stamp = arena_.next_stamp(pieces);
    if (stamp.shelf == Stamp::kNothing) continue;
    lock.unlock();
    is_over = stamp.all(
        [&](const Point& point) { return is_in_order ? try_order_after(stream, point, calls) : try_wait_for(point); });
    lock = enter();
  }
  count(calls);
  return is_over;
}

void PoolResource::give_upstream(const ArenaSpan& span, bool is_over, Stream& stream) noexcept {
  if (is_over) {
    upstream()->give(span.base, {span.bytes, span.alignment, BlockUse::internal}, stream);
  } else {
    upstream()->leak(span.base, span.bytes, span.alignment);
  }
}

void PoolResource::count(const OrderCalls& calls) noexcept {
  event_records_.fetch_add(calls.event_records, std::memory_order_relaxed);
  stream_waits_.fetch_add(calls.stream_waits, std::memory_order_relaxed);
}

PoolResource::Lock PoolResource::enter() noexcept {
  Lock lock = mutex_.own();
  renew_in_child();
  return lock;
}

// In a forked child: the threads that visit upstream or wait are not here, nor what they were about to bring.
void PoolResource::renew() noexcept {
  forks_ = forks();
  visits_ = nullptr;
  reserved_bytes_.subtract(std::exchange(moving_bytes_, 0));
  if (reserved_bytes_.get() == 0 && plan_.growth == KINA_GROWTH_NONE) initial_bytes_ = plan_.initial_bytes;
  new (&changed_) std::condition_variable;  // destroying the old one would wait for those that wait on it
}

void PoolResource::add(Visit& visit) noexcept {
  visit.forks = forks_;
  visit.next = visits_;
  visits_ = &visit;
  moving_bytes_ += visit.bytes;
}

void PoolResource::leave(Visit& visit) noexcept {
  Visit** at = &visits_;
  while (*at != &visit) at = &(*at)->next;
  *at = visit.next;
  moving_bytes_ -= visit.bytes;
  changed_.notify_all();
}

void PoolResource::come_back(Visit& visit, Lock& lock) noexcept {
  lock = enter();
  if (visit.forks == forks_) return;
  add(visit);  // the callback forked: this is the child
  reserved_bytes_.add(visit.bytes);
}

uint64_t PoolResource::trim(uint64_t keep_bytes) noexcept {
  Lock lock = enter();
  return shed(keep_bytes, device().main(), lock);
}

Ref<Resource> make_pool(const Ref<Resource>& upstream, const PoolPlan& plan) {
  Ref<PoolResource> pool = make_counted<PoolResource>(upstream, plan);
  const KinaStatus status = pool->start(current_stream(pool->device()));
  if (status != KINA_SUCCESS) refuse_allocation("KINA-RESOURCE-38", status, plan.initial_bytes, *pool->upstream());
  return pool;
}

void shed_after_synchronise(Device& device) noexcept {
  Thresholds& all = thresholds();
  for (size_t index = 0;; ++index) {
    Ref<PoolResource> pool;
    {
      const std::lock_guard lock(all.mutex);
      while (index < all.pools.size() && &all.pools[index]->device() != &device) ++index;
      if (index >= all.pools.size()) return;
      pool = Ref<PoolResource>::try_share(all.pools[index]);
    }
    if (pool) pool->shed_above_threshold();
  }
}

void PoolResource::shed_above_threshold() noexcept {
  Lock lock = enter();
  shed(plan_.threshold_bytes, device().main(), lock);
}

}  // namespace kina
