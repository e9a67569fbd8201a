// T11: what a logging resource costs the thread that allocates.
#include <atomic>
#include <chrono>
#include <thread>

#include "impl/bench/rows.h"

namespace kina::bench {
namespace {

// logging(pool(host)) whose rows end in a counter. Its own thread must not share the pinned core.
class LoggedPool {
 public:
  LoggedPool() : pool_(host_pool()) {
    KinaLoggingParams params = KINA_LOGGING_PARAMS_INIT;
    params.callback = [](void* seen, const KinaLogRow*) {
      static_cast<std::atomic<uint64_t>*>(seen)->fetch_add(1, std::memory_order_relaxed);
    };
    params.context = &seen_;
    KinaResource made = nullptr;
    unpin();
    BENCH_OK(runtime_resource_logging(&made, pool_.get(), &params));
    pin_to(core_count() - 1);
    logging_ = std::make_unique<OwnedResource>(made);
  }
  KinaResource get() const { return logging_->get(); }
  KinaResource pool() const { return pool_.get(); }
  uint64_t dropped() const { return logging_->info().dropped_rows; }
  // Until every row has been heard, so that none of the next batch finds the ring full.
  void drain() const {
    while (seen_.load(std::memory_order_relaxed) + dropped() < rows_of(logging_->info()))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  static uint64_t rows_of(const KinaResourceInfo& info) {
    return info.allocations + info.deallocations + info.failures;
  }

  std::atomic<uint64_t> seen_{0};
  OwnedResource pool_;
  std::unique_ptr<OwnedResource> logging_;
};

enum class Way { without, beside, through };

// `beside`: the pool's own figure while a logging resource lives elsewhere in the process.
void measure_logging(Run& run, Way way, Body* body) {
  constexpr uint64_t kPairs = 2000;
  std::unique_ptr<LoggedPool> logged = way == Way::without ? nullptr : std::make_unique<LoggedPool>();
  const OwnedResource plain = host_pool();
  const KinaResource used = way == Way::through ? logged->get() : plain.get();
  const Source* source = run.source(source_of_kina(used, host_stream()), 256, body != &touch_blocks);
  const std::vector<Step> steps = draw_steps(4, 1, 256, 4096);
  Blocks blocks(source, steps, 0);
  run.measure_steps(
      [&](uint64_t step) {
        const auto start = std::chrono::steady_clock::now();
        body(blocks.job(), step * kPairs, kPairs);
        const auto end = std::chrono::steady_clock::now();
        if (way == Way::through) logged->drain();
        return std::chrono::duration<double, std::nano>(end - start).count();
      },
      kPairs, settings().batches);
  if (way == Way::through) run.report("dropped_rows", static_cast<double>(logged->dropped()));
}

}  // namespace

void add_logging_rows() {
  for (const auto& [load, body] : {std::pair{"pairs", &pair_blocks}, std::pair{"touched", &touch_blocks}}) {
    const std::string name = std::string("T11/") + load;
    Body* const timed = body;
    add_row(name + "/without/kina", [timed](Run& run) { measure_logging(run, Way::without, timed); });
    add_row(name + "/beside/kina", [timed](Run& run) { measure_logging(run, Way::beside, timed); });
    add_row(name + "/through/kina", [timed](Run& run) { measure_logging(run, Way::through, timed); });
  }
}

}  // namespace kina::bench
