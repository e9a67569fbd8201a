// T14: what a call with three outputs does about failures when nothing fails. No operation of the ABI has three, so
// this looks at impl/core: inputs that must not be failed, claims on the outputs, and their end when the work is done.
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "impl/bench/harness.h"
#include "impl/core/device.h"
#include "impl/core/resource.h"
#include "impl/core/storage.h"

namespace {
std::atomic<uint64_t> heap_allocations{0};
}  // namespace

void* operator new(size_t bytes) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  void* data = std::malloc(bytes);
  if (data == nullptr) std::abort();
  return data;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace kina::bench {
namespace {

constexpr int kInputs = 3, kOutputs = 3;

// A storage of 4 by 8 elements, and the view of a tensor on it.
struct Place {
  Place() : storage(Storage::allocate(128, host_device().main())) {
    view.data = storage->data();
    view.dtype = KINA_DTYPE_F32;
    view.geometry.ndim = 2;
    view.geometry.extents[0] = 4;
    view.geometry.extents[1] = 8;
    make_compact(view.geometry);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  Hold storage;
  View view;
};

struct ClaimJob {
  Place inputs[kInputs];
  Place outputs[kOutputs];
};

void claim_and_write(void* given, uint64_t first, uint64_t count) {
  auto& job = *static_cast<ClaimJob*>(given);
  for (uint64_t at = first; at < first + count; ++at) {
    for (const Place& input : job.inputs)
      if (!input.storage->is_clean()) bench_stop("is_clean");
    std::array<MarkRoom, kOutputs> rooms;
    for (size_t i = 0; i < rooms.size(); ++i) rooms[i] = job.outputs[i].storage->provide(job.outputs[i].view);
    for (const Place& output : job.outputs) output.storage->write(output.view);
  }
}

}  // namespace

void add_rows() {
  add_row("T14/claims_of_three_outputs/kina", [](Run& run) {
    ClaimJob job;
    claim_and_write(&job, 0, 1);
    const uint64_t before = heap_allocations.load();
    claim_and_write(&job, 0, 1000);
    run.report("heap_allocations", static_cast<double>(heap_allocations.load() - before) / 1000);
    run.measure(&claim_and_write, &job);
  });
}

}  // namespace kina::bench
