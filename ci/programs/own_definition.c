/* SPDX-License-Identifier: Apache-2.0 */
/* own_definition: a program's own definition of an entry point takes the calls of a compiled program that it links. */
#include <dlfcn.h>
#include <stdio.h>

#include "conformance/programs/kina_program.h"

static int intercepted;

KinaStatus runtime_gpu_matmul(KinaTensor* out, const KinaTensor* a, const KinaTensor* b,
                              const KinaMatmulParams* params) {
  ++intercepted;
  (void)out, (void)a, (void)b, (void)params;
  return KINA_ERROR_UNSUPPORTED;
}

int main(int count, char** arguments) {
  void* file = dlopen(count == 2 ? arguments[1] : "", RTLD_NOW);
  if (file == NULL) return fprintf(stderr, "usage: own_definition PROGRAM; %s\n", dlerror()), 64;
  const KinaProgram* program = (const KinaProgram*)dlsym(file, "kina_program");
  if (program == NULL) return 64;
  const KinaTensor input = KINA_TENSOR_INIT;
  const KinaTensor* const inputs[] = {&input, &input};
  KinaTensor output = KINA_TENSOR_INIT;
  const KinaStatus status = program->functions[0].call(&output, inputs);
  printf("%d call intercepted, status %s\n", intercepted, runtime_status_name(status));
  return intercepted == 1 && status == KINA_ERROR_UNSUPPORTED ? 0 : 1;
}
