// What is asked of streams that may capture.
#include "impl/core/capture.h"

#include "impl/core/device.h"

namespace kina {

namespace {

uint64_t capture_on(Stream& stream) {
  const bool can_capture =
      stream.timeline.has_foreign_work.load(std::memory_order_acquire) && stream.device().backend().is_asynchronous();
  return can_capture ? stream.device().backend().capture(stream.native()) : 0;
}

}  // namespace

bool captures(Stream& stream) { return capture_on(stream) != 0; }

bool may_capture(Stream& stream) noexcept {
  try {
    return captures(stream);
  } catch (...) {
    return true;
  }
}

uint64_t recording_on(Stream& stream) {
  const uint64_t capture = capture_on(stream);
  if (capture == 0) [[likely]]
    return 0;
  require<Message::capture_unannounced>(stream.is_announced(), "KINA-STREAM-41", {});
  return capture;
}

bool is_recorded(Stream& stream) { return recording_on(stream) != 0; }

void require_announced(Stream& stream) { (void)is_recorded(stream); }

void require_no_capture(Stream& stream) { require<Message::stream_captures>(!captures(stream), "KINA-STREAM-22", {}); }

Ref<Resource> resource_for(Stream& stream) {
  if (Ref<Resource> announced = stream.announced_resource()) [[unlikely]]
    return announced;
  return current_resource(stream.device());
}

}  // namespace kina
