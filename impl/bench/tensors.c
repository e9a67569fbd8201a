/* SPDX-License-Identifier: Apache-2.0 */
/* Timed bodies over tensors and over what a thread has in force. */
#include "bench.h"

static const int64_t SHAPE[2] = {4, 8};

#define REPEAT for (uint64_t at = 0; at < count; ++at)
#define JOB               \
  TensorJob* job = given; \
  (void)job, (void)first

void tensor_job_make(TensorJob* job) {
  const float one = 1;
  const KinaTensor empty = KINA_TENSOR_INIT;
  job->source = job->other = job->result = empty;
  BENCH_OK(runtime_stream_main(&job->stream, kDLCPU, 0));
  BENCH_OK(runtime_resource_host(&job->second));
  BENCH_OK(runtime_resource_pool(&job->resource, job->second, NULL));
  BENCH_OK(runtime_resource_push(&job->scope, job->resource));
  BENCH_OK(runtime_alloc(&job->source, SHAPE, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL));
  BENCH_OK(runtime_alloc(&job->other, SHAPE, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL));
  BENCH_OK(runtime_alloc(&job->result, SHAPE, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL));
  BENCH_OK(runtime_fill(&job->source, &one, sizeof one));
  BENCH_OK(runtime_fill(&job->other, &one, sizeof one));
}
void tensor_job_end(TensorJob* job) {
  BENCH_OK(runtime_free(&job->result));
  BENCH_OK(runtime_free(&job->other));
  BENCH_OK(runtime_free(&job->source));
  BENCH_OK(runtime_scope_pop(job->scope));
  BENCH_OK(runtime_resource_release(job->resource));
  BENCH_OK(runtime_resource_release(job->second));
}

/* A free leaves the empty tensor, so one struct does for all: to make one is the caller's work, and gcc does it by a
 * string instruction whose start takes 4 to 15 ns. */
void alloc_and_free(void* given, uint64_t first, uint64_t count) {
  JOB;
  KinaTensor made = KINA_TENSOR_INIT;
  REPEAT {
    BENCH_OK(runtime_alloc(&made, SHAPE, 2, KINA_DTYPE_F32, kDLCPU, 0, job->stream));
    BENCH_OK(runtime_free(&made));
  }
}
void alloc_and_free_on_null_stream(void* given, uint64_t first, uint64_t count) {
  JOB;
  KinaTensor made = KINA_TENSOR_INIT;
  REPEAT {
    BENCH_OK(runtime_alloc(&made, SHAPE, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL));
    BENCH_OK(runtime_free(&made));
  }
}
void view_and_free(void* given, uint64_t first, uint64_t count) {
  static const int64_t shape[2] = {2, 4}, strides[2] = {16, 2};
  JOB;
  KinaTensor made = KINA_TENSOR_INIT;
  REPEAT {
    BENCH_OK(runtime_view(&made, &job->source, shape, strides, 2, 8, 0));
    BENCH_OK(runtime_free(&made));
  }
}
void alias_and_free(void* given, uint64_t first, uint64_t count) {
  JOB;
  KinaTensor made = KINA_TENSOR_INIT;
  REPEAT {
    BENCH_OK(runtime_alias(&made, &job->source));
    BENCH_OK(runtime_free(&made));
  }
}
/* An export consumes its tensor, so an alias is made first; the import owns the export until its tensor is freed. */
void alias_export_import_and_free(void* given, uint64_t first, uint64_t count) {
  JOB;
  KinaTensor alias = KINA_TENSOR_INIT, made = KINA_TENSOR_INIT;
  REPEAT {
    struct DLManagedTensorVersioned* managed = NULL;
    BENCH_OK(runtime_alias(&alias, &job->source));
    BENCH_OK(runtime_to_dlpack(&managed, &alias, NULL));
    BENCH_OK(runtime_from_dlpack(&made, managed, NULL));
    BENCH_OK(runtime_free(&made));
  }
}
void add_elements(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT BENCH_OK(runtime_gpu_binary(&job->result, &job->source, &job->other, KINA_BINARY_ADD));
}

/* What the call above comes down to, without a call. */
void add_elements_by_plain_loop(void* given, uint64_t first, uint64_t count) {
  JOB;
  const float *a = job->source.dl.data, *b = job->other.dl.data;
  float* result = job->result.dl.data;
  REPEAT {
    for (int64_t index = 0; index < SHAPE[0] * SHAPE[1]; ++index) result[index] = a[index] + b[index];
    __asm__ volatile("" : : "r"(result) : "memory");
  }
}

void small_job_make(SmallJob* job, KinaResource resource) {
  const float half = 0.5f;
  const KinaTensor empty = KINA_TENSOR_INIT;
  job->resource = resource;
  BENCH_OK(runtime_resource_push(&job->scope, resource));
  for (int index = 0; index < SMALL_SIZES; ++index) {
    const int64_t elements = (int64_t)(64.0 * (1 << index / 2) * (index % 2 == 0 ? 1.0 : 1.41));
    job->inputs[index] = empty;
    BENCH_OK(runtime_alloc(&job->inputs[index], &elements, 1, KINA_DTYPE_F32, kDLCPU, 0, NULL));
    BENCH_OK(runtime_fill(&job->inputs[index], &half, sizeof half));
  }
}
void small_job_end(SmallJob* job) {
  for (int index = 0; index < SMALL_SIZES; ++index) BENCH_OK(runtime_free(&job->inputs[index]));
  BENCH_OK(runtime_scope_pop(job->scope));
}
void many_small_tensors(void* given, uint64_t first, uint64_t count) {
  const SmallJob* job = given;
  for (uint64_t at = first; at < first + count; ++at) {
    const KinaTensor* input = &job->inputs[at * 7 % SMALL_SIZES];
    KinaTensor sum = KINA_TENSOR_INIT, activated = KINA_TENSOR_INIT;
    BENCH_OK(runtime_gpu_binary(&sum, input, input, KINA_BINARY_ADD));
    BENCH_OK(runtime_gpu_unary(&activated, &sum, KINA_UNARY_GELU));
    BENCH_OK(runtime_free(&sum));
    BENCH_OK(runtime_free(&activated));
  }
}

void current_resource_get(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaResource found = NULL;
    BENCH_OK(runtime_resource_current(&found, kDLCPU, 0));
  }
}
void default_set_and_restore(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaResource previous = NULL;
    BENCH_OK(runtime_resource_set_default(&previous, kDLCPU, 0, job->second));
    BENCH_OK(runtime_resource_set_default(NULL, kDLCPU, 0, previous));
  }
}
void resource_push_and_pop(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaScope scope = NULL;
    BENCH_OK(runtime_resource_push(&scope, job->second));
    BENCH_OK(runtime_scope_pop(scope));
  }
}
void current_stream_get(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaStream found = NULL;
    BENCH_OK(runtime_stream_current(&found, kDLCPU, 0));
  }
}
void stream_push_and_pop(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaScope scope = NULL;
    BENCH_OK(runtime_stream_push(&scope, job->stream));
    BENCH_OK(runtime_scope_pop(scope));
  }
}
void device_push_and_pop(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    KinaScope scope = NULL;
    BENCH_OK(runtime_device_push(&scope, kDLCPU, 0));
    BENCH_OK(runtime_scope_pop(scope));
  }
}

/* What the bodies above cost with functions that do nothing, which are reached the way the library's are. */
static KinaStatus nothing_given(void** out) {
  *out = out;
  return KINA_SUCCESS;
}
static KinaStatus nothing_ended(void* given) {
  (void)given;
  return KINA_SUCCESS;
}
static KinaStatus (*volatile give_nothing)(void** out) = &nothing_given;
static KinaStatus (*volatile end_nothing)(void* given) = &nothing_ended;
void one_empty_call(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    void* found = NULL;
    BENCH_OK(give_nothing(&found));
  }
}
void two_empty_calls(void* given, uint64_t first, uint64_t count) {
  JOB;
  REPEAT {
    void* found = NULL;
    BENCH_OK(give_nothing(&found));
    BENCH_OK(end_nothing(found));
  }
}
