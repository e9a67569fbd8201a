// Order, memory and failure of one operation.
#include "impl/core/operation.h"

#include "impl/core/capture.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

// A live stream of `device` under this name that still counts for the rule, else none.
Ref<Stream> usable_stream(uint64_t handle, const Device& device) {
  Ref<Stream> stream = handle == 0 ? Ref<Stream>() : Ref<Stream>::share(streams().find(handle));
  return stream && &stream->device() == &device ? stream : Ref<Stream>();
}

}  // namespace

Ref<Stream> operation_stream(Device& device, const Output& out, Inputs inputs) {
  const ThreadBlock* block = thread_block();
  if (Stream* bound = block == nullptr ? nullptr : block->scopes.bound_stream(device)) return Ref<Stream>::share(bound);
  if (!out.is_empty())
    if (Ref<Stream> stream = usable_stream(out.stream(), device)) return stream;
  if (inputs.size() != 0)
    if (Ref<Stream> stream = usable_stream((*inputs.begin())->stream(), device)) return stream;
  return Ref<Stream>::share(&device.main());
}

void launch(Stream& stream, const Work& work) {
  Backend& backend = stream.device().backend();
  if (!backend.is_asynchronous()) return backend.launch(stream.native(), work);
  const std::lock_guard lock(stream.timeline.mutex);
  backend.launch(stream.native(), work);
  ++stream.timeline.position;
}

Operation::Operation(const char* function, Output& out, Inputs inputs, const Geometry& shape, KinaDtype dtype,
                     Device& device, Device& execution)
    : function_(function), out_(out) {
  stream_ = operation_stream(execution, out, inputs);
  is_recorded_ = is_recorded(*stream_);
  is_read_by_host_ =
      execution.backend().is_asynchronous() && touches_host(inputs, out.is_empty() ? device : out.device());
  require<Message::capture_on_host>(!is_recorded_ || !is_read_by_host_, "KINA-STREAM-41", {});
  refuse_failed_inputs(inputs);
  if (!out.is_empty()) out_view_ = out.view();
  guarded([&] {
    require_alive(execution);
    if (out.is_empty()) make_out(shape, dtype, device);
    prepare_turn(inputs);
  });
}

void Operation::make_out(const Geometry& shape, KinaDtype dtype, Device& device) {
  out_view_.dtype = dtype;
  out_view_.geometry = checked_geometry(shape.extents, nullptr, shape.ndim, bytes_of(dtype), out_.argument());
  Stream& place = &device == &stream_->device() ? *stream_ : current_stream(device);
  const uint64_t bytes = static_cast<uint64_t>(out_view_.geometry.count()) * bytes_of(dtype);
  Ref<Storage> storage = Storage::allocate(resource_for(place), bytes, place);
  out_view_.data = storage->data();
  made_.emplace(std::move(storage), device, place.handle, KINA_FLAG_OWNED, out_view_);
}

// On the host: devices that still use the bytes are waited for. On a device: its stream waits when the turn begins,
// which lasts until the work is noted.
void Operation::prepare_turn(Inputs inputs) {
  Storage* written = made_ ? made_->record().storage.get() : out_.is_empty() ? nullptr : out_.storage();
  if (!stream_->device().backend().is_asynchronous()) {
    for (const Operand* input : inputs)
      if (input->storage() != nullptr) wait_for_uses(*input->storage(), Access::read);
    if (written != nullptr) wait_for_uses(*written, Access::write);
    return;
  }
  if (is_recorded_) return;
  for (const Operand* input : inputs)
    if (input->storage() != nullptr) turn_.add(*input->storage(), Access::read, input->is_peer());
  if (written != nullptr) turn_.add(*written, Access::write, !made_ && out_.is_peer());
}

// Memory of the host that the call has to have done with when it returns.
bool Operation::touches_host(Inputs inputs, const Device& target) noexcept {
  bool does = !target.backend().is_asynchronous();
  for (const Operand* input : inputs) {
    const bool is_scalar = input->geometry().ndim == 0;  // read during the call, whoever owns it [KINA-ELEMENTWISE-28]
    does |= (input->is_borrowed() || is_scalar) && !input->device().backend().is_asynchronous();
  }
  return does;
}

void Operation::end_turn() noexcept {
  if (has_started_ && stream_->device().backend().is_asynchronous()) turn_.end(now(*stream_));
  turn_.leave();
}

// An operation with a failed input does not run; an `out` that exists carries the same root from here on.
void Operation::refuse_failed_inputs(Inputs inputs) {
  for (const Operand* input : inputs) {
    if (input->storage() == nullptr || input->storage()->is_clean()) [[likely]]
      continue;
    if (!out_.is_empty() && out_.storage() != nullptr)
      if (const FailedRange failed = input->failure(); failed.claim)
        out_.storage()->mark_failed(out_.view(), failed.claim->after(function_));
    refuse_failed(*input, "KINA-TENSOR-32");
  }
}

void Operation::commit() {
  if (!made_ && !is_recorded_ && out_.storage() != nullptr)
    out_.storage()->repair(out_view_);  // in the turn: a later failure stays
  end_turn();
  if (is_read_by_host_) guarded([&] { wait_for(now(*stream_)); });
  if (made_) made_->publish(out_.struct_());
  is_committed_ = true;
}

Operation::~Operation() {
  if (!is_committed_) end_turn();
  if (!is_committed_ && has_written_ && !is_failed_)
    mark_out(KINA_ERROR_INTERNAL, "the operation ended before its work was done");
}

void Operation::note_failure(const Error& error) noexcept {
  switch (error.status) {
    case KINA_ERROR_OUT_OF_MEMORY:
    case KINA_ERROR_FAILED_INPUT:
    case KINA_ERROR_INDEX_OUT_OF_RANGE:
    case KINA_ERROR_UNSUPPORTED: return;  // of a stream that captures, found where another one has to wait for it
    default: return mark_out(error.status, error.text);
  }
}

void Operation::mark_out(KinaStatus status, const char* text) noexcept {
  if (out_.is_empty() || out_.storage() == nullptr) return;
  try {
    const Ref<Failure> root = Failure::make(status, function_, text);
    out_.storage()->mark_failed(out_view_, make_counted<Claim>(root));
    is_failed_ = true;
  } catch (...) {
    return;  // no memory to say so: the bytes are what the work left
  }
}

}  // namespace kina
