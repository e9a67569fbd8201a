// What a device must offer: memory, a place for work, and one row per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "impl/core/geometry.h"

namespace kina {

// A stream as the device's own interface knows it; NULL on the host.
using NativeStream = void*;

// A recorded moment of a stream, as the device's own interface knows it.
using NativeEvent = void*;

// Elements in memory: what a kernel reads or writes.
struct View {
  std::byte* data = nullptr;  // element 0
  KinaDtype dtype = 0;
  Geometry geometry;
};

// Addresses of bytes.
struct Hull {
  uint64_t first = 0;
  uint64_t last = 0;  // one past
};

// An operation's row for one (op, dtype): NULL means that the device does not offer it.
// Arguments are plain values that a device may copy and keep until the work runs; `each_view` shows it every view in
// them.
template <class Args>
using Row = void (*)(const Args&, NativeStream);

enum class Access : uint8_t { read, write };

struct UnaryArgs {
  View out, in;  // one shape
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};
struct BinaryArgs {
  View out, a, b;  // one shape: broadcast axes have stride 0
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(a, Access::read);
    f(b, Access::read);
  }
};
struct CastArgs {
  View out, in;  // one shape
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};
struct CopyArgs {
  View out, in;  // one shape, one dtype
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};
struct FillArgs {
  View out;
  std::byte value[16];  // one element
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
  }
};
struct ReduceArgs {
  View out, in;  // out has in's rank; extents of the reduced axes are 1
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};
struct SoftmaxArgs {
  View out, in;  // one shape
  int32_t axis;
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};
struct MatmulArgs {
  View out, a, b;  // (batch…, m, n), (batch…, m, k), (batch…, k, n): transposes and broadcasts are in the strides
  View bias;       // data NULL: none; out's shape, broadcast by stride 0
  double alpha, beta;
  bool is_scaled;
  KinaCompute compute;
  KinaUnaryOp activation;  // 0: none
  View workspace;          // bytes without a value, as many as matmul_workspace_bytes says; data NULL: none
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(a, Access::read);
    f(b, Access::read);
    f(bias, Access::read);
    f(workspace, Access::write);
  }
};
// What work that runs behind the call has to say: how many runs met something, and what the last of them met first.
struct Finding {
  int64_t runs;
  int64_t value;
};
// `out`, which is empty, becomes what was met if any run has met something since `seen` was brought up to date, which
// this does.
struct CollectArgs {
  Finding* out;
  const Finding* met;
  Finding* seen;
  template <class F>
  void each_view(F&&) {}  // findings are no bytes of a tensor
};
struct GatherArgs {
  View out, values, indices;
  int32_t axis;
  Finding* outside;  // an index out of range, whose elements are 0; NULL: nobody asks
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(values, Access::read);
    f(indices, Access::read);
  }
};
struct RepeatArgs {
  View out, in;
  int32_t axis;
  int32_t repeats;
  template <class F>
  void each_view(F&& f) {
    f(out, Access::write);
    f(in, Access::read);
  }
};

// Pieces of work that belong together: one row and the arguments of each piece, to be run once, in stream order.
struct Work {
  const char* name;  // of the call that makes it
  void (*run)(const void* row, const void* args, NativeStream stream);
  const void* row;   // a Row<Args>, copied as a pointer-sized value
  const void* args;  // of the first piece; those of the others lie behind
  size_t args_bytes;
  size_t pieces;
  void (*copy)(void* to, const void* args) noexcept;  // the copy need not be destroyed
  // Calls `visit` for each view inside a copy of the arguments.
  void (*each_view)(void* args, void (*visit)(void* context, View& view, Access access), void* context);
  // Bytes that the caller orders by itself: those of PEER tensors and of foreign memory [KINA-STREAM-38].
  std::span<const Hull> by_caller;

  const void* args_of(size_t piece) const noexcept { return static_cast<const std::byte*>(args) + piece * args_bytes; }
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual int32_t device_type() const noexcept = 0;
  virtual int32_t device_count() const noexcept = 0;
  // Asked where there is no device: why, or how to get one. NULL: there is nothing to say.
  virtual const char* why_absent() const noexcept { return nullptr; }
  // Fills everything behind struct_size, device_type and device_id.
  virtual void describe(KinaDeviceInfo& info, int32_t device_id) const = 0;

  // Raw memory, aligned to `alignment` (a power of two); NULL when it cannot be had.
  virtual void* allocate(int32_t device_id, uint64_t bytes, uint64_t alignment) noexcept = 0;
  virtual void deallocate(int32_t device_id, void* data, uint64_t bytes, uint64_t alignment) noexcept = 0;
  // Memory that is 0 and that work of every device and the host reach; never given back. NULL when it cannot be had.
  virtual void* allocate_shared(uint64_t bytes) noexcept;

  // False: work has run when `launch` returns, and the functions on streams and events below are never called.
  virtual bool is_asynchronous() const noexcept { return false; }
  virtual bool is_lost(int32_t device_id) const noexcept {
    (void)device_id;
    return false;
  }
  // Whether `device_id` reads and writes memory of `peer_id`.
  virtual bool can_access(int32_t device_id, int32_t peer_id) const noexcept { return device_id == peer_id; }

  // Streams and events of an asynchronous device. All but `end_stream` and `release` throw what the driver
  // refused with.
  virtual NativeStream make_stream(int32_t device_id);
  // Whether a caller's native stream is one of the device's, as far as the driver can tell.
  virtual bool is_stream(int32_t device_id, NativeStream stream) const noexcept;
  // The stream was never given to a caller and is not used again.
  virtual void end_stream(NativeStream stream) noexcept;
  virtual NativeEvent record(NativeStream stream);
  virtual void wait(NativeStream stream, NativeEvent event);
  virtual void synchronize(NativeEvent event);
  virtual bool is_done(NativeEvent event);
  // Whether all that was enqueued on the stream has run, whoever enqueued it.
  virtual bool is_idle(NativeStream stream);
  virtual void release(NativeEvent event) noexcept;
  // The capture that the stream takes part in, which has a number of its own; 0: none.
  virtual uint64_t capture(NativeStream stream);
  // `release` is called with `object` when the graph of the capture that the stream takes part in is gone and has run,
  // on any thread, with whatever lock of the driver; or before this throws.
  virtual void keep_with_graph(NativeStream stream, void* object, void (*release)(void* object) noexcept);

  // Runs or enqueues `work` on `stream`. The host runs it before it returns. Memory that is out is found before the
  // first piece is on its way.
  virtual void launch(NativeStream stream, const Work& work) = 0;

  virtual Row<UnaryArgs> unary(KinaUnaryOp op, KinaDtype dtype) const noexcept = 0;
  virtual Row<BinaryArgs> binary(KinaBinaryOp op, KinaDtype dtype) const noexcept = 0;
  virtual Row<CastArgs> cast(KinaDtype to, KinaDtype from) const noexcept = 0;
  virtual Row<CopyArgs> copy(KinaDtype dtype) const noexcept = 0;
  virtual Row<FillArgs> fill(KinaDtype dtype) const noexcept = 0;
  virtual Row<ReduceArgs> reduce(KinaReduceOp op, KinaDtype dtype) const noexcept = 0;
  virtual Row<SoftmaxArgs> softmax(KinaDtype dtype) const noexcept = 0;
  virtual Row<SoftmaxArgs> log_softmax(KinaDtype dtype) const noexcept = 0;
  virtual Row<MatmulArgs> matmul(KinaDtype out, KinaDtype in) const noexcept = 0;
  // Temporary memory for a product; `workspace` and the data of `out` are not looked at.
  virtual uint64_t matmul_workspace_bytes(const MatmulArgs& args) const noexcept = 0;
  // Throws INDEX_OUT_OF_RANGE. A device whose work runs behind the call cannot, and says so as a finding.
  virtual void check_indices(const GatherArgs& args) const;
  virtual Row<GatherArgs> gather(KinaDtype dtype, KinaDtype index) const noexcept = 0;
  virtual Row<CollectArgs> collect() const noexcept;
  virtual Row<RepeatArgs> repeat_interleave(KinaDtype dtype) const noexcept = 0;

 protected:
  ~Backend() = default;
};

}  // namespace kina
