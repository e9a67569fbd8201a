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
    pin_to(quietest_core());
    logging_ = std::make_unique<OwnedResource>(made);
  }
  KinaResource get() const { return logging_->get(); }
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

// A logged pool and a plain one, and the one of them that the timed body uses. `beside`: a logging resource lives
// elsewhere in the process.
class Place {
 public:
  explicit Place(Way way)
      : logged_(way == Way::without ? nullptr : std::make_unique<LoggedPool>()),
        plain_(host_pool()),
        is_logged_(way == Way::through) {}
  KinaResource used() const { return is_logged_ ? logged_->get() : plain_.get(); }

  void measure(Run& run, Body* body, void* job, uint64_t batch) const {
    run.measure_steps(
        [&](uint64_t step) {
          const double time = nanoseconds_of([&] { body(job, step * batch, batch); });
          if (is_logged_) logged_->drain();
          return time;
        },
        static_cast<double>(batch), settings().batches);
    if (is_logged_) run.report("dropped_rows", static_cast<double>(logged_->dropped()));
  }

 private:
  std::unique_ptr<LoggedPool> logged_;
  OwnedResource plain_;
  bool is_logged_;
};

void measure_pairs(Run& run, Way way) {
  const Place place(way);
  const Source* source = run.source(source_of_kina(place.used(), host_stream()), 256);
  const std::vector<Step> steps = draw_steps(4, 1, 256, 4096);
  Blocks blocks(source, steps, 0);
  place.measure(run, &pair_blocks, blocks.job(), 2000);
}

void measure_tensors(Run& run, Way way) {
  const Place place(way);
  SmallJob job{};
  small_job_make(&job, place.used());
  place.measure(run, &many_small_tensors, &job, 16);
  small_job_end(&job);
}

}  // namespace

void add_logging_rows() {
  for (const auto& [name, way] :
       {std::pair{"without", Way::without}, std::pair{"beside", Way::beside}, std::pair{"through", Way::through}}) {
    const Way taken = way;
    add_row(std::string("T11/pairs_") + name + "/kina", [taken](Run& run) { measure_pairs(run, taken); });
    add_row(std::string("T11/tensors_") + name + "/kina", [taken](Run& run) { measure_tensors(run, taken); });
  }
}

}  // namespace kina::bench
