// One operation's way from checked operands to a published result: failed inputs, stream, memory, claims.
#pragma once

#include <initializer_list>
#include <new>
#include <optional>

#include "impl/core/capture.h"
#include "impl/core/operand.h"
#include "impl/core/uses.h"

namespace kina {

// The inputs of an operation, in the order of its parameters. Looks at a list that outlives it.
class Inputs {
 public:
  Inputs(std::initializer_list<const Operand*> list) : count_(list.size()) { first_ = std::data(list); }
  Inputs(const Operand* const* first, size_t count) : first_(first), count_(count) {}
  const Operand* const* begin() const noexcept { return first_; }
  const Operand* const* end() const noexcept { return first_ + count_; }
  size_t size() const noexcept { return count_; }

 private:
  const Operand* const* first_ = nullptr;
  size_t count_;
};

// Runs or enqueues `work` on `stream`, where it takes the next position.
void launch(Stream& stream, const Work& work);

// Runs `row` on `stream`, on behalf of the call `name`.
template <class Args>
void launch(const char* name, Stream& stream, Row<Args> row, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  const auto run = [](const void* erased_row, const void* erased_args, NativeStream native) {
    (*static_cast<const Row<Args>*>(erased_row))(*static_cast<const Args*>(erased_args), native);
  };
  const auto each_view = [](void* erased_args, void (*visit)(void*, View&, Access), void* context) {
    static_cast<Args*>(erased_args)->each_view([&](View& view, Access access) { visit(context, view, access); });
  };
  launch(stream, {name, run, &row, &args, sizeof(Args), each_view});
}

// Made when every clause has been checked. Construction answers FAILED_INPUT, chooses the stream, allocates an empty
// `out` and waits on the host for earlier uses of the bytes; `run` does the work, on a device inside its turn; `commit`
// publishes. A step that fails leaves an output that existed before failed with what it throws, unless nothing may have
// been written and the failure is one that marks nothing [KINA-STATUS-20]; a new output is gone.
class Operation {
 public:
  // `shape` and `dtype` of the result, which lies on `device` and has compact strides when it is allocated here.
  Operation(const char* function, Output& out, Inputs inputs, const Geometry& shape, KinaDtype dtype, Device& device)
      : Operation(function, out, inputs, shape, dtype, device, device) {}
  // The same for copies, whose work may run on another device than the result's.
  Operation(const char* function, Output& out, Inputs inputs, const Geometry& shape, KinaDtype dtype, Device& device,
            Device& execution);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  // Where the result is to be written.
  const View& out() const noexcept { return out_view_; }
  Stream& stream() const noexcept { return *stream_; }

  // Runs the row and remembers that bytes of `out` may have changed.
  template <class Args>
  void run(Row<Args> row, const Args& args) {
    guarded([&] {
      if (!has_started_) turn_.begin(*stream_);
      has_started_ = true;
      launch(function_, *stream_, row, args);
      has_written_ = true;
    });
  }

  // What `step` returns; its failure is noted on the way out.
  template <class Step>
  auto guarded(Step&& step) -> decltype(step()) {
    try {
      return step();
    } catch (const Error& error) {
      note_failure(error);
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      has_written_ |= has_started_;  // nothing is known about it
      throw;
    }
  }

  // Notes what has run and lets others use the bytes. Memory is asked for before the first `run` and goes back after
  // this, because resources may be callbacks, which are called under no lock [KINA-STATUS-38].
  void end_turn() noexcept;

  // The bytes are written: failures on them are repaired, and an empty `out` receives its tensor.
  void commit();

 private:
  void refuse_failed_inputs(Inputs inputs);
  void make_out(const Geometry& shape, KinaDtype dtype, Device& device);
  void prepare_turn(Inputs inputs);
  static bool touches_host(Inputs inputs, const Device& target) noexcept;
  void note_failure(const Error& error) noexcept;
  void mark_out(KinaStatus status, const char* text) noexcept;

  const char* function_;
  Output& out_;
  Ref<Stream> stream_;
  std::optional<NewTensor> made_;
  View out_view_;
  bool is_recorded_ = false;      // by a capture: it waits for nothing, and nothing waits for it
  Turn turn_;                     // of work on an asynchronous device
  bool is_read_by_host_ = false;  // caller's host memory takes part in it: the call returns when it has run
  bool has_started_ = false;
  bool has_written_ = false;  // work that writes `out` may be under way
  bool is_failed_ = false;    // `out` is marked
  bool is_committed_ = false;
};

// Temporary memory of one operation, from the current resource; back there at the end, after the work that uses it.
class Workspace {
 public:
  Workspace(Operation& operation, uint64_t bytes)
      : operation_(operation),
        resource_(resource_for(operation.stream())),
        stream_(operation.stream()),
        bytes_(bytes),
        data_(operation.guarded([&] { return resource_->allocate(bytes, kStorageAlignment, stream_); })) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    operation_.end_turn();
    resource_->deallocate(data_, bytes_, kStorageAlignment, stream_);
  }
  // One axis of bytes.
  View view() const noexcept {
    View bytes{static_cast<std::byte*>(data_), KINA_DTYPE_U8, {}};
    bytes.geometry.ndim = 1;
    bytes.geometry.extents[0] = static_cast<int64_t>(bytes_);
    bytes.geometry.strides[0] = 1;
    return bytes;
  }

 private:
  Operation& operation_;
  Ref<Resource> resource_;
  Stream& stream_;
  uint64_t bytes_;
  void* data_;
};

// The stream of an operation: scopes, then `out`, then the inputs, then main (the stream chapter's rule).
Ref<Stream> operation_stream(Device& device, const Output& out, Inputs inputs);

}  // namespace kina
