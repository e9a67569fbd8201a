// The host's properties, memory and rows.
#include "impl/cpu/backend.h"

#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "impl/cpu/rows.h"

namespace kina {
namespace {

class HostBackend final : public cpu::Arithmetic {
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

  void check_indices(const GatherArgs& args) const override { cpu::check_indices(args); }
};

}  // namespace

Backend& host_backend() noexcept {
  static HostBackend backend;
  return backend;
}

}  // namespace kina
