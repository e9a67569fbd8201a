// Drawn steps and the blocks that they move: shared by the rows over raw memory.
#pragma once

#include "impl/bench/harness.h"

namespace kina::bench {

// 65,536 steps over `slots` slots.
std::vector<Step> draw_steps(uint64_t seed, uint32_t slots, uint32_t low, uint32_t high);

// The live blocks of one job; what is left goes back at the end. Looks at steps that outlive it.
class Blocks {
 public:
  Blocks(const Source* source, const std::vector<Step>& steps, size_t slots);
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks();

  void fill();
  void give_back_every_second();
  BlockJob* job() { return &job_; }

 private:
  std::vector<Block> blocks_;
  BlockJob job_;
};

}  // namespace kina::bench
