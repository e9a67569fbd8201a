/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_program: one function, matmul(a, b) = a @ b, as a compiler emits it. */
#include "kina_program.h"

static KinaStatus matmul(KinaTensor* outputs, const KinaTensor* const* inputs) {
  return runtime_gpu_matmul(&outputs[0], inputs[0], inputs[1], NULL);
}

static const KinaProgramFunction functions[] = {
    {"matmul", matmul, 1, 2},
};

KINA_PROGRAM_DEFINE("matmul_program", functions);
