// Timing and counters of one row.
#include "impl/bench/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "impl/bench/shadow.h"

namespace kina::bench {
namespace {

constexpr uint64_t kSingles = 20000;
constexpr uint64_t kCheckedOperations = 20000;

double nanoseconds_per_tick() {
  static const double value = [] {
    const double start = now();
    const uint64_t first = ticks();
    while (now() - start < 2e7) {
    }
    return (now() - start) / static_cast<double>(ticks() - first);
  }();
  return value;
}

// What reading the clock twice costs, which every single operation's time contains.
uint64_t empty_ticks() {
  static const uint64_t value = [] {
    uint64_t lowest = ~uint64_t{0};
    for (int at = 0; at < 1000; ++at) {
      const uint64_t start = ticks();
      lowest = std::min(lowest, ticks() - start);
    }
    return lowest;
  }();
  return value;
}

template <class T>
T quantile(std::vector<T>& values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cost_of_now() {
  static const double value = [] {
    double lowest = 1e9;
    for (int at = 0; at < 1000; ++at) {
      const double start = now();
      lowest = std::min(lowest, now() - start);
    }
    return lowest;
  }();
  return value;
}

uint32_t Random::size_between(uint32_t low, uint32_t high) {
  const double share = static_cast<double>(bits() >> 11) * 0x1p-53;
  const double bytes = low * std::exp2(share * std::log2(static_cast<double>(high) / low));
  return static_cast<uint32_t>(bytes) & ~3U;
}

KinaResourceInfo OwnedResource::info() const {
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  BENCH_OK(runtime_resource_info(&info, handle_));
  return info;
}

OwnedResource pool_over(KinaResource upstream) {
  KinaResource made = nullptr;
  BENCH_OK(runtime_resource_pool(&made, upstream, nullptr));
  BENCH_OK(runtime_resource_release(upstream));
  return OwnedResource(made);
}

OwnedResource host_pool() {
  KinaResource host = nullptr;
  BENCH_OK(runtime_resource_host(&host));
  return pool_over(host);
}

KinaStream host_stream() {
  KinaStream stream = nullptr;
  BENCH_OK(runtime_stream_main(&stream, kDLCPU, 0));
  return stream;
}

const std::vector<Contender>& contenders() {
  static const std::vector<Contender> all = [] {
    std::vector<Contender> found = {{"kina", nullptr, 256},
                                    {"mimalloc_256", source_of_mimalloc_256(), 256},
                                    {"mimalloc", source_of_mimalloc(), 16},
                                    {"aligned_alloc_256", source_of_aligned_alloc(), 256},
                                    {"malloc", source_of_malloc(), 16}};
    found.erase(std::remove_if(found.begin() + 1, found.end(), [](const Contender& each) { return !each.source; }),
                found.end());
    return found;
  }();
  return all;
}

struct Run::Checked {
  Source source;
  std::unique_ptr<Shadow> shadow;
};

Run::Run(benchmark::State* state) : state_(state) {}
Run::~Run() = default;

const Source* Run::source(const Source& source, uint64_t alignment, bool is_touchable) {
  checked_.push_back(std::make_unique<Checked>(Checked{source, nullptr}));
  Checked& made = *checked_.back();
  if (is_check()) {
    made.shadow = std::make_unique<Shadow>(source, alignment, is_touchable);
    made.source = made.shadow->source();
  }
  return &made.source;
}

void Run::before() {
  info_ = {};
  info_.struct_size = sizeof info_;
  if (watched_ != nullptr) BENCH_OK(runtime_resource_info(&info_, watched_));
}

void Run::after(double operations) {
  if (watched_ == nullptr || is_check()) return;
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  BENCH_OK(runtime_resource_info(&info, watched_));
  report("takes", static_cast<double>(info.allocations - info_.allocations) / operations);
  report("hits", static_cast<double>(info.cache_hits - info_.cache_hits) / operations);
  report("upstream_calls", static_cast<double>(info.upstream_calls - info_.upstream_calls) / operations);
  report("event_records", static_cast<double>(info.event_records - info_.event_records) / operations);
  report("stream_waits", static_cast<double>(info.stream_waits - info_.stream_waits) / operations);
}

void Run::report(const char* name, double value) {
  if (!is_check()) state_->counters[name] = value;
}

void Run::give_up(const std::string& why) {
  if (!is_check()) return state_->SkipWithError(why.c_str());
  std::fprintf(stderr, "benchmark: %s\n", why.c_str());
  std::exit(1);
}

void Run::report_tail(const std::vector<uint64_t>& all_ticks) {
  std::vector<uint64_t> values = all_ticks;
  const auto in_nanoseconds = [](uint64_t value) {
    return static_cast<double>(value - std::min(value, empty_ticks())) * nanoseconds_per_tick();
  };
  report("single_p50_ns", in_nanoseconds(quantile(values, 0.5)));
  report("single_p99_ns", in_nanoseconds(quantile(values, 0.99)));
}

void Run::measure(Body* body, void* job, uint64_t batch) {
  if (is_check()) return body(job, 0, kCheckedOperations);
  body(job, 0, batch);
  uint64_t at = batch;
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(settings().batches));
  cost_of_now();
  before();
  for ([[maybe_unused]] auto _ : *state_) {
    const double time = nanoseconds_of([&] { body(job, at, batch); });
    at += batch;
    samples.push_back(time / static_cast<double>(batch));
    state_->SetIterationTime(time * 1e-9);
  }
  after(static_cast<double>(samples.size() * batch));
  report("ns", quantile(samples, 0.5));
  report("lowest_ns", quantile(samples, 0));
  report("batch_p99_ns", quantile(samples, 0.99));
  std::vector<uint64_t> singles(std::min(kSingles, settings().batches * batch));
  TimedJob timed{body, job, singles.data()};
  time_each(&timed, at, singles.size());
  report_tail(singles);
}

void Run::measure_steps(const std::function<double(uint64_t)>& step, double operations, uint64_t steps) {
  if (is_check()) {
    for (uint64_t at = 0; at < std::min<uint64_t>(steps, 50); ++at) step(at);
    return;
  }
  step(0);
  std::vector<double> samples;
  before();
  for ([[maybe_unused]] auto _ : *state_) {
    const double time = step(samples.size() + 1);
    samples.push_back(time / operations);
    state_->SetIterationTime(time * 1e-9);
  }
  after(static_cast<double>(samples.size()) * operations);
  report("ns", quantile(samples, 0.5));
  report("lowest_ns", quantile(samples, 0));
  report("batch_p99_ns", quantile(samples, 0.99));
}

void Run::measure_whole(const std::function<void()>& whole, double operations) {
  measure_steps([&](uint64_t) { return nanoseconds_of(whole); }, operations, 1);
}

void Run::measure_team(Body* body, const std::vector<void*>& jobs, uint64_t batch) {
  Team* team = team_make(static_cast<int>(jobs.size()));
  const auto count = static_cast<double>(jobs.size());
  if (is_check()) {
    team_run(team, body, jobs.data(), 0, kCheckedOperations);
    return team_end(team);
  }
  team_run(team, body, jobs.data(), 0, batch);
  uint64_t at = batch;
  std::vector<double> samples;
  before();
  for ([[maybe_unused]] auto _ : *state_) {
    const double time = team_run(team, body, jobs.data(), at, batch);
    at += batch;
    samples.push_back(time / static_cast<double>(batch));
    state_->SetIterationTime(time * 1e-9);
  }
  after(static_cast<double>(samples.size() * batch) * count);
  report("ns", quantile(samples, 0.5));
  report("lowest_ns", quantile(samples, 0));
  report("operations_per_second", count * 1e9 / quantile(samples, 0.5));

  std::vector<uint64_t> singles(static_cast<size_t>(count) * kSingles);
  std::vector<TimedJob> timed;
  timed.reserve(jobs.size());
  for (size_t index = 0; index < jobs.size(); ++index)
    timed.push_back({body, jobs[index], singles.data() + index * kSingles});
  std::vector<void*> pointers;
  pointers.reserve(jobs.size());
  for (TimedJob& each : timed) pointers.push_back(&each);
  team_run(team, &time_each, pointers.data(), at, kSingles);
  report_tail(singles);
  team_end(team);
}

}  // namespace kina::bench
