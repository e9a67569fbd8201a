// T1 to T5 and T20: raw blocks on one thread.
#include <algorithm>

#include "impl/bench/rows.h"

namespace kina::bench {

std::vector<Step> draw_steps(uint64_t seed, uint32_t slots, uint32_t low, uint32_t high, uint64_t count) {
  Random random(seed);
  std::vector<Step> steps(count);
  for (Step& step : steps) step = {static_cast<uint32_t>(random.below(slots)), random.size_between(low, high)};
  return steps;
}

Blocks::Blocks(const Source* source, const std::vector<Step>& steps, size_t slots)
    : memory_(slots + 2 * kApart),
      blocks_(std::span(memory_).subspan(kApart, slots)),
      job_{source, steps.data(), steps.size() - 1, blocks_.data()} {}

Blocks::~Blocks() {
  for (const Block& block : blocks_)
    if (block.bytes != 0) job_.source->give(job_.source, block.data, block.bytes);
}

void Blocks::fill() {
  for (size_t slot = 0; slot < blocks_.size(); ++slot) {
    const uint32_t bytes = job_.steps[slot & job_.step_mask].bytes;
    blocks_[slot] = {job_.source->take(job_.source, bytes), bytes};
  }
}

void Blocks::give_back_every_second() {
  for (size_t slot = 0; slot < blocks_.size(); slot += 2) {
    job_.source->give(job_.source, blocks_[slot].data, blocks_[slot].bytes);
    blocks_[slot] = {};
  }
}

namespace {

constexpr uint64_t kWarmUp = uint64_t{1} << 17;  // steps until a pool has stopped growing
constexpr uint32_t kKibibyte = 1024;
constexpr uint32_t kMebibyte = 1024 * kKibibyte;
constexpr uint32_t kSmall[2] = {256, 64 * kKibibyte};
constexpr uint32_t kMedium[2] = {64 * kKibibyte, 32 * kMebibyte};

// A pool where `contender` is the library, and what the row takes its blocks from.
struct Place {
  Place(Run& run, const Contender& contender, KinaStream stream = host_stream())
      : pool(contender.source == nullptr ? host_pool() : OwnedResource(nullptr)),
        source(run.source(contender.source == nullptr ? source_of_kina(pool.get(), stream) : *contender.source,
                          contender.alignment)) {
    run.watch(pool.get());
  }
  OwnedResource pool;
  const Source* source;
};

void hot_pairs(Run& run, const Contender& contender, KinaStream stream) {
  const Place place(run, contender, stream);
  const std::vector<Step> steps(1, Step{0, 4 * kKibibyte});
  Blocks blocks(place.source, steps, 0);
  run.measure(&pair_blocks, blocks.job());
}

void report_metadata(Run& run, const OwnedResource& pool) {
  if (pool.get() == nullptr) return;
  const KinaResourceInfo info = pool.info();
  run.report("metadata_share", static_cast<double>(info.metadata_bytes) / static_cast<double>(info.reserved_bytes));
}

void replace(Run& run, const Contender& contender, uint32_t slots, const uint32_t (&sizes)[2]) {
  const Place place(run, contender);
  // Few steps where few blocks make up most bytes: one round has to have all that can come.
  const std::vector<Step> steps = draw_steps(1, slots, sizes[0], sizes[1], slots < 1000 ? 4096 : 65536);
  Blocks blocks(place.source, steps, slots);
  blocks.fill();
  replace_blocks(blocks.job(), 0, kWarmUp);
  run.measure(&replace_blocks, blocks.job());
  report_metadata(run, place.pool);
}

// The cost beside `free_blocks` free ones that cannot merge: each lies between two live ones.
void replace_beside(Run& run, const Source* source, size_t free_blocks, const uint32_t (&sizes)[2]) {
  constexpr uint32_t kSlots = 16;
  const std::vector<Step> steps = draw_steps(2, kSlots, sizes[0], sizes[1]);
  Blocks others(source, steps, 2 * free_blocks);
  others.fill();
  Blocks blocks(source, steps, kSlots);
  blocks.fill();
  others.give_back_every_second();
  replace_blocks(blocks.job(), 0, kWarmUp);
  run.measure(&replace_blocks, blocks.job());
}

void small_growth(Run& run, const Contender& contender, size_t free_blocks) {
  const Place place(run, contender);
  replace_beside(run, place.source, free_blocks, kSmall);
}

// Terabytes of address space, so the library alone, over memory that nobody may touch.
void medium_growth(Run& run, size_t free_blocks) {
  const OwnedResource pool = pool_over(untouchable_resource());
  run.watch(pool.get());
  replace_beside(run, run.source(source_of_kina(pool.get(), host_stream()), 256, false), free_blocks, kMedium);
  report_metadata(run, pool);
}

}  // namespace

void add_block_rows() {
  add_row("machine/locked_add/harness", [](Run& run) { run.measure(&locked_adds, nullptr); });
  const Contender harness{"harness", source_of_nothing(), 16};
  add_row("T1/hot/harness", [=](Run& run) {
    if (!run.is_check()) hot_pairs(run, harness, nullptr);
  });
  for (const Contender& each : contenders()) {
    add_row(std::string("T1/hot/") + each.name, [&](Run& run) { hot_pairs(run, each, host_stream()); });
    add_row(std::string("T2/small/") + each.name, [&](Run& run) { replace(run, each, 10000, kSmall); });
    add_row(std::string("T3/medium/") + each.name, [&](Run& run) { replace(run, each, 64, kMedium); });
  }
  add_row("T1/hot_null_stream/kina", [&](Run& run) { hot_pairs(run, contenders()[0], nullptr); });
  for (const size_t free_blocks : {10UL, 100UL, 1000UL, 10000UL, 100000UL}) {
    const std::string count = std::to_string(free_blocks);
    for (const Contender& each : contenders())
      add_row("T4/small/" + count + "/" + each.name,
              [&each, free_blocks](Run& run) { small_growth(run, each, free_blocks); });
    add_row("T4/medium/" + count + "/kina", [free_blocks](Run& run) { medium_growth(run, free_blocks); });
  }
}

}  // namespace kina::bench
