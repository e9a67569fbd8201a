// An adaptor that passes everything through and reports each request as a row.
#pragma once

#include "impl/core/stream.h"
#include "impl/memory/adaptor.h"
#include "impl/memory/cache.h"
#include "impl/memory/row_drain.h"

namespace kina {

class LoggingResource final : public AdaptorResource {
 public:
  // `params` has passed its checks; rows go to `file` when there is no callback. Throws OUT_OF_MEMORY.
  LoggingResource(const Ref<Resource>& upstream, const KinaLoggingParams& params, Descriptor file);
  void describe(KinaResourceInfo& info) const noexcept override;
  LoggingResource* as_logging() noexcept override { return this; }

  bool has_frames() const noexcept { return drain_->has_frames(); }
  void report(KinaLogEvent event, KinaStatus status, void* data, const Request& request, const Stream& stream,
              uint64_t thread, uint64_t ticks) noexcept {
    drain_->add({event, status, data, request.bytes, request.alignment, stream.handle.load(kRelaxed), handle, thread},
                ticks);
  }

  // Callers' blocks that come and go in a thread's cache of `pool`, right below: their references and what is counted
  // of them stay there until the cache says so. With the lock of all caches.
  void begin_cache(PoolResource& pool) noexcept;
  void end_cache(CacheCounters& counted) noexcept;
  void fold_bytes(CacheCounters& counted) noexcept;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // More than there are blocks: a block that was taken there may be given back elsewhere, with a reference.
  static constexpr uint64_t kReferencesOfCache = uint64_t{1} << 32;

  ~LoggingResource() override;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                       Stream& stream) noexcept override;
  void note_given(void* data, const Request& request, Stream& stream) noexcept override;
  void handle_ended() noexcept override;
  void report(KinaLogEvent event, KinaStatus status, void* data, const Request& request, const Stream& stream) noexcept;
  // What the calling thread has not yet shown, so that the peak is seen by what comes next.
  void fold_own_bytes() noexcept;

  Ref<RowDrain> drain_;
  std::atomic<PoolResource*> pool_of_caches_{nullptr};  // upstream, once a cache has begun
};

}  // namespace kina
