// The entry point of the matmul chapter.
#include <algorithm>
#include <optional>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/operation.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"}, kA{2, "a"}, kB{3, "b"}, kParams{4, "params"}, kBias{4, "params.bias"};

// params with its bias, which is a tensor argument of its own.
class MatmulOptions : public Options<KinaMatmulParams> {
 public:
  explicit MatmulOptions(const KinaMatmulParams* given) : Options(given, kParams) {}
  void present() {
    Options::present();
    require_reserved((*this)->reserved);
    if ((*this)->bias == nullptr) return;
    bias_.emplace((*this)->bias, kBias);
    bias_->present();
  }
  void resolve() {
    if (bias_) bias_->resolve();
  }
  void validate() {
    if (bias_) bias_->validate();
  }
  void offer() const {
    if (bias_) bias_->offer();
  }
  template <class F>
  void for_each_operand(F&& f) const {
    if (bias_) f(*bias_);
  }
  const Input* bias() const { return bias_ ? &*bias_ : nullptr; }
  double alpha() const { return (*this)->scaled != 0 ? (*this)->alpha : 1; }
  double beta() const { return (*this)->scaled != 0 ? (*this)->beta : 0; }

 private:
  std::optional<Input> bias_;
};

// `view` with its last two axes exchanged if asked for.
View matrices(const Input& input, int32_t is_transposed) {
  View view = input.view();
  require<Message::rank_too_low>(view.geometry.ndim >= 2, "KINA-MATMUL-1", input.argument(), input.argument().name,
                                 view.geometry.ndim);
  if (is_transposed != 0) {
    int64_t* const extents = view.geometry.extents + view.geometry.ndim - 2;
    int64_t* const strides = view.geometry.strides + view.geometry.ndim - 2;
    std::swap(extents[0], extents[1]);
    std::swap(strides[0], strides[1]);
  }
  return view;
}

// The result's shape: broadcast batch axes, m, n.
Geometry product_shape(const Geometry& a, const Geometry& b, uint64_t element_bytes) {
  require<Message::inner_extents_differ>(a.extents[a.ndim - 1] == b.extents[b.ndim - 2], "KINA-MATMUL-3", kB,
                                         a.extents[a.ndim - 1], b.extents[b.ndim - 2]);
  const int32_t ndim = std::max(a.ndim, b.ndim);
  int64_t extents[KINA_MAX_NDIM];
  for (int32_t back = 3; back <= ndim; ++back) {
    const int64_t left = back <= a.ndim ? a.extents[a.ndim - back] : 1;
    const int64_t right = back <= b.ndim ? b.extents[b.ndim - back] : 1;
    require<Message::batch_extents_differ>(left == right || left == 1 || right == 1, "KINA-MATMUL-4", kB, left, right);
    extents[ndim - back] = left == 1 ? right : left;
  }
  extents[ndim - 2] = a.extents[a.ndim - 2];
  extents[ndim - 1] = b.extents[b.ndim - 1];
  return checked_geometry(extents, nullptr, ndim, element_bytes, kOut);
}

// `view` with the batch axes of `shape`: stride 0 where they are expanded or new.
View with_batch_of(const Geometry& shape, const View& view) {
  View result = view;
  result.geometry = shape;
  for (int32_t back = 1; back <= shape.ndim; ++back) {
    const int32_t axis = shape.ndim - back, own = view.geometry.ndim - back;
    const bool is_expanded = own < 0 || (back > 2 && view.geometry.extents[own] != shape.extents[axis]);
    result.geometry.strides[axis] = is_expanded ? 0 : view.geometry.strides[own];
    if (back <= 2) result.geometry.extents[axis] = view.geometry.extents[own];
  }
  return result;
}

// The bias under the result's shape: one row for all rows of all matrices.
View bias_rows(const Input* bias, const Geometry& shape) {
  if (bias == nullptr) return {};
  View rows = bias->view();
  const int64_t stride = rows.geometry.strides[0];
  rows.geometry = shape;
  std::fill_n(rows.geometry.strides, shape.ndim, 0);
  rows.geometry.strides[shape.ndim - 1] = stride;
  return rows;
}

// The dtype of the result, or none when 1.0 has not what `out_dtype` asks for.
std::optional<KinaDtype> result_dtype(KinaDtype in, KinaDtype wanted) {
  if (wanted == 0 || wanted == in) return in;
  if (wanted == KINA_DTYPE_F32 && (in == KINA_DTYPE_F16 || in == KINA_DTYPE_BF16)) return wanted;
  return std::nullopt;
}

void require_bias(const Input* bias, const Input& a, const Geometry& shape, std::optional<KinaDtype> dtype) {
  if (bias == nullptr) return;
  const int64_t columns = shape.extents[shape.ndim - 1];
  require<Message::bias_shape>(bias->geometry().ndim == 1 && bias->geometry().extents[0] == columns, "KINA-MATMUL-28",
                               kBias, ShapeText(bias->geometry()), columns);
  require<Message::dtype_mismatch>(!dtype || bias->dtype() == *dtype, "KINA-MATMUL-28", kBias, kBias.name,
                                   name_of(bias->dtype()), name_of(dtype.value_or(bias->dtype())));
  require_same_device(a, *bias);
}

bool is_activation(KinaUnaryOp op) {
  constexpr KinaUnaryOp known[] = {
      0, KINA_UNARY_RELU, KINA_UNARY_GELU, KINA_UNARY_GELU_TANH, KINA_UNARY_SILU, KINA_UNARY_SIGMOID, KINA_UNARY_TANH};
  return std::find(std::begin(known), std::end(known), op) != std::end(known);
}

void require_boolean(int32_t value, const char* name) {
  require<Message::value_unknown>(value == 0 || value == 1, "KINA-MATMUL-20", {4, name}, name, value);
}

// Tier 4: what 1.0 does not offer. The row of what it does.
Row<MatmulArgs> offered(const MatmulOptions& options, KinaDtype in, std::optional<KinaDtype> out,
                        const Backend& backend) {
  require_boolean(options->transpose_a, "params.transpose_a");
  require_boolean(options->transpose_b, "params.transpose_b");
  require_boolean(options->scaled, "params.scaled");
  require<Message::value_unknown>(options->compute == KINA_COMPUTE_STRICT || options->compute == KINA_COMPUTE_TF32,
                                  "KINA-MATMUL-31", {4, "params.compute"}, "params.compute", options->compute);
  require<Message::value_unknown>(is_activation(options->activation), "KINA-MATMUL-29", {4, "params.activation"},
                                  "params.activation", options->activation);
  const Row<MatmulArgs> row = backend.matmul(in, in);
  require<Message::dtype_not_offered>(row != nullptr, "KINA-MATMUL-17", kA, kA.name, name_of(in));
  require<Message::value_unknown>(out.has_value(), "KINA-MATMUL-18", {4, "params.out_dtype"}, "params.out_dtype",
                                  options->out_dtype);
  const bool is_real = row_of(in).group == DtypeClass::real;
  require<Message::scaled_integers>(is_real || options->scaled == 0, "KINA-MATMUL-27", {4, "params.scaled"},
                                    name_of(in));
  require<Message::activated_integers>(is_real || options->activation == 0, "KINA-MATMUL-30", {4, "params.activation"},
                                       name_of(in));
  return *out == in ? row : backend.matmul(*out, in);
}

void multiply(const char* function, Output& out, const Input& a, const Input& b, const MatmulOptions& options) {
  require<Message::dtype_mismatch>(a.dtype() == b.dtype(), "KINA-MATMUL-16", kB, kB.name, name_of(b.dtype()),
                                   name_of(a.dtype()));
  require_same_device(a, b);
  const View left = matrices(a, options->transpose_a), right = matrices(b, options->transpose_b);
  const std::optional<KinaDtype> dtype = result_dtype(a.dtype(), options->out_dtype);
  const Geometry shape = product_shape(left.geometry, right.geometry, dtype ? bytes_of(*dtype) : 1);
  require_bias(options.bias(), a, shape, dtype);
  out.demand(shape, dtype.value_or(out.dtype()), a.device());
  for (const Input* input : {&a, &b, options.bias()})
    if (input != nullptr) out.refuse_overlap(*input, InPlace::refused);
  require<Message::beta_without_out>(options.beta() == 0 || !out.is_empty(), "KINA-MATMUL-25", {4, "params.beta"});
  const Row<MatmulArgs> row = offered(options, a.dtype(), dtype, a.device().backend());

  const Operand* inputs[4] = {&a, &b};
  size_t count = 2;
  if (options.bias() != nullptr) inputs[count++] = options.bias();
  if (options.beta() != 0) inputs[count++] = &out;
  Operation operation(function, out, {inputs, count}, shape, *dtype, a.device());
  MatmulArgs args{};
  args.out = operation.out();
  args.a = with_batch_of(shape, left);
  args.b = with_batch_of(shape, right);
  args.bias = bias_rows(options.bias(), shape);
  args.alpha = options.alpha();
  args.beta = options.beta();
  args.is_scaled = options->scaled != 0;
  args.compute = options->compute;
  args.activation = options->activation;
  const Workspace workspace(operation, a.device().backend().matmul_workspace_bytes(args));
  args.workspace = workspace.view();
  operation.run(row, args);
  operation.commit();
}

}  // namespace

KinaStatus runtime_gpu_matmul(KinaTensor* out, const KinaTensor* a, const KinaTensor* b,
                              const KinaMatmulParams* params) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input left(a, kA), right(b, kB);
    MatmulOptions options(params);
    dereference_on_one_device(result, left, right, options);
    multiply(call.function, result, left, right, options);
  });
}
