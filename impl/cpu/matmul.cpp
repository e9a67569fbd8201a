// Products of matrices on the host: a plain loop that reads like the specification, and OpenBLAS where it pays.
#include "impl/cpu/matmul.h"

#include <atomic>

#include "impl/cpu/loops.h"
#include "impl/cpu/openblas.h"
#include "impl/cpu/product.h"
#include "impl/cpu/rows.h"

namespace kina::cpu {
namespace {

constinit std::atomic<uint64_t> plain_products{0}, vendor_products{0}, packed_operands{0};

void count(std::atomic<uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }

// One matrix of a batch: its element 0 and the distance between rows and between columns, in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t row_step, column_step;

  T& at(int64_t row, int64_t column) const noexcept { return data[row * row_step + column * column_step]; }
};

// The matrix of a view's last two axes whose element 0 is at `data`.
template <class T>
Matrix<T> matrix_of(const View& view, std::byte* data) noexcept {
  const int64_t* const steps = view.geometry.strides + view.geometry.ndim - 2;
  return {reinterpret_cast<T*>(data), steps[0], steps[1]};
}

struct Extents {
  int64_t m, n, k;
};

Extents extents_of(const MatmulArgs& args) noexcept {
  const int32_t ndim = args.out.geometry.ndim;
  return {args.out.geometry.extents[ndim - 2], args.out.geometry.extents[ndim - 1], args.a.geometry.extents[ndim - 1]};
}

// out[i, j] = finish(sum over p of a[i, p] · b[p, j]), one batch.
template <class T, class Out>
void plain_product(const Extents& extents, Matrix<Out> out, Matrix<const T> a, Matrix<const T> b,
                   Matrix<const Out> bias, const Finish<T, Out>& finish) noexcept {
  for (int64_t i = 0; i < extents.m; ++i)
    for (int64_t j = 0; j < extents.n; ++j) {
      Sum<T> sum{};
      for (int64_t p = 0; p < extents.k; ++p) sum = multiply_add<T>(sum, a.at(i, p), b.at(p, j));
      finish(out.at(i, j), sum, bias.data + j * bias.column_step);
    }
  count(plain_products);
}

// How OpenBLAS can read a matrix of rows × columns in place; `leading` 0 when it cannot.
struct Layout {
  int64_t leading;
  bool is_transposed;
};

Layout layout_of(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) noexcept {
  const int64_t row_leading = rows == 1 ? columns : row_step, column_leading = columns == 1 ? rows : column_step;
  if ((columns == 1 || column_step == 1) && row_leading >= columns && row_leading <= INT32_MAX)
    return {row_leading, false};
  if ((rows == 1 || row_step == 1) && column_leading >= rows && column_leading <= INT32_MAX)
    return {column_leading, true};
  return {0, false};
}

// What of a product OpenBLAS takes in place and what goes through the workspace. Follows from the arguments alone.
struct Plan {
  bool uses_vendor = false;
  Layout a{}, b{}, out{};                                    // leading 0: through the workspace
  int64_t a_elements = 0, b_elements = 0, out_elements = 0;  // in the workspace, of the accumulation dtype
};

// Below this many multiplications the plain loop is as fast, and short programs never open the library.
constexpr double kWorthwhile = 4096;

template <class T, class Out>
Plan plan_for(const MatmulArgs& args) noexcept {
  Plan plan;
  if constexpr (is_floating_sum<T>) {
    const auto [m, n, k] = extents_of(args);
    if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < kWorthwhile) return plan;
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX || args.out.geometry.is_empty() || !is_openblas_usable())
      return plan;
    plan.uses_vendor = true;
    const auto a = matrix_of<const T>(args.a, nullptr), b = matrix_of<const T>(args.b, nullptr);
    const auto out = matrix_of<Out>(args.out, nullptr);
    if (std::is_same_v<T, Sum<T>>) {
      plan.a = layout_of(m, k, a.row_step, a.column_step);
      plan.b = layout_of(k, n, b.row_step, b.column_step);
    }
    if (std::is_same_v<Out, Sum<T>> && Finish<T, Out>(args).is_identity()) {
      plan.out = layout_of(m, n, out.row_step, out.column_step);
      if (plan.out.is_transposed) plan.out.leading = 0;
    }
    if (plan.a.leading == 0) plan.a_elements = m * k;
    if (plan.b.leading == 0) plan.b_elements = k * n;
    if (plan.out.leading == 0) plan.out_elements = m * n;
  }
  return plan;
}

// Copies a matrix to compact rows.
template <class T>
void pack(Sum<T>* to, int64_t rows, int64_t columns, Matrix<const T> from) noexcept {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) *to++ = static_cast<Sum<T>>(from.at(i, j));
  count(packed_operands);
}

// An operand as OpenBLAS reads it: in place, or packed at `room` unless the last batch has packed the same matrix
// there.
template <class T>
class VendorOperand {
 public:
  VendorOperand(Layout layout, Sum<T>* room, int64_t rows, int64_t columns) noexcept
      : layout_(layout), room_(room), rows_(rows), columns_(columns) {}

  BlasMatrix<const Sum<T>> read(Matrix<const T> matrix) noexcept {
    const auto leading = static_cast<int32_t>(layout_.leading);
    if constexpr (std::is_same_v<T, Sum<T>>)
      if (leading != 0) return {matrix.data, leading, layout_.is_transposed};
    if (matrix.data != packed_) pack<T>(room_, rows_, columns_, matrix);
    packed_ = matrix.data;
    return {room_, static_cast<int32_t>(columns_), false};
  }

 private:
  Layout layout_;
  Sum<T>* room_;
  int64_t rows_, columns_;
  const T* packed_ = nullptr;
};

// The products of one call, batch by batch.
template <class T, class Out>
class Products {
 public:
  explicit Products(const MatmulArgs& args) noexcept
      : args_(args),
        extents_(extents_of(args)),
        finish_(args),
        plan_(plan_for<T, Out>(args)),
        room_(reinterpret_cast<Sum<T>*>(args.workspace.data)),
        a_(plan_.a, room_, extents_.m, extents_.k),
        b_(plan_.b, room_ + plan_.a_elements, extents_.k, extents_.n) {}

  void run() noexcept {
    Loop<3> batch;
    for (int32_t axis = 0; axis + 2 < args_.out.geometry.ndim; ++axis)
      batch.add(args_.out.geometry.extents[axis], byte_strides(axis, args_.out, args_.a, args_.b));
    batch.for_each_run({args_.out.data, args_.a.data, args_.b.data}, [this](auto at, auto strides, int64_t count) {
      for (int64_t i = 0; i < count; ++i) one(at[0] + i * strides[0], at[1] + i * strides[1], at[2] + i * strides[2]);
    });
  }

 private:
  // The product of one pair of matrices.
  void one(std::byte* to, std::byte* left, std::byte* right) noexcept {
    const auto out = matrix_of<Out>(args_.out, to);
    const auto a = matrix_of<const T>(args_.a, left), b = matrix_of<const T>(args_.b, right);
    Matrix<const Out> bias{nullptr, 0, 0};
    if (args_.bias.data != nullptr) bias = matrix_of<const Out>(args_.bias, args_.bias.data);
    if (!plan_.uses_vendor || !vendor_product(out, a, b, bias))
      plain_product<T, Out>(extents_, out, a, b, bias, finish_);
  }

  // False when OpenBLAS did not run; nothing is written then.
  bool vendor_product(Matrix<Out> out, Matrix<const T> a, Matrix<const T> b, Matrix<const Out> bias) noexcept {
    if constexpr (is_floating_sum<T>) {
      Sum<T>* const staged = room_ + plan_.a_elements + plan_.b_elements;
      BlasProduct<Sum<T>> product{};
      product.m = static_cast<int32_t>(extents_.m);
      product.n = static_cast<int32_t>(extents_.n);
      product.k = static_cast<int32_t>(extents_.k);
      product.a = a_.read(a);
      product.b = b_.read(b);
      const bool is_staged = plan_.out.leading == 0;
      if (is_staged) {
        product.out = {staged, product.n, false};
      } else if constexpr (std::is_same_v<Out, Sum<T>>) {
        product.out = {out.data, static_cast<int32_t>(plan_.out.leading), false};
      }
      if (!openblas_product(product)) return false;
      count(vendor_products);
      if (is_staged) unstage(out, staged, bias);
    }
    return is_floating_sum<T>;
  }

  void unstage(Matrix<Out> out, const Sum<T>* staged, Matrix<const Out> bias) const noexcept {
    for (int64_t i = 0; i < extents_.m; ++i)
      for (int64_t j = 0; j < extents_.n; ++j) finish_(out.at(i, j), *staged++, bias.data + j * bias.column_step);
  }

  const MatmulArgs& args_;
  const Extents extents_;
  const Finish<T, Out> finish_;
  const Plan plan_;
  Sum<T>* const room_;
  VendorOperand<T> a_, b_;
};

template <class T, class Out>
void run(const MatmulArgs& args, NativeStream) {
  if (!args.out.geometry.is_empty()) Products<T, Out>(args).run();
}

template <class T, class Out>
uint64_t workspace_bytes(const MatmulArgs& args) noexcept {
  const Plan plan = plan_for<T, Out>(args);
  uint64_t bytes = 0;
  for (const int64_t elements : {plan.a_elements, plan.b_elements, plan.out_elements})
    if (__builtin_add_overflow(bytes, static_cast<uint64_t>(elements) * sizeof(Sum<T>), &bytes)) return UINT64_MAX;
  return bytes;
}

// Calls f(Type<T>{}, Type<Out>{}) for a pair that the contract has, else answers a value-initialised result.
template <class Result, class F>
Result with_types(KinaDtype out, KinaDtype in, F&& f) noexcept {
  return visit(in, [&]<class T>(Type<T>) -> Result {
    if constexpr (requires { typename Sum<T>; }) {
      if (out == in) return f(Type<T>{}, Type<T>{});
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        if (out == KINA_DTYPE_F32) return f(Type<T>{}, Type<float>{});
    }
    return Result{};
  });
}

}  // namespace

Row<MatmulArgs> matmul(KinaDtype out, KinaDtype in) noexcept {
  return with_types<Row<MatmulArgs>>(
      out, in, []<class T, class Out>(Type<T>, Type<Out>) -> Row<MatmulArgs> { return &run<T, Out>; });
}

uint64_t matmul_workspace_bytes(const MatmulArgs& args) noexcept {
  return with_types<uint64_t>(args.out.dtype, args.a.dtype,
                              [&]<class T, class Out>(Type<T>, Type<Out>) { return workspace_bytes<T, Out>(args); });
}

ProductCounts product_counts() noexcept {
  constexpr auto order = std::memory_order_relaxed;
  return {plain_products.load(order), vendor_products.load(order), packed_operands.load(order)};
}

}  // namespace kina::cpu
