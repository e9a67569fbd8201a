// What most devices answer alike.
#include "impl/backend/backend.h"

#include <cstdlib>

namespace kina {
namespace {

[[noreturn]] void refuse_synchronous() {
  refuse<Message::internal>("KINA-STREAM-10", {}, "a device without streams was asked for one");
}

}  // namespace

void* Backend::allocate_shared(uint64_t bytes) noexcept { return std::calloc(1, bytes); }
void Backend::check_indices(const GatherArgs&) const {}

Row<CollectArgs> Backend::collect() const noexcept {
  return [](const CollectArgs& args, NativeStream) {
    if (args.met->runs != args.seen->runs) *args.out = *args.met;
    *args.seen = *args.met;
  };
}

// A device without streams of its own is never asked for what follows.
NativeStream Backend::make_stream(int32_t) { refuse_synchronous(); }
bool Backend::is_stream(int32_t, NativeStream) const noexcept { return true; }
void Backend::end_stream(NativeStream) noexcept {}
NativeEvent Backend::record(NativeStream) { refuse_synchronous(); }
void Backend::wait(NativeStream, NativeEvent) { refuse_synchronous(); }
void Backend::synchronize(NativeEvent) { refuse_synchronous(); }
bool Backend::is_done(NativeEvent) { refuse_synchronous(); }
bool Backend::is_idle(NativeStream) { return true; }
void Backend::release(NativeEvent) noexcept {}
uint64_t Backend::capture(NativeStream) { return 0; }
void Backend::keep_with_graph(NativeStream, void*, void (*)(void*) noexcept) { refuse_synchronous(); }

}  // namespace kina
