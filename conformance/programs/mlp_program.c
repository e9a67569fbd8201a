/* SPDX-License-Identifier: Apache-2.0 */
/* mlp_program: layers of a perceptron. linear(x, w, b) = x @ w.T + b; layer(x, w, b) = relu(linear(x, w, b)), fused;
 * mlp(x, w1, b1, w2, b2) = linear(layer(x, w1, b1), w2, b2). Weights are (out, in), row-major. */
#include "kina_program.h"

static KinaStatus dense(KinaTensor* out, const KinaTensor* x, const KinaTensor* weight, const KinaTensor* bias,
                        KinaUnaryOp activation) {
  KinaMatmulParams params = KINA_MATMUL_PARAMS_INIT;
  params.transpose_b = 1;
  params.bias = bias;
  params.activation = activation;
  return runtime_gpu_matmul(out, x, weight, &params);
}

static KinaStatus linear(KinaTensor* outputs, const KinaTensor* const* inputs) {
  return dense(&outputs[0], inputs[0], inputs[1], inputs[2], 0);
}

static KinaStatus layer(KinaTensor* outputs, const KinaTensor* const* inputs) {
  return dense(&outputs[0], inputs[0], inputs[1], inputs[2], KINA_UNARY_RELU);
}

static KinaStatus mlp(KinaTensor* outputs, const KinaTensor* const* inputs) {
  KinaTensor hidden = KINA_TENSOR_INIT;
  KinaStatus status = dense(&hidden, inputs[0], inputs[1], inputs[2], KINA_UNARY_RELU);
  if (status == KINA_SUCCESS) status = dense(&outputs[0], &hidden, inputs[3], inputs[4], 0);
  (void)runtime_free(&hidden);
  return status;
}

static const KinaProgramFunction functions[] = {
    {"linear", linear, 1, 3},
    {"layer", layer, 1, 3},
    {"mlp", mlp, 1, 5},
};

KINA_PROGRAM_DEFINE("mlp_program", functions);
