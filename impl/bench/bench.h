/* SPDX-License-Identifier: Apache-2.0 */
/* What the timed bodies, which are C programs on kina_runtime.h alone, and the harness that registers them share. */
#ifndef KINA_BENCH_H
#define KINA_BENCH_H

#include <kina_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One way to get memory: the library's, a peer's, or the shadow map that checks another one. */
typedef struct Source Source;
struct Source {
  void* (*take)(const Source* self, uint64_t bytes);
  void (*give)(const Source* self, void* data, uint64_t bytes);
  KinaResource resource; /* of the library's source */
  KinaStream stream;     /* NULL: the current one, which each call then looks up */
  void* context;         /* of the others */
};

/* Ends the process with the library's last error: a benchmark that fails has no figure. */
void bench_stop(const char* call);
#define BENCH_OK(call) ((call) == KINA_SUCCESS ? (void)0 : bench_stop(#call))

/* sources.c. NULL where the peer is not installed. */
Source source_of_kina(KinaResource resource, KinaStream stream);
const Source* source_of_nothing(void);       /* what the harness itself costs */
const Source* source_of_malloc(void);        /* the C library's, 16-byte aligned */
const Source* source_of_aligned_alloc(void); /* the C library's, 256-byte aligned as a tensor has to be */
const Source* source_of_mimalloc(void);      /* 16-byte aligned */
const Source* source_of_mimalloc_256(void);
/* A resource that hands out addresses which nobody may touch, as a device does; 256-byte aligned, for ever. */
KinaResource untouchable_resource(void);

/* A timed body runs its operations first … first + count − 1. */
typedef void Body(void* job, uint64_t first, uint64_t count);

/* ---- blocks.c ---- */

typedef struct Step {
  uint32_t slot;
  uint32_t bytes;
} Step;

typedef struct Block {
  void* data;
  uint32_t bytes; /* 0: the slot is empty */
} Block;

typedef struct BlockJob {
  const Source* source;
  const Step* steps; /* a power of two of them, run round and round */
  uint64_t step_mask;
  Block* blocks; /* one for each slot */
} BlockJob;

void pair_blocks(void* job, uint64_t first, uint64_t count);    /* takes and gives back each step's bytes */
void replace_blocks(void* job, uint64_t first, uint64_t count); /* gives the slot's block back and takes a new one */
void locked_adds(void* job, uint64_t first, uint64_t count);    /* what one locked instruction costs here */
void play_trace(void* job, uint64_t first, uint64_t count);     /* a step of 0 bytes only gives back */

/* ---- threads.c ---- */

int core_count(void);   /* that the process may use; call it first on the first thread */
void pin_to(int index); /* the calling thread, to one of them */
/* Where a core's units are halved by somebody else's thread on it, nothing here is to be seen but that it is slow. */
int quietest_core(void); /* the one on which work is done soonest now; leaves the thread pinned somewhere */
void unpin(void);        /* so that threads which it makes are free */
uint64_t ticks(void);    /* of a clock that costs little */
typedef struct TimedJob {
  Body* body;
  void* job;
  uint64_t* ticks; /* of each operation of one run */
} TimedJob;
void time_each(void* job, uint64_t first, uint64_t count);

typedef struct Team Team; /* pinned threads that wait for work */
Team* team_make(int threads);
void team_end(Team* team);
/* Every thread runs its own job; returns nanoseconds from the first one's start to the last one's end. */
double team_run(Team* team, Body* body, void* const* jobs, uint64_t first, uint64_t count);

typedef struct HandoverJob { /* one thread takes what another one gives back */
  BlockJob blocks;
  uint64_t batch;
  Team* team; /* of two */
  double take_nanoseconds, give_nanoseconds;
} HandoverJob;
void hand_over(HandoverJob* job, uint64_t first);

/* ---- streams.c: takes from another stream on an asynchronous device ---- */

typedef struct CrossJob {
  KinaResource resource; /* has room for these blocks */
  KinaStream streams[2];
  KinaTensor work[2]; /* small tensors: filling one is work on its stream */
  uint64_t bytes;
  void* blocks[16];
  int count;
  int on;
  int is_order_known;
} CrossJob;
void cross_prepare(CrossJob* job); /* untimed: work on the stream of the blocks, which go back there */
void cross_take(CrossJob* job);    /* timed: the other stream takes them */
void cross_give(CrossJob* job);

/* ---- tensors.c ---- */

typedef struct TensorJob {
  KinaTensor source; /* 4 by 8 elements of f32 on the host */
  KinaTensor other, result;
  KinaResource resource, second; /* the current one, a pool, and what stands upstream of it */
  KinaScope scope;
  KinaStream stream;
} TensorJob;
void tensor_job_make(TensorJob* job);
void tensor_job_end(TensorJob* job);
Body alloc_and_free, alloc_and_free_on_null_stream, view_and_free, alias_and_free, alias_export_import_and_free,
    add_elements, add_elements_by_plain_loop;
/* A program of many small allocations: every result is a new tensor and dies after the next one was made from it. */
enum { SMALL_SIZES = 16 };
typedef struct SmallJob {
  KinaTensor inputs[SMALL_SIZES]; /* 256 bytes to 64 KiB of f32 */
  KinaResource resource;
  KinaScope scope;
} SmallJob;
void small_job_make(SmallJob* job, KinaResource resource);
void small_job_end(SmallJob* job);
Body many_small_tensors;

Body current_resource_get, default_set_and_restore, resource_push_and_pop, current_stream_get, stream_push_and_pop,
    device_push_and_pop, one_empty_call, two_empty_calls;

#ifdef __cplusplus
}
#endif
#endif
