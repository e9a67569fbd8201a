// Entry points of the status chapter. Those that read the record never set it, so they pass no boundary.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/log.h"
#include "impl/core/thread.h"

using namespace kina;

namespace {

KinaErrorInfo described(const ErrorRecord& record) {
  KinaErrorInfo info{};
  info.message = "";
  if (record.status == KINA_SUCCESS) return info;
  const Error& error = record.error;
  info.status = record.status;
  if (const StatusRow* row = find_status(record.status)) {
    info.category = row->category;
    info.retryable = row->is_retryable;
  }
  info.argument = static_cast<int32_t>(error.argument.position);
  info.native_domain = error.native.domain;
  info.native_code = error.native.code;
  info.failure = error.failure;
  info.requested_bytes = error.requested_bytes;
  info.function = record.function;
  info.argument_name = error.argument.name;
  info.clause = error.clause;
  info.native_name = error.native.name;
  info.native_message = error.native.message;
  info.message = error.text;
  return info;
}

}  // namespace

const char* runtime_status_name(KinaStatus status) {
  const StatusRow* row = find_status(status);
  return row == nullptr ? "UNKNOWN" : row->name;
}

const char* runtime_last_error_message(void) {
  const ErrorRecord& record = error_record();
  return record.status == KINA_SUCCESS ? "" : record.error.text;
}

KinaStatus runtime_last_error(KinaErrorInfo* out) {
  return unrecorded([&] {
    OutputStruct described_to(out, {1, "out"});
    dereference(described_to);
    described_to.publish(described(error_record()));
  });
}

void runtime_clear_last_error(void) { changing_error_record() = ErrorRecord{}; }

KinaStatus runtime_set_log_callback(KinaLogCallback callback, void* context, KinaLogLevel level) {
  return boundary(__func__, [&] {
    require<Message::log_from_callback>(!is_logging(), "KINA-STATUS-41", {});
    require<Message::log_level_unknown>(level >= KINA_LOG_OFF && level <= KINA_LOG_TRACE, "KINA-STATUS-40",
                                        {3, "level"}, "level", level);
    listen(callback, context, level);
  });
}
