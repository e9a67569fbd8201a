/* SPDX-License-Identifier: Apache-2.0 */
/* Timed bodies that take a block which another stream gave back. */
#include "bench.h"

void cross_prepare(CrossJob* job) {
  const float zero = 0;
  KinaScope scope = NULL;
  const int on = job->on;
  BENCH_OK(runtime_stream_push(&scope, job->streams[on]));
  BENCH_OK(runtime_fill(&job->work[on], &zero, sizeof zero));
  BENCH_OK(runtime_scope_pop(scope));
  BENCH_OK(runtime_memory_deallocate(job->resource, job->data, job->bytes, 0, job->streams[on]));
  if (job->is_order_known) BENCH_OK(runtime_stream_wait(job->streams[!on], job->streams[on]));
  job->on = !on;
}

void cross_take(CrossJob* job) {
  if (runtime_memory_allocate(&job->data, job->resource, job->bytes, 0, job->streams[job->on]) != KINA_SUCCESS)
    bench_stop("runtime_memory_allocate");
}
