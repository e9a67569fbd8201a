// An adaptor that takes spans from its upstream, serves blocks from them and keeps what comes back.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "impl/core/resident_mutex.h"
#include "impl/memory/address_table.h"
#include "impl/memory/apart.h"
#include "impl/memory/arena.h"
#include "impl/memory/cache.h"
#include "impl/memory/lane.h"
#include "impl/memory/slab.h"

namespace kina {

// The parameters of a pool with every default filled in.
struct PoolPlan {
  KinaGrowth growth;
  bool is_lazy;
  uint64_t initial_bytes;   // 0: no span of a fixed size comes first
  bool is_opportunistic;    // what is seen to have run need not be waited for
  bool is_initial_default;  // nobody asked for them: where they are refused the pool starts without
  uint64_t maximum_bytes;   // 0: none
  uint64_t growth_bytes;    // of KINA_GROWTH_FIXED
  uint64_t alignment;
  uint64_t threshold_bytes;  // free bytes kept at a synchronise; 0: all
};
PoolPlan plan_of(const KinaPoolParams& params, bool is_host);

// Locks are taken in this order: that of all caches, one cache's, the pool's, one lane's, a stream's.
class PoolResource final : public Resource {
 public:
  PoolResource(const Ref<Resource>& upstream, const PoolPlan& plan);

  // Takes the initial span now unless the plan is lazy. What the upstream answers is the answer.
  KinaStatus start(Stream& stream) noexcept;

  bool supports_streams() const noexcept override { return true; }
  // Where work is over when a call returns, blocks go out again at once: others' uses of them are waited for.
  bool follows_uses() const noexcept override { return is_ordered_; }
  Return change_use(void* data, const Request& request, BlockUse use) noexcept override;
  void describe(KinaResourceInfo& info) const noexcept override;
  uint64_t trim(uint64_t keep_bytes) noexcept override;
  void shed_above_threshold() noexcept;

  // With the cache's lock, for the stream that it was used for last.
  void* take_at_hand(PoolCache& cache, uint64_t bytes, uint64_t alignment) noexcept;
  bool give_at_hand(PoolCache& cache, void* data, uint64_t bytes, uint64_t alignment) noexcept;
  void keep(StreamCache& here, Block& block, uint32_t size_class, uint32_t taker) noexcept;
  // Adds what the cache has counted to what all see: live bytes and their peak, or everything.
  void fold_bytes(PoolCache& cache) noexcept;
  void fold(PoolCache& cache) noexcept;
  // What callers do through `logging`, as far as caches have counted it; and the end of that, for good.
  void add_logged(const LoggingResource& logging, KinaResourceInfo& info, int64_t& peak) const noexcept;
  void stop_logging(const LoggingResource& logging) noexcept;
  // With the lock of all caches and that of `cache`.
  static void stop_logging(PoolCache& cache) noexcept;
  // With the lock of all caches, while the owner is not in `cache`: takes everything back from it. It may belong to
  // another pool afterwards.
  void close(PoolCache& cache) noexcept;

 private:
  ~PoolResource() override;
  bool has_own_account() const noexcept override { return true; }
  Ending release_near_end() const noexcept override;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give(void* data, const Request& request, Stream& stream) noexcept override {
    return do_give_after({}, data, request, stream);
  }
  Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                       Stream& stream) noexcept override;

  // ---- caches: pool_caches.cpp ----
  // The calling thread's cache, open and locked; NULL when host memory is out.
  PoolCache* enter_cache() noexcept;
  bool enter_open(PoolCache& cache) const noexcept;
  PoolCache* open_cache(ThreadBlock& thread) noexcept;
  PoolCache* find_cache(ThreadBlock& thread) const noexcept;
  void renew_caches() noexcept;
  // With the lock of all caches: changes each one of the pool as its visitor. One fence serves all.
  template <class Change>
  void visit_caches(Change&& change) noexcept {
    announce_visits();
    for (PoolCache* next = caches_; next != nullptr;) {
      PoolCache& cache = *std::exchange(next, next->next);
      cache.lock.await_owner();
      change(cache);
      cache.lock.leave();
    }
  }
  void announce_visits() noexcept;
  // Returns how many allocations there were so far.
  uint64_t flush_caches() noexcept;
  // With a visit to the cache: moves what it has at hand to the lanes; ends its part in this pool.
  void drain(PoolCache& cache) noexcept;
  static void pass_on(StreamCache& here, uint32_t size_class, Block*& batch, uint16_t& count) noexcept;
  // The same for blocks whose neighbours other threads may have: they reach the lane with these.
  void reunite(StreamCache& here, uint32_t size_class, Block*& blocks, uint16_t& count) noexcept;
  void unlink(PoolCache& cache) noexcept;
  Return give_without_cache(std::span<const Point> uses, void* data, const Request& request, Stream& stream) noexcept;
  void raise_peak(uint64_t live) noexcept;
  // What all see to be live.
  uint64_t shared_bytes() const noexcept;
  // Before that changes by more than a cache may keep to itself: its own peak came on top of what was live till now.
  void settle_peak(PoolCache& cache) noexcept;
  // With the pool's lock, and that of the cache, where the thread has one.
  void add_arena_bytes(PoolCache* cache, uint64_t bytes) noexcept;
  void remove_arena_bytes(PoolCache* cache, uint64_t bytes) noexcept;
  void count_taken(uint64_t bytes, bool is_hit) noexcept;
  void count_given(PoolCache* cache, uint64_t bytes) noexcept;

  // ---- blocks: pool_blocks.cpp ----
  // Makes the magazines for `stream` the current ones; false when host memory is out.
  bool select(PoolCache& cache, Stream& stream) noexcept;
  bool is_lost() const noexcept;
  bool is_ordinary(const PoolCache& cache) const noexcept;
  // How far a look goes that neither waits nor grows the pool.
  enum class Reach : uint8_t { own, known_order };
  void* serve(PoolCache& cache, const Request& request, Reach reach) noexcept;
  Block* refill(StreamCache& here, uint32_t size_class) noexcept;
  Block* find_batch(StreamCache& here, uint32_t size_class, uint32_t& count) noexcept;
  // The stream that a live block was taken on, where there is an order of streams.
  Stream* taker_of(const void* data) noexcept;
  // The record of a block of one of the pool's slabs; NULL where the arena knows.
  Block* find_block(const void* data, Slab*& slab) const noexcept;
  bool is_of_slab(const void* data, const Request& request) const noexcept;
  Return end_block(Block& block, const Request& request, uint32_t& cache) const noexcept;
  // What all uses of are on the stream that gives it up; false, with nothing changed, where another one took it.
  bool put_back(PoolCache& cache, void* data, const Request& request, Return& answer) noexcept;
  Return put_back_after(std::span<const Point> uses, PoolCache* cache, StreamCache* here, void* data,
                        const Request& request, Stream& stream) noexcept;
  // `taker` is NULL where it is the stream that gives up.
  bool wait_for_all(std::span<const Point> uses, Stream* taker, Stream& stream) noexcept;
  bool make_stamp(std::span<const Point> uses, Stream* taker, Lane& lane, Stamp& stamp) noexcept;
  void keep_after(const Stamp& stamp, Lane& lane, Block& block, uint32_t size_class) noexcept;

  // ---- slabs: pool_slabs.cpp ----
  using Lock = std::unique_lock<std::mutex>;
  bool is_cut_from_slab(const Request& request) const noexcept {
    return request.alignment == alignment() && sizes_.serves(request.bytes);
  }
  Request slab_request(uint32_t size_class, uint32_t blocks) const noexcept {
    return {blocks * sizes_.bytes_of(size_class), SizeClasses::kPage, BlockUse::internal};
  }
  // A piece that a stream need not wait for.
  void* take_at_once(const Request& request, uint32_t shelf) noexcept;
  void* take_among_slabs(const Request& request, uint32_t shelf) noexcept;
  // A new slab's blocks as one list, once its size has shown demand; NULL when none can be had.
  Block* cut_slab(uint32_t size_class, Lane& lane) noexcept;
  // Whether other streams than that lane's have a piece for the request.
  bool has_elsewhere(const Request& request, const Lane& here) const noexcept;
  // What is bounded is packed: there are fewer and smaller slabs.
  bool is_bounded() const noexcept { return plan_.growth != KINA_GROWTH_GEOMETRIC || plan_.maximum_bytes != 0; }
  // Whether room for slabs is worth more than the free pieces that would do for the request.
  bool is_short_of_slabs(const Request& request) const noexcept;
  void grow_for_slabs(uint32_t size_class, Stream& stream, Lock& lock) noexcept;
  // One block that lies apart.
  void* take_apart(const Request& request, const Lane& here) noexcept;
  // Brings all blocks at hand together, and makes free pieces of the slabs that nobody uses. Leaves the lock meanwhile.
  void collect(Lock& lock) noexcept;
  void count_free_blocks() noexcept;
  void note_stamps() noexcept;
  void drop_blocks_of_free_slabs() noexcept;
  void end_free_slabs() noexcept;
  Lane* lane_of(Stream& stream) noexcept;
  // Free bytes that belong to any stream, for work on `here`: first what it may have at once, then what it has to
  // wait for.
  void* search(const Request& request, Lane& here, bool has_collected, bool& is_hit) noexcept;
  // What work on `here`, which is recorded by nobody, is known to run after as it is.
  void* take_in_known_order(const Request& request, Lane& here) noexcept;
  template <class F>
  void* search_lanes(const Request& request, Lane& here, F&& can_follow) noexcept;

  // ---- growth: pool.cpp ----
  Allocation take_slowly(const Request& request, Stream& stream) noexcept;
  // What a thread does about a request that no free piece holds.
  struct Step {
    enum class Kind : uint8_t { grow, wait, reclaim, refuse } kind;
    uint64_t bytes = 0;  // of the span to take
  };
  Step next_step(uint64_t needed, bool is_last_try) const noexcept;
  bool may_grow(uint64_t needed) const noexcept;  // now or soon, as far as is known without asking
  bool may_gain_by_collecting(uint64_t needed) const noexcept;
  bool is_collecting_due() const noexcept;
  uint64_t preferred_bytes(uint64_t needed) const noexcept;
  uint64_t room() const noexcept;  // bytes that the maximum leaves

  // A thread that talks to upstream, without the lock. Others may wait for what it brings; it never waits itself.
  struct Visit {
    std::thread::id thread;
    uint64_t bytes;  // of the span that it brings or takes away
    Visit* next = nullptr;
    uint64_t forks = 0;
  };
  bool may_wait() const noexcept;

  // These leave the lock while they call upstream.
  KinaStatus grow(uint64_t bytes, uint64_t alignment, Stream& stream, Lock& lock) noexcept;
  uint64_t shed(uint64_t keep_bytes, Stream& stream, Lock& lock) noexcept;
  bool follow(Arena::Run pieces, Stream& stream, Lock& lock) noexcept;
  void give_upstream(const ArenaSpan& span, bool is_over, Stream& stream) noexcept;
  Lock enter() noexcept;
  void renew_in_child() noexcept {
    if (forks_ != forks()) [[unlikely]]
      renew();
  }
  void renew() noexcept;
  void add(Visit& visit) noexcept;
  void leave(Visit& visit) noexcept;
  // Takes the lock again after a call upstream.
  void come_back(Visit& visit, Lock& lock) noexcept;
  void count(const OrderCalls& calls) noexcept;

  const PoolPlan plan_;
  const uint64_t serial_;  // never reused
  const SizeClasses sizes_;
  const bool is_ordered_;  // work may be under way when a call returns

  // With the lock of all caches.
  PoolCache* caches_ = nullptr;
  bool keeps_itself_ = false;
  uint64_t cache_forks_ = forks();
  std::atomic<uint32_t> open_caches_{0};

  mutable ResidentMutex mutex_;
  std::condition_variable changed_;
  Arena arena_;
  Lane home_{nullptr, Stamp::kNothing};  // of free blocks that follow nothing
  AddressTable<Lane*> lanes_;            // by stream
  Lane* first_lane_ = &home_;
  uint32_t lane_count_ = 0;  // of streams
  Figure arena_bytes_;       // live ones that are no slab's, and that no cache counts
  Apart apart_;
  Slab* slabs_ = nullptr;
  uint64_t slab_bytes_ = 0;
  Figure table_bytes_;             // of slabs and lanes
  uint64_t idle_slab_bytes_ = 0;   // free blocks in slabs in use, when they were last collected
  uint64_t collected_blocks_ = 0;  // that were looked at then
  uint64_t collected_at_ = 0;      // allocations by then
  std::array<uint8_t, SizeClasses::kCount> demand_{};
  std::array<uint8_t, SizeClasses::kCount> shortages_{};  // how often no slab was to be had since the last one
  std::array<uint32_t, SizeClasses::kCount> slab_counts_{};
  uint64_t shed_rounds_ = 0;
  Figure reserved_bytes_;       // spans that are held or on their way in or out
  Figure most_reserved_bytes_;  // so far
  bool was_refused_ = false;    // what upstream was asked for last
  uint64_t initial_bytes_;      // of the span that comes first; 0 when it has come
  Visit* visits_ = nullptr;     // on the stacks of threads of this process
  uint64_t moving_bytes_ = 0;   // of the reserved ones: spans of visits
  uint64_t forks_ = forks();
  std::atomic<uint64_t> event_records_{0}, stream_waits_{0};
};

inline Block* PoolCache::take(uint64_t bytes, BlockUse use) noexcept {
  Block* block = current->magazines[sizes.class_of(bytes)].pop();
  if (block == nullptr) [[unlikely]]
    return nullptr;
  newest = block;
  block->take({bytes, 0, use}, Stamp::kNothing, number);
  if (counters.taken(bytes)) [[unlikely]]
    pool->fold_bytes(*this);
  return block;
}

inline void PoolCache::give(Block& block, uint32_t size_class, uint32_t taker, uint64_t bytes) noexcept {
  if (!current->magazines[size_class].keep(block, taker != number)) [[unlikely]]
    pool->keep(*current, block, size_class, taker);
  if (counters.given(bytes)) [[unlikely]]
    pool->fold_bytes(*this);
}

// A pool that has its initial span, unless the plan is lazy; throws what the upstream refused with.
Ref<Resource> make_pool(const Ref<Resource>& upstream, const PoolPlan& plan);

// A synchronise on `device` has passed: its pools give back what lies above their thresholds.
void shed_after_synchronise(Device& device) noexcept;

}  // namespace kina
