// T6 and T7 on a simulated device: its events cost what the simulation costs, so the counters are the figures.
#include "impl/bench/rows.h"

namespace kina::bench {
namespace {

void take_from_another_stream(Run& run, bool is_order_known) {
  constexpr uint64_t kBytes = 1 << 20;
  CrossJob job{};
  // Where one take pays for the order there is but one; else several, so that the clock's steps are small against them.
  job.count = is_order_known ? 16 : 1;
  const auto count = static_cast<uint64_t>(job.count);
  KinaResource upstream = nullptr, made = nullptr;
  BENCH_OK(runtime_resource_current(&upstream, kDLExtDev, 0));
  KinaResourceInfo base{};
  base.struct_size = sizeof base;
  BENCH_OK(runtime_resource_info(&base, upstream));
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.growth = KINA_GROWTH_NONE;
  params.initial_bytes = count * kBytes;
  BENCH_OK(runtime_resource_pool(&made, base.upstream == nullptr ? upstream : base.upstream, &params));
  const OwnedResource pool(made);

  job.resource = pool.get();
  job.bytes = kBytes;
  job.is_order_known = is_order_known ? 1 : 0;
  const int64_t one = 1;
  for (int at = 0; at < 2; ++at) {
    job.work[at] = KINA_TENSOR_INIT;
    BENCH_OK(runtime_stream_checkout(&job.streams[at], kDLExtDev, 0));
    BENCH_OK(runtime_alloc(&job.work[at], &one, 1, KINA_DTYPE_F32, kDLExtDev, 0, job.streams[at]));
  }
  cross_take(&job);
  run.watch(pool.get());
  run.measure_steps(
      [&](uint64_t) {
        cross_prepare(&job);
        return nanoseconds_of([&] { cross_take(&job); });
      },
      static_cast<double>(count), settings().batches);
  cross_give(&job);
  for (int at = 0; at < 2; ++at) {
    BENCH_OK(runtime_free(&job.work[at]));
    BENCH_OK(runtime_stream_checkin(job.streams[at]));
  }
}

}  // namespace

void add_stream_rows() {
  add_row("T6/order_unknown/kina", [](Run& run) { take_from_another_stream(run, false); });
  add_row("T7/order_known/kina", [](Run& run) { take_from_another_stream(run, true); });
}

}  // namespace kina::bench
