#include <kina_runtime.h>
#include <stdio.h>

int main(void) {
  KinaTensor tensor = KINA_TENSOR_INIT;
  if (runtime_alloc(&tensor, (const int64_t[]){2, 3}, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL) != KINA_SUCCESS) return 1;
  printf("kina %s: %d dimensions\n", runtime_version_string(), tensor.dl.ndim);
  return runtime_free(&tensor);
}
