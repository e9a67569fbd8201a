// Accumulators of the reductions: take values one after the other with `add`, and answer with `result`.
#pragma once

#include "kernels/elementwise.h"

namespace kina::kernels {

// A sum over a tree: leaves of 32 terms, joined as a binary counter carries, so that no term passes more than 32 +
// log2(n) additions and the order depends on nothing but the count.
class TreeSum {
 public:
  KINA_HD void add(double x) {
    leaf_ += x;
    if (++in_leaf_ == kLeaf) carry();
  }
  KINA_HD double value() const {
    double total = leaf_;
    for (int level = 0; level < kLevels; ++level)
      if ((leaves_ >> level & 1) != 0) total += sums_[level];
    return total;
  }

 private:
  static constexpr int kLeaf = 32;
  static constexpr int kLevels = 58;  // 2^63 terms

  KINA_HD void carry() {
    double sum = leaf_;
    int level = 0;
    for (; (leaves_ >> level & 1) != 0; ++level) sum = sums_[level] + sum;
    sums_[level] = sum;
    ++leaves_;
    leaf_ = 0;
    in_leaf_ = 0;
  }

  double leaf_ = 0;
  int in_leaf_ = 0;
  uint64_t leaves_ = 0;
  double sums_[kLevels];
};

// Sums and products of floats are accumulated in double and rounded once; those of integers wrap.
template <class T>
class Sum {
 public:
  KINA_HD void add(T x) {
    if constexpr (Real<T>)
      sum_.add(x);
    else
      sum_ = kernels::add(sum_, x);
  }
  KINA_HD auto result() const {
    if constexpr (Real<T>)
      return sum_.value();
    else
      return sum_;
  }

 private:
  std::conditional_t<Real<T>, TreeSum, T> sum_{};
};

template <class T>
class Mean {
 public:
  KINA_HD void add(T x) {
    sum_.add(x);
    ++count_;
  }
  KINA_HD double result() const { return sum_.value() / static_cast<double>(count_); }

 private:
  TreeSum sum_;
  int64_t count_ = 0;
};

template <class T>
class Product {
  using Wide = std::conditional_t<Real<T>, double, T>;

 public:
  KINA_HD void add(T x) { product_ = multiply(product_, static_cast<Wide>(x)); }
  KINA_HD Wide result() const { return product_; }

 private:
  Wide product_ = 1;
};

template <class T, T (*kBetter)(T, T)>
class Extreme {
 public:
  KINA_HD void add(T x) {
    value_ = is_first_ ? x : kBetter(value_, x);
    is_first_ = false;
  }
  KINA_HD T result() const { return value_; }

 private:
  T value_{};
  bool is_first_ = true;
};
template <class T>
using Maximum = Extreme<T, &maximum<T>>;
template <class T>
using Minimum = Extreme<T, &minimum<T>>;

// The index of the first value that no other beats; a NaN beats every number.
template <class T, class Beats>
class First {
 public:
  KINA_HD void add(T x) {
    if (next_ == 0 || beats(x)) {
      best_ = x;
      index_ = next_;
    }
    ++next_;
  }
  KINA_HD int64_t result() const { return index_; }

 private:
  KINA_HD bool beats(T x) const {
    if constexpr (Real<T>)
      if (x != x || best_ != best_) return best_ == best_;
    return Beats::value(x, best_);
  }
  T best_{};
  int64_t index_ = 0;
  int64_t next_ = 0;
};
template <class T>
using FirstMaximum = First<T, binary::GREATER>;
template <class T>
using FirstMinimum = First<T, binary::LESS>;

template <class T>
class Any {
 public:
  KINA_HD void add(T x) { value_ = value_ || is_true(x); }
  KINA_HD bool result() const { return value_; }

 private:
  bool value_ = false;
};
template <class T>
class All {
 public:
  KINA_HD void add(T x) { value_ = value_ && is_true(x); }
  KINA_HD bool result() const { return value_; }

 private:
  bool value_ = true;
};

}  // namespace kina::kernels
