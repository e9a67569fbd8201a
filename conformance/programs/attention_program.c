/* SPDX-License-Identifier: Apache-2.0 */
/* attention_program: attention(q, k, v) = softmax(q @ k.T / sqrt(d)) @ v over the last two axes, f32, leading axes
 * broadcast. */
#include "kina_program.h"

/* 1 / sqrt(d) without libm: Newton's iteration from above; d is a small count. */
static double reciprocal_square_root(int64_t d) {
  double root = (double)d;
  int i;
  for (i = 0; i < 64; ++i) root = 0.5 * (root + (double)d / root);
  return 1.0 / root;
}

static KinaStatus attention(KinaTensor* outputs, const KinaTensor* const* inputs) {
  const KinaTensor* q = inputs[0];
  KinaMatmulParams params = KINA_MATMUL_PARAMS_INIT;
  KinaTensor scores = KINA_TENSOR_INIT;
  KinaTensor weights = KINA_TENSOR_INIT;
  KinaStatus status;

  params.transpose_b = 1;
  if (q->dl.ndim > 0 && q->dl.shape[q->dl.ndim - 1] > 0) {
    params.scaled = 1;
    params.alpha = reciprocal_square_root(q->dl.shape[q->dl.ndim - 1]);
  }
  status = runtime_gpu_matmul(&scores, q, inputs[1], &params);
  if (status == KINA_SUCCESS) status = runtime_gpu_softmax(&weights, &scores, -1);
  if (status == KINA_SUCCESS) status = runtime_gpu_matmul(&outputs[0], &weights, inputs[2], NULL);
  (void)runtime_free(&weights);
  (void)runtime_free(&scores);
  return status;
}

static const KinaProgramFunction functions[] = {
    {"attention", attention, 1, 3},
};

KINA_PROGRAM_DEFINE("attention_program", functions);
