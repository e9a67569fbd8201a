// Which requests become rows, and when.
#include "impl/memory/logging.h"

namespace kina {

LoggingResource::LoggingResource(const Ref<Resource>& upstream, const KinaLoggingParams& params, Descriptor file)
    : AdaptorResource("logging", upstream) {
  const bool has_frames = (params.flags & KINA_LOGGING_FRAMES) != 0;
  drain_ = make_counted<RowDrain>(params.ring_rows == 0 ? 65536 : params.ring_rows, has_frames, name());
  RowTarget& target = drain_->target();
  target.callback = params.callback;
  target.context = params.context;
  if (params.callback == nullptr) target.file.emplace(std::move(file), params.format, name(), has_frames);
  if (target.file) remember_at_exit(drain_.get());
  const bool is_started = drain_->start();
  if (!is_started) forget_at_exit(drain_.get());
  require<Message::out_of_threads>(is_started, "KINA-STATUS-44", {});
}

LoggingResource::~LoggingResource() {
  forget_at_exit(drain_.get());
  drain_->stop();
}

Allocation LoggingResource::do_take(const Request& request, Stream& stream) noexcept {
  fold_own_bytes();
  const Allocation made = AdaptorResource::do_take(request, stream);
  report(KINA_LOG_EVENT_ALLOCATE, made.status, made.data, request, stream);
  return made;
}

Return LoggingResource::do_give_after(std::span<const Point> uses, void* data, const Request& request,
                                      Stream& stream) noexcept {
  fold_own_bytes();
  const Return answer = AdaptorResource::do_give_after(uses, data, request, stream);
  if (answer != Return::done) report(KINA_LOG_EVENT_DEALLOCATE, KINA_ERROR_INVALID_ARGUMENT, data, request, stream);
  return answer;
}

// Before another thread may be given the block and log that.
void LoggingResource::note_given(void* data, const Request& request, Stream& stream) noexcept {
  report(KINA_LOG_EVENT_DEALLOCATE, KINA_SUCCESS, data, request, stream);
}

void LoggingResource::report(KinaLogEvent event, KinaStatus status, void* data, const Request& request,
                             const Stream& stream) noexcept {
  report(event, status, data, request, stream, name_of_thread(), now_ticks());
}

}  // namespace kina
