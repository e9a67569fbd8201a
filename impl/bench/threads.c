/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are pinned one to a core, wait for work and run it at the same time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

typedef struct Member {
  Team* team;
  pthread_t thread;
  int index;
  double start, end;
} Member;

struct Team {
  int threads;
  Member* members;
  pthread_barrier_t barrier;
  Body* body; /* NULL: the end */
  void* const* jobs;
  uint64_t first, count;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The cores that the process was given, before its first thread was pinned. */
static const cpu_set_t* own_cores(void) {
  static cpu_set_t cores;
  static int is_known = 0;
  if (!is_known) sched_getaffinity(0, sizeof cores, &cores);
  is_known = 1;
  return &cores;
}
int core_count(void) { return CPU_COUNT(own_cores()); }

void pin_to(int index) {
  const cpu_set_t* cores = own_cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  int left = index % CPU_COUNT(cores);
  for (size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, cores) && left-- == 0) CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}
/* Nanoseconds of work that keeps a core's units busy. */
static double busy_time(void) {
  const double start = now();
  uint64_t a = 1, b = 2, c = 3, d = 4;
  for (int at = 0; at < 20000; ++at) {
    a += b ^ 1, b += c ^ 2, c += d ^ 3, d += a ^ 4;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  return now() - start;
}

int quietest_core(void) {
  int best = 0;
  double best_time = 0;
  for (int core = 0; core < core_count(); ++core) {
    pin_to(core);
    double time = busy_time();
    for (int again = 0; again < 4; ++again) {
      const double next = busy_time();
      if (next < time) time = next;
    }
    if (core == 0 || time < best_time) best = core, best_time = time;
  }
  return best;
}
void unpin(void) { sched_setaffinity(0, sizeof(cpu_set_t), own_cores()); }

uint64_t ticks(void) {
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
#else
  uint64_t value;
  __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
  return value;
#endif
}

void time_each(void* given, uint64_t first, uint64_t count) {
  TimedJob* job = given;
  for (uint64_t at = 0; at < count; ++at) {
    const uint64_t start = ticks();
    job->body(job->job, first + at, 1);
    job->ticks[at] = ticks() - start;
  }
}

static void* serve(void* given) {
  Member* self = given;
  Team* team = self->team;
  pin_to(self->index);
  while (1) {
    pthread_barrier_wait(&team->barrier);
    if (team->body == NULL) return NULL;
    self->start = now();
    if (team->jobs[self->index] != NULL) team->body(team->jobs[self->index], team->first, team->count);
    self->end = now();
    pthread_barrier_wait(&team->barrier);
  }
}

Team* team_make(int threads) {
  Team* team = calloc(1, sizeof *team);
  team->threads = threads;
  team->members = calloc((size_t)threads, sizeof *team->members);
  pthread_barrier_init(&team->barrier, NULL, (unsigned)threads + 1);
  for (int index = 0; index < threads; ++index) {
    team->members[index].team = team;
    team->members[index].index = index;
    if (pthread_create(&team->members[index].thread, NULL, serve, &team->members[index]) != 0) abort();
  }
  return team;
}

void team_end(Team* team) {
  team->body = NULL;
  pthread_barrier_wait(&team->barrier);
  for (int index = 0; index < team->threads; ++index) pthread_join(team->members[index].thread, NULL);
  pthread_barrier_destroy(&team->barrier);
  free(team->members);
  free(team);
}

double team_run(Team* team, Body* body, void* const* jobs, uint64_t first, uint64_t count) {
  team->body = body;
  team->jobs = jobs;
  team->first = first;
  team->count = count;
  pthread_barrier_wait(&team->barrier);
  pthread_barrier_wait(&team->barrier);
  double start = 0, end = 0;
  for (int index = 0; index < team->threads; ++index) {
    const Member* member = &team->members[index];
    if (jobs[index] == NULL) continue;
    if (start == 0 || member->start < start) start = member->start;
    if (member->end > end) end = member->end;
  }
  return end - start;
}

static void take_all(void* given, uint64_t first, uint64_t count) {
  const BlockJob* job = given;
  for (uint64_t at = 0; at < count; ++at) {
    job->blocks[at].bytes = job->steps[(first + at) & job->step_mask].bytes;
    job->blocks[at].data = job->source->take(job->source, job->blocks[at].bytes);
  }
}
static void give_all(void* given, uint64_t first, uint64_t count) {
  const BlockJob* job = given;
  (void)first;
  for (uint64_t at = 0; at < count; ++at) job->source->give(job->source, job->blocks[at].data, job->blocks[at].bytes);
}
void hand_over(HandoverJob* job, uint64_t first) {
  void* const taker[2] = {&job->blocks, NULL};
  void* const giver[2] = {NULL, &job->blocks};
  job->take_nanoseconds = team_run(job->team, take_all, taker, first, job->batch);
  job->give_nanoseconds = team_run(job->team, give_all, giver, first, job->batch);
}
