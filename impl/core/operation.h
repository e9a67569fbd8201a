// One operation's way from checked operands to a published result: failed inputs, stream, memory, claims.
#pragma once

#include <initializer_list>
#include <optional>

#include "impl/core/operand.h"

namespace kina {

// Runs `row` on `stream` of `device`, on behalf of the call `name`.
template <class Args>
void launch(const char* name, const Device& device, const Stream& stream, Row<Args> row, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  const auto run = [](const void* erased_row, const void* erased_args, NativeStream native) {
    (*static_cast<const Row<Args>*>(erased_row))(*static_cast<const Args*>(erased_args), native);
  };
  const auto each_view = [](void* erased_args, void (*visit)(void*, View&, Access), void* context) {
    static_cast<Args*>(erased_args)->each_view([&](View& view, Access access) { visit(context, view, access); });
  };
  device.backend().launch(stream.native(), {name, run, &row, &args, sizeof(Args), each_view});
}

// Made when every clause has been checked. Construction answers FAILED_INPUT, chooses the stream and allocates an empty
// `out`; `run` does the work under a claim; `commit` publishes. Destroyed before commit, an output that existed before is
// left failed, and a new one is gone.
class Operation {
 public:
  // `shape` and `dtype` of the result, which has compact strides when it is allocated here.
  Operation(const char* function, Output& out, std::initializer_list<const Operand*> inputs, const Geometry& shape,
            KinaDtype dtype, Device& device);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  // Where the result is to be written.
  const View& out() const noexcept { return out_view_; }
  Stream& stream() const noexcept { return *stream_; }

  // Runs the row and remembers that bytes of `out` may have changed.
  template <class Args>
  void run(Row<Args> row, const Args& args) {
    has_started_ = true;
    launch(function_, device_, *stream_, row, args);
  }

  // The bytes are written: failures on them are repaired, and an empty `out` receives its tensor.
  void commit();

 private:
  void refuse_failed_inputs(std::initializer_list<const Operand*> inputs);

  const char* function_;
  Output& out_;
  Device& device_;
  Ref<Stream> stream_;
  std::optional<NewTensor> made_;
  View out_view_;
  bool has_started_ = false;
  bool is_committed_ = false;
};

// The stream of an operation: scopes, then `out`, then the inputs, then main (the stream chapter's rule).
Ref<Stream> operation_stream(Device& device, const Output& out, std::initializer_list<const Operand*> inputs);

}  // namespace kina
