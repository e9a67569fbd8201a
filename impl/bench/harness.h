// The frame of every row: warm-up, timed batches, single operations for the tail, counters of what ran, and the
// untimed run in which every block is checked.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "impl/bench/bench.h"

namespace kina::bench {

// Random numbers that are the same in every run: splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t bound) { return bits() % bound; }
  // Every doubling between the two is as likely as any other.
  uint32_t size_between(uint32_t low, uint32_t high);

 private:
  uint64_t state_;
};

// A counted handle of a resource.
class OwnedResource {
 public:
  explicit OwnedResource(KinaResource handle) : handle_(handle) {}
  OwnedResource(OwnedResource&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedResource& operator=(OwnedResource&&) = delete;
  ~OwnedResource() {
    if (handle_ != nullptr) BENCH_OK(runtime_resource_release(handle_));
  }
  KinaResource get() const { return handle_; }
  KinaResourceInfo info() const;

 private:
  KinaResource handle_;
};
OwnedResource host_pool();                       // pool(host)
OwnedResource pool_over(KinaResource upstream);  // which it takes over
KinaStream host_stream();

// Nanoseconds of a monotonic clock, and what asking for them costs.
double now();
double cost_of_now();
template <class F>
double nanoseconds_of(F&& timed) {
  const double start = now();
  timed();
  return now() - start - cost_of_now();
}

// One run of one row: timed for Google Benchmark, or checked.
class Run {
 public:
  explicit Run(benchmark::State* state);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  bool is_check() const { return state_ == nullptr; }
  // What the row has to take its blocks from: in a check a shadow map in front of `source`.
  const Source* source(const Source& source, uint64_t alignment, bool is_touchable = true);
  // The resource whose counters prove which path ran.
  void watch(KinaResource resource) { watched_ = resource; }

  // Batches are short against a time slice, so that on a busy machine most of them run undisturbed.
  void measure(Body* body, void* job, uint64_t batch = 200);
  // For rows that take their time themselves: `step(index)` returns nanoseconds for each of `operations`.
  void measure_steps(const std::function<double(uint64_t)>& step, double operations, uint64_t steps);
  // For rows that are repeated as a whole.
  void measure_whole(const std::function<void()>& whole, double operations);
  // Every member of a team of one for each job runs it at the same time. A batch has to be long against the time in
  // which they all wake up.
  void measure_team(Body* body, const std::vector<void*>& jobs, uint64_t batch);
  void report(const char* name, double value);
  // Where there is nothing to time; a check ends the process.
  void give_up(const std::string& why);

 private:
  struct Checked;
  void before();
  void after(double operations);
  void report_tail(const std::vector<uint64_t>& ticks);

  benchmark::State* state_;
  KinaResource watched_ = nullptr;
  KinaResourceInfo info_{};
  std::vector<std::unique_ptr<Checked>> checked_;
};

// `batches` 0: as many as the settings say.
void add_row(const std::string& name, std::function<void(Run&)> body, uint64_t batches = 0);
// What a program registers.
void add_rows();

struct Settings {
  uint64_t batches = 1000;
  int threads = 2;
};
Settings& settings();

// The peers and the library, in the order in which tables show them.
struct Contender {
  const char* name;
  const Source* source;  // NULL: the library
  uint64_t alignment;
};
const std::vector<Contender>& contenders();

}  // namespace kina::bench
