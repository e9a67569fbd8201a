// A resource that passes every block of its upstream through.
#pragma once

#include "impl/core/resource.h"

namespace kina {

// Base of logging and limit. It remembers no blocks: those of its callers are live in the upstream under its number, so
// that a deallocation which is wrong is refused there, and none is carried out twice.
class AdaptorResource : public Resource {
 public:
  // Throws OUT_OF_MEMORY where all numbers are taken.
  AdaptorResource(const char* word, const Ref<Resource>& upstream);

  BlockUse use_of_callers() const noexcept { return use_of_callers_; }
  bool supports_streams() const noexcept override { return upstream()->supports_streams(); }
  bool follows_uses() const noexcept override { return upstream()->follows_uses(); }
  void describe(KinaResourceInfo& info) const noexcept override;
  void leak(void* data, uint64_t bytes, uint64_t alignment) noexcept override;
  Return change_use(void* data, const Request& request, BlockUse use) noexcept override {
    return upstream()->change_use(data, request, use);
  }

 protected:
  ~AdaptorResource() override;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give(void* data, const Request& request, Stream& stream) noexcept final {
    return do_give_after({}, data, request, stream);
  }
  Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                       Stream& stream) noexcept override;
  // A block is over, and not yet back upstream.
  virtual void note_given(void* data, const Request& request, Stream& stream) noexcept {
    (void)data, (void)request, (void)stream;
  }

  // An allocation or deallocation that upstream was not asked for.
  void count_unasked() noexcept { unasked_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Request passed(const Request& request) const noexcept {
    return {request.bytes, request.alignment, request.use == BlockUse::raw ? use_of_callers_ : request.use};
  }

  const BlockUse use_of_callers_;
  std::atomic<uint64_t> unasked_{0};
};

}  // namespace kina
