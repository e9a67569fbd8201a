// What is asked of streams that may capture.
#include "impl/core/capture.h"

#include "impl/core/device.h"

namespace kina {

bool captures(Stream& stream) {
  return stream.timeline.has_foreign_work.load(std::memory_order_acquire) &&
         stream.device().backend().is_asynchronous() && stream.device().backend().is_capturing(stream.native());
}

bool may_capture(Stream& stream) noexcept {
  try {
    return captures(stream);
  } catch (...) {
    return true;
  }
}

bool is_recorded(Stream& stream) {
  if (!captures(stream)) [[likely]]
    return false;
  require<Message::capture_unannounced>(stream.is_announced(), "KINA-STREAM-41", {});
  return true;
}

void require_announced(Stream& stream) { (void)is_recorded(stream); }

void require_no_capture(Stream& stream) { require<Message::stream_captures>(!captures(stream), "KINA-STREAM-22", {}); }

Ref<Resource> resource_for(Stream& stream) {
  if (Ref<Resource> announced = stream.announced_resource()) [[unlikely]]
    return announced;
  return current_resource(stream.device());
}

}  // namespace kina
