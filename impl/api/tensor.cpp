// Entry points of the tensor chapter.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/capture.h"

using namespace kina;

namespace {

// A stream parameter belongs to the device that the call is about, whether that device exists or not.
inline void require_stream_of(int32_t device_type, int32_t device_id, const StreamArgument& stream) {
  if (!stream) return;
  const Device& device = stream->device();
  if (device.type() != device_type || device.id() != device_id) [[unlikely]]
    refuse<Message::stream_elsewhere>("KINA-TENSOR-40", stream.argument(), stream.argument().name, device.name(),
                                      device_of(device_type, device_id));
}

void require_shape_pointer(const int64_t* shape, int32_t ndim, Argument argument) {
  require<Message::null_pointer>(shape != nullptr || ndim <= 0, "KINA-TENSOR-39", argument, argument.name);
}

// READ_ONLY is all that callers may ask for.
void require_flags(uint32_t flags, Argument argument) {
  require_known_flags(flags, KINA_FLAG_READ_ONLY, "KINA-TENSOR-51", argument);
}

// Elements from `span.low` to `span.high` lie in the hull of `outer`, from whose element 0 they are `offset` away. An
// empty view has one place, which may be the end.
bool lies_inside(const Span& span, const Geometry& outer, int64_t offset) {
  const Span hull = span_of(outer);
  if (hull.is_empty()) return span.is_empty() && offset == 0;
  if (span.is_empty()) return hull.low <= offset && offset <= hull.high + 1;
  int64_t low = 0, high = 0;
  const bool fits =
      !__builtin_add_overflow(span.low, offset, &low) && !__builtin_add_overflow(span.high, offset, &high);
  return fits && hull.low <= low && high <= hull.high;
}

}  // namespace

KinaStatus runtime_alloc(KinaTensor* out, const int64_t* shape, int32_t ndim, KinaDtype dtype, int32_t device_type,
                         int32_t device_id, KinaStream stream) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    StreamArgument ordered(stream, {7, "stream"}, Null::allowed);
    require_shape_pointer(shape, ndim, {2, "shape"});
    dereference(made, ordered);
    const DtypeRow* row = find_dtype(dtype);
    View view;
    const Reach reach =
        check_geometry(view.geometry, shape, nullptr, ndim, row == nullptr ? 1 : row->bytes, {2, "shape"});
    Device* known = known_device(device_type, device_id);
    if (known == nullptr) require_device_id(device_type, device_id, {6, "device_id"});
    require_stream_of(device_type, device_id, ordered);
    if (row == nullptr) [[unlikely]]
      refuse_dtype(dtype, {4, "dtype"});
    Device& device =
        known != nullptr ? *known : require_device(device_type, device_id, {5, "device_type"}, {6, "device_id"});
    require_alive(device);

    Stream& place = ordered ? *ordered : current_stream(device);
    require_announced(place);
    view.dtype = dtype;
    Hold storage = Storage::allocate(static_cast<uint64_t>(reach.count) * row->bytes, place);
    view.data = storage->data();
    const uint64_t name = ordered ? value_of(stream) : place.handle.load();
    NewTensor(std::move(storage), device, name, KINA_FLAG_OWNED, view).publish(*made);
  });
}

KinaStatus runtime_free(KinaTensor* tensor) {
  return boundary(__func__, [&] {
    constexpr Argument kFreed{1, "tensor"};
    if (is_empty_struct(tensor, kFreed)) return;
    if (tensor->handle == 0) {
      Operand(tensor, kFreed).resolve();  // what a borrowed tensor says of itself
    } else {
      const Hold last = take_tensor(tensor->handle);
      require<Message::stale_tensor>(static_cast<bool>(last), "KINA-TENSOR-4", kFreed, kFreed.name);
    }
    make_empty(*tensor);
  });
}

KinaStatus runtime_view(KinaTensor* out, const KinaTensor* in, const int64_t* shape, const int64_t* strides,
                        int32_t ndim, int64_t offset_elements, uint32_t flags) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    Input source(in, {2, "in"});
    require_shape_pointer(shape, ndim, {3, "shape"});
    dereference_values(made, source);
    const bool is_known = !source.is_borrowed() || find_dtype(source.dtype()) != nullptr;
    const uint64_t element_bytes = is_known ? bytes_of(source.dtype()) : 1;
    View view;
    const Reach reach = check_geometry(view.geometry, shape, strides, ndim, element_bytes, {3, "shape"});
    require<Message::view_outside>(lies_inside(reach.span, source.geometry(), offset_elements), "KINA-TENSOR-50",
                                   {6, "offset_elements"}, "offset_elements", "in");
    offer(source);
    require_flags(flags, {7, "flags"});

    view.dtype = source.dtype();
    view.data = source.view().data + offset_elements * static_cast<int64_t>(element_bytes);
    tensor_on(source, view, view_flags(source.flags()) | flags | layout_flags(view.geometry, reach)).publish(*made);
  });
}

KinaStatus runtime_alias(KinaTensor* out, const KinaTensor* in) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    Input source(in, {2, "in"});
    dereference(made, source);
    tensor_on(source, source.view(), source.flags()).publish(*made);
  });
}

KinaStatus runtime_wrap(KinaTensor* out, const DLTensor* source, uint64_t size_bytes, KinaStream stream,
                        uint32_t flags) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    Pointer given(source, {2, "source"});
    StreamArgument ordered(stream, {4, "stream"}, Null::allowed);
    given.present();
    KinaTensor wrapped = KINA_TENSOR_INIT;
    wrapped.dl = *given;
    wrapped.size_bytes = size_bytes;
    wrapped.flags = KINA_FLAG_BORROWED;
    wrapped.magic = KINA_TENSOR_MAGIC;
    Input checked(&wrapped, {2, "source"});
    dereference_values(made, checked, ordered);
    require_stream_of(source->device.device_type, source->device.device_id, ordered);
    offer(checked);
    require_flags(flags, {5, "flags"});

    wrapped.stream = ordered ? stream : handle_of<KinaStream>(current_stream(checked.device()).handle);
    wrapped.flags = checked.flags() | flags;
    *made = wrapped;
  });
}

KinaStatus runtime_tensor_synchronize(const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Input awaited(tensor, {1, "tensor"});
    dereference(awaited);
    if (awaited.storage() != nullptr) wait_for_uses(*awaited.storage(), Access::read);
    refuse_failed(awaited, "KINA-TENSOR-62");
  });
}

KinaStatus runtime_tensor_record_use(const KinaTensor* tensor, KinaStream stream, KinaAccess access) {
  return boundary(__func__, [&](const Call& call) {
    Input used(tensor, {1, "tensor"});
    StreamArgument ordered(stream, {2, "stream"}, Null::allowed);
    dereference_values(used, ordered);
    const bool is_known = access >= KINA_ACCESS_READ && access <= KINA_ACCESS_READ_WRITE;
    const DLDevice place = used.place();
    require_stream_of(place.device_type, place.device_id, ordered);
    require<Message::read_only>(!is_known || access == KINA_ACCESS_READ || (used.flags() & KINA_FLAG_READ_ONLY) == 0,
                                "KINA-TENSOR-66", {1, "tensor"}, "tensor");
    offer(used);
    require<Message::borrowed_refused>(!used.is_borrowed(), "KINA-TENSOR-64", {1, "tensor"}, "tensor");
    require<Message::value_unknown>(is_known, "KINA-VERSION-16", {3, "access"}, "access", access);
    Stream& user = ordered ? *ordered : current_stream(used.device());
    if (!user.device().backend().is_asynchronous()) return;  // what was enqueued on the host has run
    if (is_recorded(user)) return;  // what the caller's graph does, and when, is the caller's to order
    Turn turn;
    turn.add(*used.storage(), access == KINA_ACCESS_READ ? Access::read : Access::write, used.is_peer());
    turn.begin(user);
    if (access != KINA_ACCESS_READ) used.storage()->collect_replays(call.function, user);
    const Point work = after_foreign_work(user);
    turn.end(work);
  });
}
