/* SPDX-License-Identifier: Apache-2.0 */
/* Time from opening the library to the end of the first call, and to a first tensor, in a process that has done nothing
 * else. Usage: kina_bench_load LIBRARY; prints nanoseconds. */
#include <dlfcn.h>
#include <kina_runtime.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char** arguments) {
  if (count != 2) return 64;
  const double start = now();
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  KinaStatus (*device_count)(int32_t*, int32_t);
  KinaStatus (*alloc)(KinaTensor*, const int64_t*, int32_t, KinaDtype, int32_t, int32_t, KinaStream);
  *(void**)&device_count = dlsym(library, "runtime_device_count");
  *(void**)&alloc = dlsym(library, "runtime_alloc");
  int32_t devices = 0;
  if (device_count(&devices, kDLCPU) != KINA_SUCCESS || devices != 1) return 1;
  const double first_call = now();
  const int64_t shape = 1024;
  KinaTensor tensor = KINA_TENSOR_INIT;
  if (alloc(&tensor, &shape, 1, KINA_DTYPE_F32, kDLCPU, 0, NULL) != KINA_SUCCESS) return 1;
  const double first_tensor = now();
  printf("%.0f %.0f\n", first_call - start, first_tensor - start);
  return 0;
}
