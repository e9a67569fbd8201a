// The families of rows, and what those over raw memory share: drawn steps and the blocks that they move.
#pragma once

#include <span>

#include "impl/bench/harness.h"

namespace kina::bench {

void add_block_rows();
void add_thread_rows();
void add_tensor_rows();
void add_logging_rows();
void add_torch_rows();
void add_trace_rows();
void add_stream_rows();

// Steps over `slots` slots, which rows run round and round; `count` is a power of two.
std::vector<Step> draw_steps(uint64_t seed, uint32_t slots, uint32_t low, uint32_t high, uint64_t count = 65536);

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
  static constexpr size_t kApart = 128 / sizeof(Block);  // so that no two threads' blocks share a line of the cache
  std::vector<Block> memory_;
  const std::span<Block> blocks_;
  BlockJob job_;
};

}  // namespace kina::bench
