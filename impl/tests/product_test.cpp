// Products through OpenBLAS against the plain loop, and which of the two ran.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "impl/cpu/matmul.h"
#include "impl/cpu/openblas.h"
#include "impl/cpu/rows.h"

namespace kina::cpu {
namespace {

// Memory of one operand: a matrix, or several, with the steps that the test wants.
template <class T>
class Values {
 public:
  Values(int64_t batch, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step)
      : elements_(
            static_cast<size_t>(batch * (rows - 1) * row_step + batch * (columns - 1) * column_step + batch * 4)) {
    view_.data = reinterpret_cast<std::byte*>(elements_.data());
    view_.geometry.ndim = 3;
    const int64_t extents[] = {batch, rows, columns};
    const int64_t strides[] = {(rows - 1) * row_step + (columns - 1) * column_step + 1, row_step, column_step};
    std::copy_n(extents, 3, view_.geometry.extents);
    std::copy_n(strides, 3, view_.geometry.strides);
    view_.dtype = std::is_same_v<T, float>    ? KINA_DTYPE_F32
                  : std::is_same_v<T, double> ? KINA_DTYPE_F64
                                              : KINA_DTYPE_F16;
  }
  View view() const { return view_; }
  T& at(int64_t b, int64_t i, int64_t j) {
    const int64_t* const strides = view_.geometry.strides;
    return elements_[static_cast<size_t>(b * strides[0] + i * strides[1] + j * strides[2])];
  }
  void randomise(uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-1, 1);
    for (T& element : elements_) element = T(values(random));
  }

 private:
  std::vector<T> elements_;
  View view_;
};

template <class T>
void multiply(const View& out, const View& a, const View& b) {
  MatmulArgs args{};
  args.out = out;
  args.a = a;
  args.b = b;
  std::vector<std::byte> workspace(matmul_workspace_bytes(args));
  args.workspace.data = workspace.data();
  matmul(out.dtype, a.dtype)(args, nullptr);
}

View part(View view, int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t* const strides = view.geometry.strides;
  view.data +=
      (batch * strides[0] + row * strides[1] + column * strides[2]) * static_cast<int64_t>(bytes_of(view.dtype));
  const int64_t extents[] = {1, rows, columns};
  std::copy_n(extents, 3, view.geometry.extents);
  return view;
}

// The same product element by element: each is too small for OpenBLAS, so that the plain loop computes it.
template <class T>
void multiply_plainly(const View& out, const View& a, const View& b) {
  const int64_t k = a.geometry.extents[2];
  for (int64_t batch = 0; batch < out.geometry.extents[0]; ++batch)
    for (int64_t i = 0; i < out.geometry.extents[1]; ++i)
      for (int64_t j = 0; j < out.geometry.extents[2]; ++j)
        multiply<T>(part(out, batch, i, 1, j, 1), part(a, batch, i, 1, 0, k), part(b, batch, 0, k, j, 1));
}

bool is_switched_off() {
  const char* const choice = std::getenv("KINA_OPENBLAS");
  return choice != nullptr && std::strcmp(choice, "off") == 0;
}

template <class T>
class Product : public testing::Test {};
using Reals = testing::Types<float, double, Half>;
TYPED_TEST_SUITE(Product, Reals, );

struct Layout {
  int64_t row_step, column_step;
};

TYPED_TEST(Product, OpenBlasAgreesWithThePlainLoopInEveryLayout) {
  const int64_t m = 33, n = 29, k = 37;
  const double unit = std::is_same_v<TypeParam, double> ? 0x1p-53 : 0x1p-24;
  const double rounding = std::is_same_v<TypeParam, Half> ? 0x1p-11 : 0;
  for (const Layout left : {Layout{k, 1}, Layout{1, m}, Layout{k + 5, 1}, Layout{2 * k, 2}})
    for (const Layout right : {Layout{n, 1}, Layout{1, k}, Layout{3 * n, 3}})
      for (const Layout result : {Layout{n, 1}, Layout{1, m}, Layout{n + 2, 1}}) {
        Values<TypeParam> a(2, m, k, left.row_step, left.column_step), b(2, k, n, right.row_step, right.column_step);
        Values<TypeParam> fast(2, m, n, result.row_step, result.column_step), plain(2, m, n, n, 1);
        a.randomise(1);
        b.randomise(2);
        const ProductCounts before = product_counts();
        multiply<TypeParam>(fast.view(), a.view(), b.view());
        const ProductCounts after = product_counts();
        multiply_plainly<TypeParam>(plain.view(), a.view(), b.view());

        EXPECT_EQ(after.vendor - before.vendor, is_openblas_usable() ? 2U : 0U);
        EXPECT_EQ(after.plain - before.plain, is_openblas_usable() ? 0U : 2U);
        EXPECT_EQ(product_counts().plain - after.plain, static_cast<uint64_t>(2 * m * n));
        for (int64_t batch = 0; batch < 2; ++batch)
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double size = 0;
              for (int64_t p = 0; p < k; ++p)
                size += std::abs(static_cast<double>(a.at(batch, i, p)) * static_cast<double>(b.at(batch, p, j)));
              const double expected = static_cast<double>(plain.at(batch, i, j));
              const double bound = 2 * (2 * k + 8) * unit * size + 2 * rounding * std::abs(expected);
              ASSERT_NEAR(static_cast<double>(fast.at(batch, i, j)), expected, bound);
            }
      }
}

TYPED_TEST(Product, NanAndInfinityTravelOnBothWays) {
  const int64_t size = 24;
  Values<TypeParam> a(1, size, size, size, 1), b(1, size, size, size, 1);
  Values<TypeParam> fast(1, size, size, size, 1), plain(1, size, size, size, 1);
  a.randomise(3);
  b.randomise(4);
  a.at(0, 3, 5) = TypeParam(std::numeric_limits<float>::quiet_NaN());
  a.at(0, 7, 2) = TypeParam(std::numeric_limits<float>::infinity());
  b.at(0, 2, 9) = TypeParam(0.0F);
  b.at(0, 11, 4) = TypeParam(-std::numeric_limits<float>::infinity());

  multiply<TypeParam>(fast.view(), a.view(), b.view());
  multiply_plainly<TypeParam>(plain.view(), a.view(), b.view());

  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) {
      const auto x = static_cast<double>(fast.at(0, i, j)), y = static_cast<double>(plain.at(0, i, j));
      ASSERT_EQ(std::isnan(x), std::isnan(y));
      ASSERT_TRUE(!std::isinf(y) || x == y);
    }
}

TEST(Vendor, IsUsedExactlyWhereItIsInstalledAndNotSwitchedOff) {
#if defined(__x86_64__)
  const char* const file = "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0";
#else
  const char* const file = "/usr/lib/aarch64-linux-gnu/openblas-serial/libopenblas.so.0";
#endif

  EXPECT_EQ(is_openblas_usable(), std::filesystem::exists(file) && !is_switched_off());
}

TEST(Vendor, PacksOnlyWhatItCannotRead) {
  if (!is_openblas_usable()) return;
  const int64_t size = 32;
  Values<float> row_major(1, size, size, size + 3, 1), column_major(1, size, size, 1, size),
      spread(1, size, size, 80, 2);
  Values<float> out(1, size, size, size, 1);
  const auto packed = [&](const View& a, const View& b) {
    const uint64_t before = product_counts().packed;
    multiply<float>(out.view(), a, b);
    return product_counts().packed - before;
  };

  EXPECT_EQ(packed(row_major.view(), column_major.view()), 0U);
  EXPECT_EQ(packed(spread.view(), column_major.view()), 1U);
  EXPECT_EQ(packed(spread.view(), spread.view()), 2U);
}

TEST(Vendor, PacksABroadcastOperandOnce) {
  if (!is_openblas_usable()) return;
  const int64_t size = 32;
  Values<float> a(3, size, size, size, 1), spread(3, size, size, 80, 2), out(3, size, size, size, 1);
  View shared = spread.view();
  shared.geometry.strides[0] = 0;
  const uint64_t before = product_counts().packed;

  multiply<float>(out.view(), a.view(), shared);

  EXPECT_EQ(product_counts().packed - before, 1U);
}

// More threads than products may run at once.
TEST(Vendor, TakesCallsOfManyThreads) {
  const int64_t size = 40;
  Values<float> a(1, size, size, size, 1), b(1, size, size, size, 1), expected(1, size, size, size, 1);
  a.randomise(5);
  b.randomise(6);
  multiply<float>(expected.view(), a.view(), b.view());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(80);
  for (int i = 0; i < 80; ++i)
    threads.emplace_back([&] {
      Values<float> out(1, size, size, size, 1);
      for (int round = 0; round < 20; ++round) {
        multiply<float>(out.view(), a.view(), b.view());
        if (std::memcmp(out.view().data, expected.view().data, size * size * sizeof(float)) != 0) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong.load(), 0);
}

TEST(Vendor, WorksInAChildForkedWhileProductsRun) {
  const int64_t size = 40;
  Values<float> a(1, size, size, size, 1), b(1, size, size, size, 1);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Values<float> out(1, size, size, size, 1);
      while (!is_over) multiply<float>(out.view(), a.view(), b.view());
    });

  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      Values<float> out(1, size, size, size, 1);
      multiply<float>(out.view(), a.view(), b.view());
      _exit(7);
    }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 7);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kina::cpu
