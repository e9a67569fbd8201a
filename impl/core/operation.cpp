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

Ref<Stream> operation_stream(Device& device, const Output& out, const Inputs& inputs) {
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
  stream.timeline.advance();  // first: of a launch that fails some pieces may be under way
  backend.launch(stream.native(), work);
}

Operation::Operation(const char* function, Output& out, Inputs inputs, const Geometry& shape, KinaDtype dtype,
                     Device& device, Device& execution)
    : function_(function),
      out_(out),
      inputs_(inputs),
      stream_(operation_stream(execution, out, inputs_)),
      is_behind_(execution.is_asynchronous()),
      capture_(recording_on(*stream_)),
      doubts_(function) {
  // A copy to page-locked memory is enqueued: whoever looks at the bytes waits for it [KINA-STREAM-37].
  const bool is_page_locked = out.storage() != nullptr && out.storage()->memory_type == kDLCUDAHost;
  const bool is_result_on_host = !is_page_locked && !(out.is_empty() ? device : out.device()).is_asynchronous();
  is_read_by_host_ = is_behind_ && (is_result_on_host || reads_host());
  require<Message::capture_on_host>(capture_ == 0 || !is_read_by_host_, "KINA-STREAM-41", {});
  const bool has_no_record = !out.is_empty() && out.storage() == nullptr;
  is_seen_ = capture_ == 0 && (is_result_on_host || !is_behind_ || has_no_record);
  if (!out.is_empty()) out_view_ = out.view();
  guarded([&] { require_alive(execution); });
  refuse_failed_inputs();
  guarded([&] {
    if (out.is_empty()) make_out(shape, dtype, device);
    if (!made_ && out.storage() != nullptr) failure_room_ = out.storage()->provide(out_view_);
    prepare_turn();
  });
}

void Operation::make_out(const Geometry& shape, KinaDtype dtype, Device& device) {
  out_view_.dtype = dtype;
  out_view_.geometry = checked_geometry(shape.extents, nullptr, shape.ndim, bytes_of(dtype), out_.argument());
  Stream& place = &device == &stream_->device() ? *stream_ : current_stream(device);
  const uint64_t bytes = static_cast<uint64_t>(out_view_.geometry.count()) * bytes_of(dtype);
  Hold storage = Storage::allocate(bytes, place);
  out_view_.data = storage->data();
  made_.emplace(std::move(storage), device, place.handle, KINA_FLAG_OWNED, out_view_);
}

// On the host: devices that still use the bytes are waited for. On a device: its stream waits when the turn begins,
// which lasts until the work is noted.
void Operation::prepare_turn() {
  if (!is_behind_) {
    for (const Operand* input : inputs_)
      if (input->storage() != nullptr) wait_for_uses(*input->storage(), Access::read);
    if (written() != nullptr) wait_for_uses(*written(), Access::write);
    return;
  }
  if (capture_ != 0) return;
  for (const Operand* input : inputs_)
    if (input->storage() != nullptr) turn_.add(*input->storage(), Access::read, input->is_peer());
  if (written() != nullptr) turn_.add(*written(), Access::write, !made_ && out_.is_peer());
}

// Memory of the host that the call has to have done with when it returns.
bool Operation::reads_host() const noexcept {
  bool does = false;
  for (const Operand* input : inputs_) {
    const bool is_scalar = input->geometry().ndim == 0;  // read during the call, whoever owns it [KINA-ELEMENTWISE-28]
    does |= (input->is_borrowed() || is_scalar) && !input->device().is_asynchronous();
  }
  return does;
}

void Operation::begin() {
  if (is_behind_) {
    turn_.begin(*stream_);
    for (const Operand* input : inputs_) note_callers_order(*input, input->view());
    if (!made_) note_callers_order(out_, out_view_);
    capture_ == 0 ? collect_doubts() : collect_recorded_doubts();
  }
  has_started_ = true;
}

// In the turn nobody else writes the inputs, but somebody may look at them: what was a check before is a failure then.
// An output without elements depends on nothing that is read.
void Operation::collect_doubts() {
  if (!out_view_.geometry.is_empty())
    for (const Operand* input : inputs_)
      if (input->storage() != nullptr) input->storage()->hand_on(input->view(), doubts_);
  refuse_failed_inputs();
  doubts_.drop_what_is_over();
  if (check_) doubts_.raise(check_);
  if (written() != nullptr) doubt_room_ = written()->prepare_write(out_view_, doubts_);
}

// What a replay will read, as far as it is recorded: what the inputs are now counts for nothing then.
void Operation::collect_recorded_doubts() {
  if (!out_view_.geometry.is_empty())
    for (const Operand* input : inputs_)
      if (input->storage() != nullptr) input->storage()->hand_on_recorded(input->view(), doubts_);
  if (check_) doubts_.raise(check_);
  if (written() != nullptr) doubt_room_ = written()->prepare_recorded_write(out_view_, doubts_, capture_);
}

void Operation::note_callers_order(const Operand& operand, const View& view) {
  if (operand.is_ordered_by_caller()) by_caller_.push_back(hull_of(view));
}

Finding* Operation::expect_finding(int64_t extent) {
  return guarded([&] {
    check_ = Check::make(function_, *stream_, extent);
    if (capture_ != 0) check_->record(capture_);
    is_seen_ = is_seen_ || (capture_ == 0 && out_view_.geometry.is_empty());  // no byte can carry it
    return check_->finding();
  });
}

void Operation::end_turn() noexcept {
  if (!is_behind_) return;
  if (has_started_) turn_.end(now(*stream_));
  turn_.leave();
}

// An operation with a failed input does not run; an `out` that exists carries the same root from here on.
void Operation::refuse_failed_inputs() {
  const Look look = is_seen_ ? Look::all : Look::shown;
  for (const Operand* input : inputs_) {
    if (input->storage() == nullptr || input->storage()->is_clean()) [[likely]]
      continue;
    const FailedRange failed = input->failure(look);
    if (!failed.claim) continue;
    if (!out_.is_empty() && out_.storage() != nullptr)
      out_.storage()->mark_failed(out_.view(), failed.claim->after(function_));
    throw failed_input(input->argument(), *failed.claim->root, "KINA-TENSOR-32");
  }
}

void Operation::commit() {
  if (check_ && has_started_ && capture_ == 0) check_->enqueued(now(*stream_));
  if (written() != nullptr)
    guarded([&] {  // in the turn: a later failure stays
      capture_ == 0 ? written()->write(out_view_, doubts_.result(), std::move(doubt_room_))
                    : written()->write_recorded(out_view_, doubts_.result(), std::move(doubt_room_));
    });
  end_turn();
  if (is_read_by_host_) guarded([&] { wait_surely(now(*stream_)); });
  if (is_seen_ && !doubts_.is_empty()) guarded([&] { answer_now(); });
  if (made_) made_->publish(out_.struct_());
  is_committed_ = true;
}

// Checks that came up since the inputs were looked at, and the operation's own.
void Operation::answer_now() {
  for (;;) {
    const Doubt::Verdict verdict = doubts_.result()->judge(Look::all);
    if (verdict.kind == Doubt::Verdict::Kind::hidden) {
      verdict.entry->check->show_surely();
      continue;
    }
    if (verdict.kind != Doubt::Verdict::Kind::failed) return;
    is_failed_ = true;  // where there is a record of the bytes, it knows
    Check& check = *verdict.entry->check;
    if (&check == check_.get()) throw check.error();
    throw failed_input({}, *check.failure(), "KINA-TENSOR-32");
  }
}

Operation::~Operation() {
  if (is_committed_) return;
  if (check_ && has_started_ && capture_ == 0) check_->enqueued(now(*stream_));
  end_turn();
  if (has_written_ && !is_failed_) mark_out(KINA_ERROR_INTERNAL, "the operation ended before its work was done");
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
  is_failed_ = true;
  try {
    const Ref<Failure> root = Failure::make(status, function_, text);
    out_.storage()->mark_failed(out_view_, make_counted<Claim>(root));
  } catch (...) {  // no memory to say so
    out_.storage()->tear(out_view_, std::move(failure_room_));
  }
}

}  // namespace kina
