// One operation's way from checked operands to a published result: failed inputs, stream, memory, claims.
#pragma once

#include <array>
#include <initializer_list>
#include <new>
#include <optional>

#include "impl/core/capture.h"
#include "impl/core/operand.h"
#include "impl/core/uses.h"

namespace kina {

// The inputs of an operation, in the order of its parameters. A longer list than kFew outlives it.
class Inputs {
 public:
  static constexpr size_t kFew = 4;
  Inputs(std::initializer_list<const Operand*> list) : Inputs(std::data(list), list.size()) {}
  Inputs(const Operand* const* first, size_t count) : many_(first), count_(count) {
    if (count <= kFew) std::copy_n(first, count, few_.begin());
  }
  const Operand* const* begin() const noexcept { return count_ <= kFew ? few_.data() : many_; }
  const Operand* const* end() const noexcept { return begin() + count_; }
  size_t size() const noexcept { return count_; }

 private:
  std::array<const Operand*, kFew> few_{};
  const Operand* const* many_;
  size_t count_;
};

// Runs or enqueues `work` on `stream`, where it takes the next position. Throws OUT_OF_MEMORY, or bad_alloc, with no
// piece of it run.
void launch(Stream& stream, const Work& work);

// Runs `row` on `stream` with each of `pieces`, on behalf of the call `name`; `by_caller` as in Work.
template <class Args>
void launch(const char* name, Stream& stream, Row<Args> row, std::span<const Args> pieces,
            std::span<const Hull> by_caller) {
  static_assert(std::is_trivially_destructible_v<Args>);
  const auto run = [](const void* erased_row, const void* erased_args, NativeStream native) {
    (*static_cast<const Row<Args>*>(erased_row))(*static_cast<const Args*>(erased_args), native);
  };
  const auto each_view = [](void* erased_args, void (*visit)(void*, View&, Access), void* context) {
    static_cast<Args*>(erased_args)->each_view([&](View& view, Access access) { visit(context, view, access); });
  };
  const auto copy = [](void* to, const void* from) noexcept { new (to) Args(*static_cast<const Args*>(from)); };
  launch(stream, {name, run, &row, pieces.data(), sizeof(Args), pieces.size(), copy, each_view, by_caller});
}

// Made when every clause has been checked. Construction answers FAILED_INPUT, chooses the stream, allocates an empty
// `out` and waits on the host for earlier uses of the bytes; `run` does the work, on a device inside its turn; `commit`
// publishes. A step that fails leaves an output that existed before failed with what it throws, unless nothing may have
// been written and the failure is one that marks nothing [KINA-STATUS-20]; a new output is gone. What a device has not
// found out yet about the inputs is handed on to the output [KINA-STORAGE-41]; where the host sees the output at
// return, or the output keeps no record, it is waited for.
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

  // Where the work that runs next, on an asynchronous device, says that an index lies outside `extent`.
  Finding* expect_finding(int64_t extent);

  // Runs the row. Called once: memory that is out after some work is under way would be found too late
  // [KINA-STATUS-20].
  template <class Args>
  void run(Row<Args> row, const Args& args) {
    run(row, std::span(&args, 1));
  }
  // The same for work that takes several pieces, one after the other.
  template <class Args>
  void run(Row<Args> row, std::span<const Args> pieces) {
    if (pieces.empty()) return;
    guarded([&] {
      begin();
      launch(function_, *stream_, row, pieces, by_caller_);
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
      throw;  // before the work: nothing asks for memory behind it
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
  void refuse_failed_inputs();
  void make_out(const Geometry& shape, KinaDtype dtype, Device& device);
  void prepare_turn();
  bool reads_host() const noexcept;
  void begin();
  void collect_doubts();
  void collect_recorded_doubts();
  void answer_now();
  // The storage that is written; NULL where nothing keeps a record of it.
  Storage* written() const noexcept { return made_ ? made_->record().storage.get() : out_.storage(); }
  void note_callers_order(const Operand& operand, const View& view);
  void note_failure(const Error& error) noexcept;
  void mark_out(KinaStatus status, const char* text) noexcept;

  const char* function_;
  Output& out_;
  const Inputs inputs_;
  const Ref<Stream> stream_;
  const bool is_behind_;    // its work may run behind the call
  const uint64_t capture_;  // that records it: it waits for nothing, and nothing waits for it; 0: none
  std::optional<NewTensor> made_;
  MarkRoom failure_room_, doubt_room_;  // on what is written, for the case that it fails and for what it depends on
  View out_view_;
  Turn turn_;                    // of work on an asynchronous device
  std::vector<Hull> by_caller_;  // what its work touches and the library does not order
  Doubts doubts_;
  Ref<Check> check_;              // its own, if any
  bool is_seen_ = false;          // what is written cannot depend on open checks when the call returns
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
Ref<Stream> operation_stream(Device& device, const Output& out, const Inputs& inputs);

}  // namespace kina
