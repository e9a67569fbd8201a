// What a device without streams of its own answers: nothing here is ever called on one.
#include "impl/backend/backend.h"

namespace kina {
namespace {

[[noreturn]] void refuse_synchronous() {
  refuse<Message::internal>("KINA-STREAM-10", {}, "a device without streams was asked for one");
}

}  // namespace

NativeStream Backend::make_stream(int32_t) { refuse_synchronous(); }
void Backend::end_stream(NativeStream) noexcept {}
NativeEvent Backend::record(NativeStream) { refuse_synchronous(); }
void Backend::wait(NativeStream, NativeEvent) { refuse_synchronous(); }
void Backend::synchronize(NativeEvent) { refuse_synchronous(); }
bool Backend::is_done(NativeEvent) { refuse_synchronous(); }
void Backend::release(NativeEvent) noexcept {}
bool Backend::is_capturing(NativeStream) { return false; }

}  // namespace kina
