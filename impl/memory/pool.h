// An adaptor that takes spans from its upstream, serves blocks from them and keeps what comes back.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "impl/core/mutex.h"
#include "impl/memory/arena.h"

namespace kina {

// The parameters of a pool with every default filled in.
struct PoolPlan {
  KinaGrowth growth;
  bool is_lazy;
  uint64_t initial_bytes;   // 0: no span of a fixed size comes first
  bool is_initial_default;  // nobody asked for them: where they are refused the pool starts without
  uint64_t maximum_bytes;   // 0: none
  uint64_t growth_bytes;    // of KINA_GROWTH_FIXED
  uint64_t alignment;
  uint64_t threshold_bytes;  // free bytes kept at a synchronise; 0: all
};
PoolPlan plan_of(const KinaPoolParams& params, bool is_host);

class PoolResource final : public Resource {
 public:
  PoolResource(const Ref<Resource>& upstream, const PoolPlan& plan);

  // Takes the initial span now unless the plan is lazy. What the upstream answers is the answer.
  KinaStatus start(Stream& stream) noexcept;

  bool supports_streams() const noexcept override { return true; }
  void describe(KinaResourceInfo& info) const noexcept override;
  uint64_t trim(uint64_t keep_bytes) noexcept override;
  void shed_above_threshold() noexcept;

 private:
  ~PoolResource() override;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give(void* data, const Request& request, Stream& stream) noexcept override;

  // What a thread does about a request that no free piece holds.
  struct Step {
    enum class Kind : uint8_t { grow, wait, reclaim, refuse } kind;
    uint64_t bytes = 0;  // of the span to take
  };
  Step next_step(uint64_t needed, bool is_last_try) const noexcept;
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

  using Lock = std::unique_lock<std::mutex>;
  // These leave the lock while they call upstream.
  KinaStatus grow(uint64_t bytes, uint64_t alignment, Stream& stream, Lock& lock) noexcept;
  uint64_t shed(uint64_t keep_bytes, Stream& stream, Lock& lock) noexcept;
  Lock enter() noexcept;
  void renew() noexcept;
  void add(Visit& visit) noexcept;
  void leave(Visit& visit) noexcept;
  // Takes the lock again after a call upstream.
  void come_back(Visit& visit, Lock& lock) noexcept;

  const PoolPlan plan_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Arena arena_;
  uint64_t reserved_bytes_ = 0;  // spans that are held or on their way in or out
  uint64_t initial_bytes_;       // of the span that comes first; 0 when it has come
  Visit* visits_ = nullptr;      // on the stacks of threads of this process
  uint64_t moving_bytes_ = 0;    // of the reserved ones: spans of visits
  uint64_t forks_ = forks();
};

// A pool that has its initial span, unless the plan is lazy; throws what the upstream refused with.
Ref<Resource> make_pool(const Ref<Resource>& upstream, const PoolPlan& plan);

// A synchronise on `device` has passed: its pools give back what lies above their thresholds.
void shed_after_synchronise(Device& device) noexcept;

}  // namespace kina
