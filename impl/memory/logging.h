// An adaptor that passes everything through and reports each request as a row.
#pragma once

#include "impl/memory/adaptor.h"
#include "impl/memory/row_drain.h"

namespace kina {

class LoggingResource final : public AdaptorResource {
 public:
  // `params` has passed its checks; rows go to `file` when there is no callback. Throws OUT_OF_MEMORY.
  LoggingResource(const Ref<Resource>& upstream, const KinaLoggingParams& params, Descriptor file);
  void describe(KinaResourceInfo& info) const noexcept override;
  LoggingResource* as_logging() noexcept override { return this; }

  // A caller's block came or went without this resource being asked: with a reference more, or before one less.
  void tell_taken(void* data, const Request& request, const Stream& stream) noexcept;
  void tell_given(void* data, const Request& request, const Stream& stream) noexcept;

 private:
  ~LoggingResource() override;
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give_after(std::span<const Point> uses, void* data, const Request& request,
                       Stream& stream) noexcept override;
  void note_given(void* data, const Request& request, Stream& stream) noexcept override;
  void report(KinaLogEvent event, KinaStatus status, void* data, const Request& request, const Stream& stream) noexcept;

  Ref<RowDrain> drain_;
};

}  // namespace kina
