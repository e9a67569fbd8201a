// Entry points of the resource chapter.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/capture.h"
#include "impl/core/thread.h"
#include "impl/memory/custom.h"
#include "impl/memory/defaults.h"
#include "impl/memory/host.h"
#include "impl/memory/limit.h"
#include "impl/memory/logging.h"
#include "impl/memory/raw_blocks.h"

using namespace kina;

namespace {

// An option struct with a reserved field.
template <class T>
class ReservedOptions : public Options<T> {
 public:
  using Options<T>::Options;
  void present() {
    Options<T>::present();
    this->require_reserved((*this)->reserved);
  }
};

// A vtable is no option: it must be there, and so must its two callbacks.
class Vtable : public Options<KinaResourceVtable> {
 public:
  Vtable(const KinaResourceVtable* given, Argument argument) : Options(given, argument, Null::refused) {}
  void present() {
    Options::present();
    require<Message::null_pointer>((*this)->allocate != nullptr, "KINA-RESOURCE-61", {4, "vtable.allocate"},
                                   "vtable.allocate");
    require<Message::null_pointer>((*this)->deallocate != nullptr, "KINA-RESOURCE-61", {4, "vtable.deallocate"},
                                   "vtable.deallocate");
  }
};

KinaResource publish(Ref<Resource> resource) { return handle_of<KinaResource>(publish_resource(std::move(resource))); }

// What a new adaptor keeps. Another thread may have ended the resource since the call looked.
Ref<Resource> shared(const ResourceArgument& argument) {
  require<Message::resource_too_deep>(argument->depth() < kMostAdaptors, "KINA-RESOURCE-75", argument.argument(),
                                      argument.argument().name, argument->depth());
  Ref<Resource> kept = Ref<Resource>::try_share(argument.get());
  require<Message::stale_handle>(bool(kept), "KINA-STATUS-26", argument.argument(), argument.argument().name,
                                 word_of(Kind::resource));
  return kept;
}

void require_power_of_two(uint64_t alignment, const char* clause, Argument argument) {
  require<Message::alignment_not_power>(alignment == 0 || std::has_single_bit(alignment), clause, argument,
                                        argument.name, alignment);
}

void require_initial(uint64_t initial_bytes, uint64_t maximum_bytes, Argument argument) {
  require<Message::pool_initial>(maximum_bytes == 0 || initial_bytes <= maximum_bytes, "KINA-RESOURCE-39", argument,
                                 argument.name, initial_bytes, maximum_bytes);
}

void require_known_value(int32_t value, int32_t last, const char* clause, Argument argument) {
  require<Message::value_unknown>(value >= 0 && value <= last, clause, argument, argument.name, value);
}

// What both raw block functions ask of alignment and stream.
void require_block_numbers(uint64_t alignment, const ResourceArgument& resource, const StreamArgument& stream) {
  require_power_of_two(alignment, "KINA-RESOURCE-18", {4, "alignment"});
  if (!stream) return;
  const Device& device = resource->device();
  const Device& other = stream->device();
  require<Message::resource_stream_elsewhere>(&device == &other, "KINA-RESOURCE-70", stream.argument(),
                                              stream.argument().name, other.name(), device.name());
}

Stream& place_of(const StreamArgument& stream, const ResourceArgument& resource) {
  return stream ? *stream : current_stream(resource->device());
}

// The file that rows go to: stderr, or what `path` names, made if need be. It is emptied once nothing can fail any
// more.
Descriptor open_log(const char* path) {
  if (path == nullptr) return {};
  const int number = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  require<Message::log_path>(number >= 0, "KINA-RESOURCE-55", {3, "params.path"}, path, errno);
  return Descriptor(number);
}

[[gnu::noinline]] KinaStatus allocate(const char* function, void** out, KinaResource resource, uint64_t bytes,
                                      uint64_t alignment, KinaStream stream) {
  void* data = out == nullptr ? nullptr : take_near(value_of(resource), bytes, alignment, value_of(stream));
  if (data != nullptr) {
    *out = data;
    return KINA_SUCCESS;
  }
  return boundary(function, [&] {
    Pointer made(out, {1, "out"});
    ResourceArgument source(resource, {2, "resource"});
    StreamArgument ordered(stream, {5, "stream"}, Null::allowed);
    dereference(made, source, ordered);
    require_block_numbers(alignment, source, ordered);
    const uint64_t counted = std::max(alignment, source->alignment());
    require<Message::bytes_overflow>(bytes <= ~uint64_t{0} - (counted - 1), "KINA-RESOURCE-21", {3, "bytes"}, "bytes",
                                     bytes, counted);
    require_alive(source->device());
    Stream& place = place_of(ordered, source);
    require_announced(place);
    const Allocation block = source->take({bytes, alignment, BlockUse::raw}, place);
    require<Message::stale_handle>(block.status != KINA_ERROR_INVALID_HANDLE, "KINA-STATUS-26", source.argument(),
                                   "resource", word_of(Kind::resource));
    if (block.status != KINA_SUCCESS) refuse_allocation("KINA-RESOURCE-63", block.status, bytes, *source);
    *made = block.data;
    learn_names(*source, value_of(resource), value_of(stream), place);
  });
}

[[gnu::noinline]] KinaStatus deallocate(const char* function, KinaResource resource, void* data, uint64_t bytes,
                                        uint64_t alignment, KinaStream stream) {
  if (give_near(value_of(resource), data, bytes, alignment, value_of(stream))) return KINA_SUCCESS;
  return boundary(function, [&] {
    ResourceArgument source(resource, {1, "resource"});
    StreamArgument ordered(stream, {5, "stream"}, Null::allowed);
    require<Message::null_pointer>(data != nullptr || bytes == 0, "KINA-STATUS-23", {2, "data"}, "data");
    dereference(source, ordered);
    require_block_numbers(alignment, source, ordered);
    Stream& place = place_of(ordered, source);
    const Return answer = source->give(data, {bytes, alignment, BlockUse::raw}, place);
    require<Message::block_unknown>(answer != Return::unknown, "KINA-RESOURCE-25", {2, "data"}, "data", source->name());
    require<Message::block_different>(answer != Return::different, "KINA-RESOURCE-26", {3, "bytes"}, "data", bytes,
                                      alignment);
    learn_names(*source, value_of(resource), value_of(stream), place);
  });
}

[[gnu::noinline]] KinaStatus set_default(const char* function, KinaResource* previous, int32_t device_type,
                                         int32_t device_id, KinaResource resource) {
  return boundary(function, [&] {
    ResourceArgument chosen(resource, {4, "resource"}, Null::allowed);
    dereference(chosen);
    require_device_id(device_type, device_id, {3, "device_id"});
    if (chosen) {
      const Device& place = chosen->device();
      require<Message::resource_elsewhere>(place.type() == device_type && place.id() == device_id, "KINA-RESOURCE-15",
                                           {4, "resource"}, "resource", place.name(),
                                           device_of(device_type, device_id));
    }
    Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    const NamedResource named{chosen.get(), value_of(resource), chosen.argument()};
    if (previous == nullptr) return replace_default(device, named);
    *previous = handle_of<KinaResource>(exchange_default(device, named));
  });
}

[[gnu::noinline]] KinaStatus push(const char* function, KinaScope* out, KinaResource resource) {
  return boundary(function, [&] {
    Pointer made(out, {1, "out"});
    ResourceArgument pushed(resource, {2, "resource"});
    dereference(made, pushed);
    ScopeEntry entry(demand_thread_block().scopes, ScopeKind::resource, &pushed->device());
    entry.install(*pushed, value_of(resource), pushed.argument());
    *made = handle_of<KinaScope>(entry.enter());
  });
}

[[gnu::noinline]] KinaStatus give_current(const char* function, KinaResource* out, int32_t device_type,
                                          int32_t device_id) {
  return boundary(function, [&] {
    Pointer found(out, {1, "out"});
    dereference(found);
    Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    *found = handle_of<KinaResource>(look_at_current_resource(device)->handle);
  });
}

}  // namespace

KinaStatus runtime_resource_host(KinaResource* out) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    dereference(made);
    *made = publish(make_device_resource(host_device()));
  });
}

KinaStatus runtime_resource_cuda(KinaResource* out, int32_t device_id) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    dereference(made);
    require_device_id(kDLCUDA, device_id, {2, "device_id"});
    refuse<Message::feature_absent>("KINA-VERSION-5", {}, "cuda");
  });
}

KinaStatus runtime_resource_cuda_async(KinaResource* out, int32_t device_id, const KinaCudaAsyncParams* params) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    Options options(params, {3, "params"});
    dereference(made, options);
    require_device_id(kDLCUDA, device_id, {2, "device_id"});
    require_initial(options->initial_bytes, options->maximum_bytes, {3, "params.initial_bytes"});
    require_known_flags(options->flags, KINA_CUDA_ASYNC_OPPORTUNISTIC, "KINA-VERSION-16", {3, "params.flags"});
    refuse<Message::feature_absent>("KINA-VERSION-5", {}, "cuda");
  });
}

KinaStatus runtime_resource_pool(KinaResource* out, KinaResource upstream, const KinaPoolParams* params) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    ResourceArgument source(upstream, {2, "upstream"});
    ReservedOptions<KinaPoolParams> options(params, {3, "params"});
    dereference(made, source, options);
    require_power_of_two(options->alignment, "KINA-RESOURCE-43", {3, "params.alignment"});
    require_initial(options->initial_bytes, options->maximum_bytes, {3, "params.initial_bytes"});
    require_known_flags(options->flags, KINA_POOL_OPPORTUNISTIC | KINA_POOL_LAZY, "KINA-RESOURCE-45",
                        {3, "params.flags"});
    require_known_value(options->growth, KINA_GROWTH_NONE, "KINA-RESOURCE-45", {3, "params.growth"});
    const bool is_host = source->device().type() == kDLCPU;
    *made = publish(make_pool(shared(source), plan_of(*options, is_host)));
  });
}

KinaStatus runtime_resource_logging(KinaResource* out, KinaResource upstream, const KinaLoggingParams* params) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    ResourceArgument source(upstream, {2, "upstream"});
    ReservedOptions<KinaLoggingParams> options(params, {3, "params"});
    dereference(made, source, options);
    require<Message::log_two_targets>(options->path == nullptr || options->callback == nullptr, "KINA-RESOURCE-55",
                                      {3, "params.callback"});
    require<Message::log_ring>(options->ring_rows <= ~uint64_t{0} / sizeof(KinaLogRow), "KINA-STATUS-25",
                               {3, "params.ring_rows"}, options->ring_rows);
    Descriptor file = open_log(options->path);
    require_known_flags(options->flags, KINA_LOGGING_FRAMES, "KINA-RESOURCE-59", {3, "params.flags"});
    require_known_value(options->format, KINA_LOG_FORMAT_JSON_LINES, "KINA-RESOURCE-59", {3, "params.format"});
    const int number = file.number();
    *made = publish(make_counted<LoggingResource>(shared(source), *options, std::move(file)));
    // Only a regular file can be emptied, and only such a one needs to be.
    if (options->path != nullptr) (void)!ftruncate(number, 0);
  });
}

KinaStatus runtime_resource_limit(KinaResource* out, KinaResource upstream, uint64_t maximum_bytes) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    ResourceArgument source(upstream, {2, "upstream"});
    dereference(made, source);
    *made = publish(make_counted<LimitResource>(shared(source), maximum_bytes));
  });
}

KinaStatus runtime_resource_custom(KinaResource* out, int32_t device_type, int32_t device_id,
                                   const KinaResourceVtable* vtable, void* context) {
  return boundary(__func__, [&] {
    Pointer made(out, {1, "out"});
    Vtable callbacks(vtable, {4, "vtable"});
    dereference(made, callbacks);
    Device& device = require_device(device_type, device_id, {2, "device_type"}, {3, "device_id"});
    const Ref<CustomResource> resource = make_counted<CustomResource>(device, *callbacks, context);
    *made = publish(resource);
    resource->adopt_context();
  });
}

KinaStatus runtime_resource_release(KinaResource resource) {
  return boundary(__func__, [&] {
    ResourceArgument ended(resource, {1, "resource"});
    dereference(ended);
    const Release answer = release_resource(value_of(resource));
    require<Message::resource_borrowed>(answer != Release::borrowed, "KINA-RESOURCE-3", ended.argument(), "resource");
    require<Message::resource_installed>(answer != Release::busy, "KINA-RESOURCE-4", ended.argument(), ended->name());
    require<Message::stale_handle>(answer != Release::stale, "KINA-STATUS-26", ended.argument(), "resource",
                                   word_of(Kind::resource));
  });
}

KinaStatus runtime_resource_info(KinaResourceInfo* out, KinaResource resource) {
  return boundary(__func__, [&] {
    OutputStruct report(out, {1, "out"});
    ResourceArgument asked(resource, {2, "resource"});
    dereference(report, asked);
    KinaResourceInfo info{};
    asked->describe(info);
    report.publish(info);
  });
}

KinaStatus runtime_resource_trim(uint64_t* released_bytes, KinaResource resource, uint64_t keep_bytes) {
  return boundary(__func__, [&] {
    ResourceArgument trimmed(resource, {2, "resource"});
    dereference(trimmed);
    const uint64_t released = trimmed->trim(keep_bytes);
    if (released_bytes != nullptr) *released_bytes = released;
  });
}

KinaStatus runtime_resource_set_default(KinaResource* previous, int32_t device_type, int32_t device_id,
                                        KinaResource resource) {
  Device* device = known_device(device_type, device_id);
  ThreadBlock* thread = own_block();
  if (device != nullptr && thread != nullptr && set_default_at_once(previous, *device, value_of(resource), *thread))
      [[likely]]
    return KINA_SUCCESS;
  return set_default(__func__, previous, device_type, device_id, resource);
}

KinaStatus runtime_resource_push(KinaScope* out, KinaResource resource) {
  ThreadBlock* thread = own_block();
  if (out != nullptr && thread != nullptr &&
      thread->scopes.enter_resource_at_once(*out, value_of(resource), thread->leases)) [[likely]]
    return KINA_SUCCESS;
  return push(__func__, out, resource);
}

KinaStatus runtime_resource_current(KinaResource* out, int32_t device_type, int32_t device_id) {
  const Device* device = known_device(device_type, device_id);
  ThreadBlock* thread = own_block();
  if (out != nullptr && device != nullptr && thread != nullptr && give_current_at_once(*out, *device, *thread))
      [[likely]]
    return KINA_SUCCESS;
  return give_current(__func__, out, device_type, device_id);
}

KinaStatus runtime_memory_allocate(void** out, KinaResource resource, uint64_t bytes, uint64_t alignment,
                                   KinaStream stream) {
  if (take_at_once(out, value_of(resource), bytes, alignment, value_of(stream))) [[likely]]
    return KINA_SUCCESS;
  return allocate(__func__, out, resource, bytes, alignment, stream);
}

KinaStatus runtime_memory_deallocate(KinaResource resource, void* data, uint64_t bytes, uint64_t alignment,
                                     KinaStream stream) {
  if (give_at_once(value_of(resource), data, bytes, alignment, value_of(stream))) [[likely]]
    return KINA_SUCCESS;
  return deallocate(__func__, resource, data, bytes, alignment, stream);
}
