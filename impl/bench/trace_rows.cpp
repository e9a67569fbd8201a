// T19 and T20: programs' allocations replayed on a pool over memory that nobody may touch.
#include <algorithm>

#include "impl/bench/rows.h"

namespace kina::bench {
namespace {

// Steps in the order in which a program takes and gives back. A step of no bytes gives back.
class Trace {
 public:
  uint32_t take(uint64_t bytes) {
    uint32_t slot = slots_;
    if (free_.empty()) {
      ++slots_;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    steps_.push_back({slot, static_cast<uint32_t>(bytes)});
    return slot;
  }
  void give(uint32_t slot) {
    steps_.push_back({slot, 0});
    free_.push_back(slot);
  }
  void take_all(std::vector<uint32_t>& slots, int count, uint64_t bytes) {
    slots.reserve(slots.size() + static_cast<size_t>(count));
    for (int at = 0; at < count; ++at) slots.push_back(take(bytes));
  }
  void give_all(std::vector<uint32_t>& slots) {
    while (!slots.empty()) {
      give(slots.back());
      slots.pop_back();
    }
  }
  const std::vector<Step>& steps() const { return steps_; }
  uint32_t slots() const { return slots_; }

 private:
  std::vector<Step> steps_;
  std::vector<uint32_t> free_;
  uint32_t slots_ = 0;
};

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Weights stay; forward keeps activations, backward gives them back from the last on beside gradients, the optimizer
// takes temporaries. Batches grow every few steps, as a warm-up schedule does.
Trace training() {
  Trace trace;
  Random random(5);
  constexpr uint64_t kLayers = 24, kWidth = 1024;
  for (uint64_t layer = 0; layer < kLayers; ++layer)
    for (const uint64_t factor : {4UL, 4UL, 1UL, 1UL, 3UL}) trace.take(factor * kWidth * kWidth);
  for (uint64_t step = 0; step < 40; ++step) {
    const uint64_t tokens = 512 * (1 + step / 8) + random.below(64);
    std::vector<uint32_t> kept;
    for (uint64_t layer = 0; layer < kLayers; ++layer) {
      const uint32_t scratch = trace.take(tokens * kWidth * 4);
      kept.push_back(trace.take(tokens * kWidth * 2));
      kept.push_back(trace.take(tokens * 256 + 512));
      const uint32_t hidden = trace.take(tokens * kWidth * 8);
      trace.give(scratch);
      kept.push_back(trace.take(tokens * kWidth * 2));
      trace.give(hidden);
    }
    std::vector<uint32_t> gradients;
    while (!kept.empty()) {
      const uint32_t gradient = trace.take(tokens * kWidth * 2);
      if (kept.size() % 3 == 0) gradients.push_back(trace.take(4 * kWidth * kWidth));
      trace.give(kept.back());
      kept.pop_back();
      trace.give(gradient);
    }
    for (const uint32_t gradient : gradients) {
      const uint32_t temporary = trace.take(8 * kWidth * kWidth);
      trace.give(gradient);
      trace.give(temporary);
    }
  }
  return trace;
}

// Sequences come and go; each grows its cache piece by piece by concatenation, beside short-lived activations.
Trace inference() {
  Trace trace;
  Random random(6);
  struct Sequence {
    uint64_t tokens, last;
    std::vector<uint32_t> cache;
  };
  std::vector<Sequence> running;
  constexpr uint64_t kLayers = 8, kWidth = 4096;
  for (uint64_t step = 0; step < 600; ++step) {
    if (running.size() < 8 && random.below(4) == 0) {
      Sequence made{16 + random.below(200), 300 + random.below(500), {}};
      for (uint64_t layer = 0; layer < kLayers; ++layer) made.cache.push_back(trace.take(made.tokens * kWidth));
      running.push_back(made);
    }
    for (Sequence& each : running) {
      each.tokens += 1 + random.below(8);
      for (uint32_t& slot : each.cache) {
        const uint32_t longer = trace.take(each.tokens * kWidth);
        trace.give(slot);
        slot = longer;
        const uint32_t attention = trace.take(each.tokens * 64 + 2048);
        trace.give(attention);
      }
    }
    const auto is_over = [&](Sequence& each) {
      if (each.tokens < each.last) return false;
      trace.give_all(each.cache);
      return true;
    };
    running.erase(std::remove_if(running.begin(), running.end(), is_over), running.end());
  }
  return trace;
}

// P39: large blocks are used again for small ones that survive; the next round asks for the large ones.
Trace small_survivors() {
  Trace trace;
  std::vector<uint32_t> survivors;
  for (uint64_t round = 0; round < 40; ++round) {
    std::vector<uint32_t> large;
    trace.take_all(large, 8, 96 * kMebibyte);
    trace.give_all(large);
    trace.take_all(survivors, 16, uint64_t{20} * 1024);
  }
  return trace;
}

// P40: blocks of 530 MiB are followed by requests of 270 MiB, and these by the others again.
Trace halves() {
  Trace trace;
  for (int round = 0; round < 20; ++round) {
    std::vector<uint32_t> slots;
    trace.take_all(slots, 4, 530 * kMebibyte);
    trace.give_all(slots);
    trace.take_all(slots, 7, 270 * kMebibyte);
    trace.give_all(slots);
  }
  return trace;
}

// P42: producers take in bursts what consumers give back later and out of order.
Trace producers_and_consumers() {
  Trace trace;
  Random random(7);
  std::vector<uint32_t> queue;
  for (int round = 0; round < 400; ++round) {
    for (int at = 0; at < 64; ++at) queue.push_back(trace.take(random.size_between(4096, 8 << 20)));
    while (queue.size() > 256) {
      std::swap(queue[random.below(queue.size())], queue.back());
      trace.give(queue.back());
      queue.pop_back();
    }
  }
  return trace;
}

void replay(Run& run, const Trace& trace) {
  const OwnedResource pool = pool_over(untouchable_resource());
  const Source* source = run.source(source_of_kina(pool.get(), host_stream()), 256, false);
  std::vector<Step> steps = trace.steps();
  size_t padded = 1;
  while (padded < steps.size()) padded *= 2;
  steps.resize(padded, {trace.slots(), 0});
  Blocks blocks(source, steps, trace.slots() + 1);
  run.watch(pool.get());
  const auto count = static_cast<double>(trace.steps().size());
  run.measure_whole([&] { play_trace(blocks.job(), 0, trace.steps().size()); }, count);
  const KinaResourceInfo info = pool.info();
  KinaResourceInfo upstream{};
  upstream.struct_size = sizeof upstream;
  BENCH_OK(runtime_resource_info(&upstream, info.upstream));  // counts what the pool held at most
  run.report("reserved_to_peak", static_cast<double>(upstream.peak_bytes) / static_cast<double>(info.peak_bytes));
  run.report("spans", static_cast<double>(upstream.allocations));
  run.report("peak_bytes", static_cast<double>(info.peak_bytes));
  run.report("metadata_share", static_cast<double>(info.metadata_bytes) / static_cast<double>(info.reserved_bytes));
}

}  // namespace

void add_trace_rows() {
  for (const auto& [name, make] : {std::pair{"training", &training}, std::pair{"inference", &inference},
                                   std::pair{"P39_small_survivors", &small_survivors}, std::pair{"P40_halves", &halves},
                                   std::pair{"P42_producers_and_consumers", &producers_and_consumers}}) {
    auto* const draw = make;
    add_row(std::string("T19/") + name + "/kina", [draw](Run& run) { replay(run, draw()); });
  }
}

}  // namespace kina::bench
