// The host's properties, memory and rows.
#include "impl/cpu/backend.h"

#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "impl/cpu/rows.h"

namespace kina {
namespace {

class HostBackend final : public Backend {
 public:
  int32_t device_type() const noexcept override { return kDLCPU; }
  int32_t device_count() const noexcept override { return 1; }

  void describe(KinaDeviceInfo& info, int32_t) const override {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    info.name = "host";
    info.total_bytes = page * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
#if defined(_SC_AVPHYS_PAGES)
    info.free_bytes = page * static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES));
#endif
    info.multiprocessor_count = static_cast<int32_t>(std::thread::hardware_concurrency());
    info.numa_node = -1;
  }

  void* allocate(int32_t, uint64_t bytes, uint64_t alignment) noexcept override {
    void* data = nullptr;
    return posix_memalign(&data, alignment, bytes) == 0 ? data : nullptr;
  }
  void deallocate(int32_t, void* data, uint64_t, uint64_t) noexcept override { std::free(data); }

  void launch(NativeStream stream, const Work& work) override {
    for (size_t piece = 0; piece < work.pieces; ++piece) work.run(work.row, work.args_of(piece), stream);
  }

  Row<UnaryArgs> unary(KinaUnaryOp op, KinaDtype dtype) const noexcept override { return cpu::unary(op, dtype); }
  Row<BinaryArgs> binary(KinaBinaryOp op, KinaDtype dtype) const noexcept override { return cpu::binary(op, dtype); }
  Row<CastArgs> cast(KinaDtype to, KinaDtype from) const noexcept override { return cpu::cast(to, from); }
  Row<CopyArgs> copy(KinaDtype dtype) const noexcept override { return cpu::copy(dtype); }
  Row<FillArgs> fill(KinaDtype dtype) const noexcept override { return cpu::fill(dtype); }
  Row<ReduceArgs> reduce(KinaReduceOp op, KinaDtype dtype) const noexcept override { return cpu::reduce(op, dtype); }
  Row<SoftmaxArgs> softmax(KinaDtype dtype) const noexcept override { return cpu::softmax(dtype); }
  Row<SoftmaxArgs> log_softmax(KinaDtype dtype) const noexcept override { return cpu::log_softmax(dtype); }
  Row<MatmulArgs> matmul(KinaDtype out, KinaDtype in) const noexcept override { return cpu::matmul(out, in); }
  uint64_t matmul_workspace_bytes(const MatmulArgs& args) const noexcept override {
    return cpu::matmul_workspace_bytes(args);
  }
  void check_indices(const GatherArgs& args) const override { cpu::check_indices(args); }
  Row<GatherArgs> gather(KinaDtype dtype, KinaDtype index) const noexcept override { return cpu::gather(dtype, index); }
  Row<RepeatArgs> repeat_interleave(KinaDtype dtype) const noexcept override { return cpu::repeat_interleave(dtype); }
};

}  // namespace

Backend& host_backend() noexcept {
  static HostBackend backend;
  return backend;
}

}  // namespace kina
