/* SPDX-License-Identifier: Apache-2.0 */
/* Timed bodies over raw blocks. What they do is drawn beforehand: here is nothing but the calls. */

#include <stdatomic.h>

#include "bench.h"

void pair_blocks(void* given, uint64_t first, uint64_t count) {
  const BlockJob* job = given;
  const Source* source = job->source;
  for (uint64_t at = first; at < first + count; ++at) {
    const uint64_t bytes = job->steps[at & job->step_mask].bytes;
    source->give(source, source->take(source, bytes), bytes);
  }
}

void replace_blocks(void* given, uint64_t first, uint64_t count) {
  const BlockJob* job = given;
  const Source* source = job->source;
  for (uint64_t at = first; at < first + count; ++at) {
    const Step step = job->steps[at & job->step_mask];
    Block* block = &job->blocks[step.slot];
    source->give(source, block->data, block->bytes);
    block->data = source->take(source, step.bytes);
    block->bytes = step.bytes;
  }
}

void play_trace(void* given, uint64_t first, uint64_t count) {
  const BlockJob* job = given;
  const Source* source = job->source;
  for (uint64_t at = first; at < first + count; ++at) {
    const Step step = job->steps[at & job->step_mask];
    Block* block = &job->blocks[step.slot];
    if (block->bytes != 0) source->give(source, block->data, block->bytes);
    block->data = step.bytes == 0 ? NULL : source->take(source, step.bytes);
    block->bytes = step.bytes;
  }
}

void locked_adds(void* given, uint64_t first, uint64_t count) {
  static _Atomic uint64_t sum;
  (void)given, (void)first;
  for (uint64_t at = 0; at < count; ++at) atomic_fetch_add_explicit(&sum, 1, memory_order_relaxed);
}
