// An adaptor that passes everything through and reports each request as a row.
#pragma once

#include "impl/memory/row_drain.h"
#include "impl/memory/tracked.h"

namespace kina {

class LoggingResource final : public AdaptorResource {
 public:
  // `params` has passed its checks; rows go to `file` when there is no callback. Throws OUT_OF_MEMORY.
  LoggingResource(const Ref<Resource>& upstream, const KinaLoggingParams& params, Descriptor file);
  void describe(KinaResourceInfo& info) const noexcept override;

 private:
  ~LoggingResource() override;
  Allocation obtain(const Request& request, Stream& stream) noexcept override;
  bool give_back(void* data, const Request& request, Stream& stream) noexcept override;
  Return do_give(void* data, const Request& request, Stream& stream) noexcept override;
  void report(KinaLogEvent event, KinaStatus status, void* data, const Request& request, const Stream& stream) noexcept;

  Ref<RowDrain> drain_;
};

}  // namespace kina
