/* SPDX-License-Identifier: Apache-2.0 */
/* cycles: alloc/free and view/free cycles on one memory resource, random in shape, one call in ten wrong on purpose.
 *
 * Usage: cycles RESOURCE COUNT, where RESOURCE is host, pool, logging, limit, custom or stack (logging of limit of
 * pool). Every call's status is checked, a wrong call must leave its output as it was, and at the end nothing may be
 * live and the resource's own tables must not have grown in the second half. A leak checker watches from outside.
 */
#include <inttypes.h>
#include <kina_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, HIGHEST_RANK = 8, MAXIMUM_BYTES = 1 << 24 };

static uint64_t calls, wrong_calls, custom_blocks;

static void stop(const char* what, int line) {
  fprintf(stderr, "cycles.c:%d: %s; the last error says: %s\n", line, what, runtime_last_error_message());
  exit(1);
}
#define REQUIRE(condition) ((condition) ? (void)0 : stop(#condition, __LINE__))
#define EXPECT(status, call) (++calls, (call) == (status) ? (void)0 : stop(#call " is not " #status, __LINE__))
#define OK(call) EXPECT(KINA_SUCCESS, call)

static uint64_t random_bits(void) { /* xorshift64*: the same sequence in every run */
  static uint64_t state = 0x9E3779B97F4A7C15u;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1Du;
}
static int32_t below(int32_t bound) { return (int32_t)((random_bits() >> 33) % (uint64_t)bound); }

static KinaStatus custom_allocate(void** out, void* context, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  (void)stream;
  void* data = aligned_alloc((size_t)alignment, (size_t)((bytes + alignment - 1) / alignment * alignment));
  if (data == NULL) return KINA_ERROR_OUT_OF_MEMORY;
  ++*(uint64_t*)context;
  *out = data;
  return KINA_SUCCESS;
}
static KinaStatus custom_deallocate(void* context, void* data, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  (void)bytes, (void)alignment, (void)stream;
  --*(uint64_t*)context;
  free(data);
  return KINA_SUCCESS;
}
static void take_row(void* context, const KinaLogRow* row) { *(uint64_t*)context = row->order; }

static KinaResource pool_of(KinaResource upstream) {
  KinaResource out = NULL;
  const KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  OK(runtime_resource_pool(&out, upstream, &params));
  OK(runtime_resource_release(upstream));
  return out;
}
static KinaResource limit_of(KinaResource upstream) {
  KinaResource out = NULL;
  OK(runtime_resource_limit(&out, upstream, SLOTS * (uint64_t)MAXIMUM_BYTES));
  OK(runtime_resource_release(upstream));
  return out;
}
static KinaResource logging_of(KinaResource upstream) {
  static uint64_t last_order;
  KinaResource out = NULL;
  KinaLoggingParams params = KINA_LOGGING_PARAMS_INIT;
  params.callback = take_row;
  params.context = &last_order;
  OK(runtime_resource_logging(&out, upstream, &params));
  OK(runtime_resource_release(upstream));
  return out;
}
static KinaResource make_resource(const char* name) {
  KinaResource host = NULL;
  if (strcmp(name, "custom") == 0) {
    KinaResourceVtable vtable = KINA_RESOURCE_VTABLE_INIT;
    vtable.allocate = custom_allocate;
    vtable.deallocate = custom_deallocate;
    OK(runtime_resource_custom(&host, kDLCPU, 0, &vtable, &custom_blocks));
    return host;
  }
  OK(runtime_resource_host(&host));
  if (strcmp(name, "host") == 0) return host;
  if (strcmp(name, "pool") == 0) return pool_of(host);
  if (strcmp(name, "logging") == 0) return logging_of(host);
  if (strcmp(name, "limit") == 0) return limit_of(host);
  if (strcmp(name, "stack") == 0) return logging_of(limit_of(pool_of(host)));
  fprintf(stderr, "cycles: no resource is called %s\n", name);
  exit(64);
}

static KinaDtype random_dtype(void) {
  static const KinaDtype dtypes[] = {KINA_DTYPE_BOOL, KINA_DTYPE_U8,  KINA_DTYPE_I16, KINA_DTYPE_F16, KINA_DTYPE_BF16,
                                     KINA_DTYPE_I32,  KINA_DTYPE_F32, KINA_DTYPE_I64, KINA_DTYPE_F64, KINA_DTYPE_C128};
  return dtypes[below((int32_t)(sizeof dtypes / sizeof dtypes[0]))];
}
static int32_t random_shape(int64_t* shape) {
  const int32_t ndim = below(HIGHEST_RANK + 1);
  int64_t elements = 1;
  for (int32_t axis = 0; axis < ndim; ++axis) {
    shape[axis] = elements > 4096 ? 1 : below(below(8) == 0 ? 300 : 9);
    elements *= shape[axis] == 0 ? 1 : shape[axis];
  }
  return ndim;
}

/* A view of a random box of a tensor, every axis from some start with some step, forwards or backwards. */
static void random_view(KinaTensor* out, const KinaTensor* in) {
  int64_t shape[HIGHEST_RANK], strides[HIGHEST_RANK], offset = 0;
  for (int32_t axis = 0; axis < in->dl.ndim; ++axis) {
    const int64_t extent = in->dl.shape[axis], step = 1 + below(3);
    const int64_t start = extent == 0 ? 0 : below((int32_t)extent);
    shape[axis] = extent == 0 ? 0 : (extent - start + step - 1) / step;
    strides[axis] = in->dl.strides[axis] * step;
    offset += in->dl.strides[axis] * start;
    if (shape[axis] > 0 && below(4) == 0) {
      offset += strides[axis] * (shape[axis] - 1);
      strides[axis] = -strides[axis];
    }
  }
  for (int32_t axis = 0; axis < in->dl.ndim; ++axis)
    if (shape[axis] == 0) offset = 0;
  OK(runtime_view(out, in, shape, strides, in->dl.ndim, offset, 0));
}

static void wrong_call(const KinaTensor* live, const KinaTensor* stale) {
  const int64_t negative[2] = {3, -1}, huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, large[1] = {INT64_C(1) << 50},
                small[1] = {2}, many[33] = {0};
  const KinaTensor empty = KINA_TENSOR_INIT;
  KinaTensor out = KINA_TENSOR_INIT, copy = *stale;
  ++wrong_calls;
  switch (below(10)) {
    case 0: EXPECT(KINA_ERROR_INVALID_SHAPE, runtime_alloc(&out, negative, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL)); break;
    case 1: EXPECT(KINA_ERROR_INVALID_SHAPE, runtime_alloc(&out, huge, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL)); break;
    case 2: EXPECT(KINA_ERROR_INVALID_SHAPE, runtime_alloc(&out, many, 33, KINA_DTYPE_F32, kDLCPU, 0, NULL)); break;
    case 3: EXPECT(KINA_ERROR_UNSUPPORTED, runtime_alloc(&out, small, 1, 0x00010000u, kDLCPU, 0, NULL)); break;
    case 4: EXPECT(KINA_ERROR_INVALID_ARGUMENT, runtime_alloc(&out, small, 1, KINA_DTYPE_F32, kDLCPU, 99, NULL)); break;
    case 5: EXPECT(KINA_ERROR_OUT_OF_MEMORY, runtime_alloc(&out, large, 1, KINA_DTYPE_F64, kDLCPU, 0, NULL)); break;
    case 6: EXPECT(KINA_ERROR_INVALID_ARGUMENT, runtime_alloc(NULL, small, 1, KINA_DTYPE_F32, kDLCPU, 0, NULL)); break;
    case 7: EXPECT(KINA_ERROR_INVALID_SHAPE, runtime_view(&out, live, large, NULL, 1, 0, 0)); break;
    case 8: EXPECT(KINA_ERROR_INVALID_HANDLE, runtime_view(&out, stale, small, NULL, 1, 0, 0)); break;
    default: EXPECT(KINA_ERROR_INVALID_HANDLE, runtime_free(&copy)); REQUIRE(memcmp(&copy, stale, sizeof copy) == 0);
  }
  REQUIRE(memcmp(&out, &empty, sizeof out) == 0);
}

static KinaResourceInfo info_of(KinaResource resource) {
  KinaResourceInfo info;
  memset(&info, 0, sizeof info);
  info.struct_size = (uint32_t)sizeof info;
  OK(runtime_resource_info(&info, resource));
  return info;
}

static void run_cycles(KinaTensor* slots, KinaTensor* stale, uint64_t count) {
  for (uint64_t cycle = 0; cycle < count; ++cycle) {
    KinaTensor* slot = &slots[below(SLOTS)];
    if (cycle % 2 == 0) {
      int64_t shape[HIGHEST_RANK];
      const int32_t ndim = random_shape(shape);
      *stale = *slot;
      OK(runtime_free(slot));
      OK(runtime_alloc(slot, ndim == 0 ? NULL : shape, ndim, random_dtype(), kDLCPU, 0, NULL));
    } else {
      KinaTensor view = KINA_TENSOR_INIT;
      random_view(&view, slot);
      if (view.size_bytes > 0 && view.dl.data != NULL) ((volatile unsigned char*)view.dl.data)[view.size_bytes - 1] = 1;
      OK(runtime_free(&view));
    }
    if (below(9) < 2) wrong_call(slot, stale);
  }
}

int main(int count, char** arguments) {
  static KinaTensor slots[SLOTS];
  if (count != 3) {
    fprintf(stderr, "usage: cycles RESOURCE COUNT\n");
    return 64;
  }
  const uint64_t cycles = strtoull(arguments[2], NULL, 10);
  KinaResource resource = make_resource(arguments[1]), previous = NULL;
  OK(runtime_resource_set_default(&previous, kDLCPU, 0, resource));

  const int64_t shape[1] = {4};
  for (int32_t slot = 0; slot < SLOTS; ++slot)
    OK(runtime_alloc(&slots[slot], shape, 1, KINA_DTYPE_F32, kDLCPU, 0, NULL));
  KinaTensor stale = slots[0];
  OK(runtime_free(&slots[0]));
  OK(runtime_alloc(&slots[0], shape, 1, KINA_DTYPE_F32, kDLCPU, 0, NULL));

  run_cycles(slots, &stale, cycles / 2);
  const KinaResourceInfo half = info_of(resource);
  run_cycles(slots, &stale, cycles - cycles / 2);
  const KinaResourceInfo whole = info_of(resource);
  REQUIRE(cycles < 100000 || whole.metadata_bytes <= half.metadata_bytes + half.metadata_bytes / 4 + 65536);

  for (int32_t slot = 0; slot < SLOTS; ++slot) OK(runtime_free(&slots[slot]));
  const KinaResourceInfo end = info_of(resource);
  REQUIRE(end.live_blocks == 0 && end.live_bytes == 0 && end.leaked_blocks == 0);
  REQUIRE(end.allocations == end.deallocations);
  OK(runtime_resource_set_default(&previous, kDLCPU, 0, NULL));
  OK(runtime_resource_release(resource));
  REQUIRE(custom_blocks == 0);
  printf("%s: %" PRIu64 " cycles, %" PRIu64 " calls, %" PRIu64 " of them wrong on purpose\n", arguments[1], cycles,
         calls, wrong_calls);
  return 0;
}
