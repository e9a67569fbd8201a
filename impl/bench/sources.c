/* SPDX-License-Identifier: Apache-2.0 */
/* The library's memory and its peers behind one pair of functions. mimalloc is opened by name at run time: linking it
 * would replace malloc in the whole process, the other peer and the library's own upstream with it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bench.h"

enum { ALIGNMENT = 256 };

void bench_stop(const char* call) {
  fprintf(stderr, "benchmark: %s failed: %s\n", call, runtime_last_error_message());
  exit(1);
}

static void* kina_take(const Source* self, uint64_t bytes) {
  void* data = NULL;
  if (runtime_memory_allocate(&data, self->resource, bytes, 0, self->stream) != KINA_SUCCESS)
    bench_stop("runtime_memory_allocate");
  return data;
}
static void kina_give(const Source* self, void* data, uint64_t bytes) {
  if (runtime_memory_deallocate(self->resource, data, bytes, 0, self->stream) != KINA_SUCCESS)
    bench_stop("runtime_memory_deallocate");
}
Source source_of_kina(KinaResource resource, KinaStream stream) {
  const Source made = {kina_take, kina_give, resource, stream, NULL};
  return made;
}

static void* nothing_take(const Source* self, uint64_t bytes) {
  (void)bytes;
  return self->context;
}
static void nothing_give(const Source* self, void* data, uint64_t bytes) {
  (void)self, (void)bytes;
  __asm__ volatile("" : : "r"(data) : "memory");
}
const Source* source_of_nothing(void) {
  static char place[ALIGNMENT];
  static const Source made = {nothing_take, nothing_give, NULL, NULL, place};
  return &made;
}

static void* malloc_take(const Source* self, uint64_t bytes) {
  (void)self;
  return malloc(bytes);
}
static void malloc_give(const Source* self, void* data, uint64_t bytes) {
  (void)self, (void)bytes;
  free(data);
}
const Source* source_of_malloc(void) {
  static const Source made = {malloc_take, malloc_give, NULL, NULL, NULL};
  return &made;
}

static void* aligned_take(const Source* self, uint64_t bytes) {
  (void)self;
  return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1));
}
const Source* source_of_aligned_alloc(void) {
  static const Source made = {aligned_take, malloc_give, NULL, NULL, NULL};
  return &made;
}

static void* (*mimalloc_take_function)(size_t);
static void* (*mimalloc_take_aligned_function)(size_t, size_t);
static void (*mimalloc_give_function)(void*);

static void* mimalloc_take(const Source* self, uint64_t bytes) {
  (void)self;
  return mimalloc_take_function(bytes);
}
/* Odd sizes: version 2.0.9 gives blocks of exactly 256, 512 or 1024 bytes half the alignment asked for. */
static void* mimalloc_take_256(const Source* self, uint64_t bytes) {
  (void)self;
  return mimalloc_take_aligned_function(bytes | 1, ALIGNMENT);
}
static void mimalloc_give(const Source* self, void* data, uint64_t bytes) {
  (void)self, (void)bytes;
  mimalloc_give_function(data);
}
static int has_mimalloc(void) {
  static int is_open = -1;
  if (is_open >= 0) return is_open;
  const char* path = getenv("KINA_BENCH_MIMALLOC");
  void* library = dlopen(path != NULL ? path : "libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "benchmark: without mimalloc: %s\n", dlerror());
  if (library != NULL) {
    *(void**)&mimalloc_take_function = dlsym(library, "mi_malloc");
    *(void**)&mimalloc_take_aligned_function = dlsym(library, "mi_malloc_aligned");
    *(void**)&mimalloc_give_function = dlsym(library, "mi_free");
  }
  is_open = mimalloc_take_function != NULL && mimalloc_take_aligned_function != NULL && mimalloc_give_function != NULL;
  return is_open;
}
const Source* source_of_mimalloc(void) {
  static const Source made = {mimalloc_take, mimalloc_give, NULL, NULL, NULL};
  return has_mimalloc() ? &made : NULL;
}
const Source* source_of_mimalloc_256(void) {
  static const Source made = {mimalloc_take_256, mimalloc_give, NULL, NULL, NULL};
  return has_mimalloc() ? &made : NULL;
}

/* Address space without memory behind it: whoever touches a block is killed. Aligned as devices align large blocks, so
 * that what a pool makes of it is the same each time. */
static KinaStatus untouchable_take(void** out, void* context, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  (void)context, (void)stream;
  if (alignment < 2 << 20) alignment = 2 << 20;
  const uint64_t room = bytes + alignment;
  char* place = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return KINA_ERROR_OUT_OF_MEMORY;
  const uint64_t address = ((uint64_t)place + alignment - 1) & ~(alignment - 1);
  *out = (void*)address;
  return KINA_SUCCESS;
}
static KinaStatus untouchable_give(void* context, void* data, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  (void)context, (void)alignment, (void)stream;
  return munmap((void*)((uint64_t)data & ~(uint64_t)4095), bytes) == 0 ? KINA_SUCCESS : KINA_ERROR_DEVICE;
}
KinaResource untouchable_resource(void) {
  KinaResource made = NULL;
  KinaResourceVtable vtable = KINA_RESOURCE_VTABLE_INIT;
  vtable.name = "untouchable";
  vtable.allocate = untouchable_take;
  vtable.deallocate = untouchable_give;
  vtable.supports_streams = 1;
  BENCH_OK(runtime_resource_custom(&made, kDLCPU, 0, &vtable, NULL));
  return made;
}
