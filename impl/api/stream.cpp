// Entry points of the stream chapter: streams, and the scopes that bind them.
#include "impl/core/stream.h"

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/capture.h"
#include "impl/core/check.h"
#include "impl/core/device.h"
#include "impl/core/thread.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"};
constexpr Argument kStream{2, "stream"};

KinaStream name_of(const Stream& stream) { return handle_of<KinaStream>(stream.handle); }

// The functions that give a stream of a device differ in nothing but the choice, which is a name.
template <class Choose>
[[gnu::noinline]] KinaStatus give_stream(const char* function, KinaStream* out, int32_t device_type, int32_t device_id,
                                         Choose choose) {
  return boundary(function, [&] {
    Pointer given(out, kOut);
    dereference(given);
    *given = choose(require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"}));
  });
}

void require_phase(int32_t phase, Argument argument) {
  require<Message::phase_negative>(phase >= 0, "KINA-STREAM-8", argument, argument.name, phase);
}

[[gnu::noinline]] KinaStatus push_stream(const char* function, KinaScope* out, KinaStream stream, ScopeKind kind) {
  return boundary(function, [&] {
    Pointer token(out, kOut);
    StreamArgument bound(stream, kStream);
    dereference(token, bound);
    ScopeEntry entry(demand_thread_block().scopes, kind, &bound->device());
    entry.bind(*bound, value_of(stream), kStream);
    *token = handle_of<KinaScope>(entry.enter());
  });
}

[[gnu::noinline]] KinaStatus pop(const char* function, KinaScope scope) {
  return boundary(function, [&] {
    require<Message::null_handle>(scope != nullptr, "KINA-STATUS-28", {1, "scope"}, "scope");
    constexpr Argument kScope{1, "scope"};
    ThreadBlock* block = thread_block();
    // A thread for which host memory is out has no scopes, and a release asks for none.
    if (block == nullptr) ScopeStack::refuse_pop(value_of(scope), kScope);
    block->scopes.pop(value_of(scope), kScope);
  });
}

bool push_at_once(KinaScope* out, KinaStream stream, ScopeKind kind) noexcept {
  ThreadBlock* thread = own_block();
  return out != nullptr && thread != nullptr && thread->scopes.enter_stream_at_once(*out, kind, value_of(stream));
}

}  // namespace

KinaStatus runtime_stream_main(KinaStream* out, int32_t device_type, int32_t device_id) {
  return give_stream(__func__, out, device_type, device_id, [](Device& device) { return name_of(device.main()); });
}

KinaStatus runtime_stream_checkout(KinaStream* out, int32_t device_type, int32_t device_id) {
  return give_stream(__func__, out, device_type, device_id, [](Device& device) { return name_of(*device.checkout()); });
}

KinaStatus runtime_stream_checkin(KinaStream stream) {
  return boundary(__func__, [&] {
    StreamArgument ended(stream, {1, "stream"});
    dereference(ended);
    ended->device().checkin(*ended, value_of(stream), {1, "stream"});
  });
}

KinaStatus runtime_stream_import(KinaStream* out, int32_t device_type, int32_t device_id, void* native) {
  return boundary(__func__, [&] {
    Pointer given(out, kOut);
    dereference(given);
    require<Message::null_pointer>(native != nullptr, "KINA-STATUS-23", {4, "native"}, "native");
    Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    require<Message::stream_unknown>(device.backend().is_stream(device.id(), native), "KINA-STREAM-51", {4, "native"},
                                     "native", device.name());
    require<Message::stream_not_native>(device.backend().is_asynchronous(), "KINA-STREAM-12", {2, "device_type"},
                                        device.name());
    *given = name_of(device.import(native));
  });
}

KinaStatus runtime_stream_release(KinaStream stream) {
  return boundary(__func__, [&] {
    StreamArgument ended(stream, {1, "stream"});
    dereference(ended);
    ended->device().end_import(*ended, value_of(stream), {1, "stream"});
  });
}

KinaStatus runtime_stream_native(void** out, KinaStream stream) {
  return boundary(__func__, [&] {
    Pointer given(out, kOut);
    StreamArgument asked(stream, kStream);
    dereference(given, asked);
    note_foreign(*asked);
    *given = asked->native();
  });
}

KinaStatus runtime_stream_synchronize(KinaStream stream) {
  return boundary(__func__, [&] {
    StreamArgument awaited(stream, {1, "stream"});
    dereference(awaited);
    require_no_capture(*awaited);
    require_alive(awaited->device());
    wait_for(now(*awaited));
    show_checks(*awaited);
  });
}

KinaStatus runtime_stream_query(int32_t* out, KinaStream stream) {
  return boundary(__func__, [&] {
    Pointer answered(out, kOut);
    StreamArgument asked(stream, kStream);
    dereference(answered, asked);
    require_no_capture(*asked);
    require_alive(asked->device());
    *answered = is_idle(*asked);
  });
}

KinaStatus runtime_stream_wait(KinaStream stream, KinaStream awaited) {
  return boundary(__func__, [&] {
    StreamArgument later(stream, {1, "stream"});
    StreamArgument earlier(awaited, {2, "awaited"});
    dereference(later, earlier);
    require_no_capture(*later);
    require_no_capture(*earlier);
    order_after(*later, now(*earlier));
  });
}

KinaStatus runtime_stream_current(KinaStream* out, int32_t device_type, int32_t device_id) {
  const Device* device = known_device(device_type, device_id);
  const ThreadBlock* thread = own_block();
  if (out != nullptr && device != nullptr && thread != nullptr) [[likely]] {
    const Stream* bound = thread->scopes.bound_stream(*device);
    *out = name_of(bound == nullptr ? device->main() : *bound);
    return KINA_SUCCESS;
  }
  return give_stream(__func__, out, device_type, device_id,
                     [](Device& found) { return name_of(current_stream(found)); });
}

KinaStatus runtime_stream_phase(KinaStream* out, int32_t device_type, int32_t device_id, int32_t phase) {
  return boundary(__func__, [&] {
    Pointer given(out, kOut);
    dereference(given);
    require_phase(phase, {4, "phase"});
    *given = name_of(*require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"}).phase(phase));
  });
}

KinaStatus runtime_stream_push(KinaScope* out, KinaStream stream) {
  if (push_at_once(out, stream, ScopeKind::stream)) [[likely]]
    return KINA_SUCCESS;
  return push_stream(__func__, out, stream, ScopeKind::stream);
}

KinaStatus runtime_phase_push(KinaScope* out, int32_t phase) {
  return boundary(__func__, [&] {
    Pointer token(out, kOut);
    dereference(token);
    require_phase(phase, {2, "phase"});
    ScopeEntry entry(demand_thread_block().scopes, ScopeKind::phase, nullptr);
    entry.set_phase(phase);
    *token = handle_of<KinaScope>(entry.enter());
  });
}

KinaStatus runtime_redirect_push(KinaScope* out, KinaStream stream) {
  if (push_at_once(out, stream, ScopeKind::redirect)) return KINA_SUCCESS;
  return push_stream(__func__, out, stream, ScopeKind::redirect);
}

KinaStatus runtime_capture_push(KinaScope* out, KinaStream stream, KinaResource resource) {
  return boundary(__func__, [&] {
    Pointer token(out, kOut);
    StreamArgument captured(stream, kStream);
    ResourceArgument source(resource, {3, "resource"});
    dereference(token, captured, source);
    require<Message::capture_elsewhere>(&captured->device() == &source->device(), "KINA-STREAM-49", {3, "resource"},
                                        "resource");
    require<Message::capture_not_offered>(captured->device().backend().is_asynchronous(), "KINA-STREAM-42", kStream);
    // Others may want to wait for what is on the stream so far, and while it captures no event of that can be made.
    if (!captures(*captured)) has_run(now(*captured));
    ScopeEntry entry(demand_thread_block().scopes, ScopeKind::capture, &captured->device());
    entry.install(*source, value_of(resource), source.argument());
    entry.bind(*captured, value_of(stream), kStream);
    *token = handle_of<KinaScope>(entry.enter());
  });
}

KinaStatus runtime_scope_pop(KinaScope scope) {
  ThreadBlock* thread = own_block();
  if (thread != nullptr && thread->scopes.pop_at_once(value_of(scope))) [[likely]]
    return KINA_SUCCESS;
  return pop(__func__, scope);
}
