/* SPDX-License-Identifier: Apache-2.0 */
/* Timed bodies that take blocks which another stream gave back. */
#include "bench.h"

void cross_prepare(CrossJob* job) {
  const float zero = 0;
  KinaScope scope = NULL;
  const int on = job->on;
  BENCH_OK(runtime_stream_push(&scope, job->streams[on]));
  BENCH_OK(runtime_fill(&job->work[on], &zero, sizeof zero));
  BENCH_OK(runtime_scope_pop(scope));
  cross_give(job);
  if (job->is_order_known) BENCH_OK(runtime_stream_wait(job->streams[!on], job->streams[on]));
  job->on = !on;
}

void cross_take(CrossJob* job) {
  const KinaStream stream = job->streams[job->on];
  for (int at = 0; at < job->count; ++at)
    if (runtime_memory_allocate(&job->blocks[at], job->resource, job->bytes, 0, stream) != KINA_SUCCESS)
      bench_stop("runtime_memory_allocate");
}

void cross_give(CrossJob* job) {
  for (int at = 0; at < job->count; ++at)
    BENCH_OK(runtime_memory_deallocate(job->resource, job->blocks[at], job->bytes, 0, job->streams[job->on]));
}
