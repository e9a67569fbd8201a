// T8 to T10: raw blocks on several threads.
#include "impl/bench/rows.h"

namespace kina::bench {
namespace {

constexpr uint32_t kSlots = 64;
// Milliseconds, where waking 16 threads takes a tenth of one.
constexpr uint64_t kOperations = 40000;

// One stream of the host for each thread, or one for all.
class Streams {
 public:
  Streams(size_t threads, bool is_shared) {
    for (size_t index = 0; index < threads; ++index) {
      KinaStream stream = host_stream();
      if (!is_shared) {
        BENCH_OK(runtime_stream_checkout(&stream, kDLCPU, 0));
        own_.push_back(stream);
      }
      all_.push_back(stream);
    }
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    for (KinaStream stream : own_) BENCH_OK(runtime_stream_checkin(stream));
  }
  KinaStream at(size_t index) const { return all_[index]; }

 private:
  std::vector<KinaStream> all_, own_;
};

void in_parallel(Run& run, const Contender& contender, size_t threads, bool is_shared) {
  const bool is_kina = contender.source == nullptr;
  const OwnedResource pool = is_kina ? host_pool() : OwnedResource(nullptr);
  run.watch(pool.get());
  const Streams streams(threads, is_shared);
  // One shadow map for all, so that blocks of different threads are held against each other.
  const Source* shared =
      run.source(is_kina ? source_of_kina(pool.get(), nullptr) : *contender.source, contender.alignment);
  std::vector<Source> sources(threads, *shared);
  std::vector<std::vector<Step>> steps;
  std::vector<std::unique_ptr<Blocks>> blocks;
  std::vector<void*> jobs;
  for (size_t index = 0; index < threads; ++index) {
    if (is_kina && !run.is_check()) sources[index].stream = streams.at(index);
    steps.push_back(draw_steps(100 + index, kSlots, 256, 64 * 1024));
  }
  for (size_t index = 0; index < threads; ++index) {
    blocks.push_back(std::make_unique<Blocks>(&sources[index], steps[index], kSlots));
    blocks.back()->fill();
    jobs.push_back(blocks.back()->job());
  }
  run.measure_team(&replace_blocks, jobs, kOperations);
}

// The second thread gives back what the first one took. `of`: whose time it is.
void remote_free(Run& run, const Contender& contender) {
  const bool is_kina = contender.source == nullptr;
  const OwnedResource pool = is_kina ? host_pool() : OwnedResource(nullptr);
  run.watch(pool.get());
  constexpr uint64_t kBatch = 256;
  const std::vector<Step> steps = draw_steps(3, 1, 256, 64 * 1024);
  const Source* source =
      run.source(is_kina ? source_of_kina(pool.get(), host_stream()) : *contender.source, contender.alignment);
  std::vector<Block> blocks(kBatch);
  Team* team = team_make(2);
  HandoverJob job{{source, steps.data(), steps.size() - 1, blocks.data()}, kBatch, team, 0, 0};
  double takes = 0, count = 0;
  run.measure_steps(
      [&](uint64_t step) {
        hand_over(&job, step * kBatch);
        takes += job.take_nanoseconds / kBatch;
        ++count;
        return job.give_nanoseconds;
      },
      kBatch, settings().batches);
  run.report("take_ns", takes / count);
  team_end(team);
}

}  // namespace

void add_thread_rows() {
  std::vector<int> counts = {1};
  for (int threads = 2; threads < settings().threads; threads *= 2) counts.push_back(threads);
  if (settings().threads > 1) counts.push_back(settings().threads);
  const uint64_t batches = std::max<uint64_t>(settings().batches / 20, 1);
  for (const Contender& each : contenders()) {
    for (const int threads : counts) {
      const std::string name = std::to_string(threads) + "/" + each.name;
      const auto members = static_cast<size_t>(threads);
      add_row(
          "T8/own_streams/" + name, [&each, members](Run& run) { in_parallel(run, each, members, false); }, batches);
      if (each.source == nullptr)
        add_row(
            "T9/one_stream/" + name, [&each, members](Run& run) { in_parallel(run, each, members, true); }, batches);
    }
    add_row(std::string("T10/remote_free/") + each.name, [&](Run& run) { remote_free(run, each); });
  }
}

}  // namespace kina::bench
