// Element types: the list, their classes, and the only switch over them.
#pragma once

#include <array>
#include <bit>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "impl/core/error.h"
#include "impl/core/half.h"

namespace kina {

enum class DtypeClass : uint8_t { boolean, signed_integer, unsigned_integer, real, complex };

struct DtypeRow {
  KinaDtype dtype;
  const char* name;
  uint32_t bytes;
  uint32_t alignment;
  DtypeClass group;
  bool is_computing;  // takes part in arithmetic; the others are stored and moved (f8 is also cast)
};

// KINA_DTYPE(NAME, name, type, class, computing)
#define KINA_DTYPES(X)                                     \
  X(BOOL, "bool", Bool, boolean, true)                     \
  X(U8, "u8", uint8_t, unsigned_integer, true)             \
  X(I8, "i8", int8_t, signed_integer, true)                \
  X(U16, "u16", uint16_t, unsigned_integer, false)         \
  X(I16, "i16", int16_t, signed_integer, true)             \
  X(U32, "u32", uint32_t, unsigned_integer, false)         \
  X(I32, "i32", int32_t, signed_integer, true)             \
  X(U64, "u64", uint64_t, unsigned_integer, false)         \
  X(I64, "i64", int64_t, signed_integer, true)             \
  X(F8E4M3FN, "f8e4m3fn", Float8E4M3, real, false)         \
  X(F8E5M2, "f8e5m2", Float8E5M2, real, false)             \
  X(F16, "f16", Half, real, true)                          \
  X(BF16, "bf16", BFloat16, real, true)                    \
  X(F32, "f32", float, real, true)                         \
  X(F64, "f64", double, real, true)                        \
  X(C64, "complex64", std::complex<float>, complex, false) \
  X(C128, "complex128", std::complex<double>, complex, false)

// A bool of the contract: any byte but 0 is true.
struct Bool {
  uint8_t byte;
  Bool() = default;
  constexpr Bool(bool value) : byte(value ? 1 : 0) {}
  constexpr explicit operator bool() const { return byte != 0; }
};

template <class T>
inline constexpr uint32_t kAlignment = alignof(T);
template <class T>
inline constexpr uint32_t kAlignment<std::complex<T>> = alignof(T);

// Code and width tell all rows apart: every call looks some up.
constexpr size_t dtype_place(KinaDtype dtype) noexcept {
  return (dtype & 7) * 16 + static_cast<size_t>(std::bit_width(dtype >> 8 & 0xFF));
}
inline constexpr auto kDtypeRows = [] {
  std::array<DtypeRow, 128> rows{};
  const auto add = [&rows](const DtypeRow& row) {
    DtypeRow& place = rows[dtype_place(row.dtype)];
    if (place.bytes != 0) throw "two rows share a place";
    place = row;
  };
#define KINA_ROW(NAME, WORD, TYPE, GROUP, COMPUTING) \
  add({KINA_DTYPE_##NAME, WORD, sizeof(TYPE), kAlignment<TYPE>, DtypeClass::GROUP, COMPUTING});
  KINA_DTYPES(KINA_ROW)
#undef KINA_ROW
  return rows;
}();

// The row of a dtype, NULL when the contract has none.
inline const DtypeRow* find_dtype(KinaDtype dtype) noexcept {
  const DtypeRow& row = kDtypeRows[dtype_place(dtype)];
  return row.dtype == dtype && row.bytes != 0 ? &row : nullptr;
}

// The row of a dtype that is known to be in the table.
inline const DtypeRow& row_of(KinaDtype dtype) noexcept { return *find_dtype(dtype); }

// Refuses what is not in the dtype table.
const DtypeRow& require_dtype(KinaDtype dtype, Argument argument);
[[noreturn]] void refuse_dtype(KinaDtype dtype, Argument argument);

// The bytes of an element of a dtype of the table, which says them itself.
constexpr uint64_t bytes_of(KinaDtype dtype) noexcept { return (dtype >> 8 & 0xFF) / 8; }
#define KINA_ROW(NAME, WORD, TYPE, GROUP, COMPUTING) static_assert(bytes_of(KINA_DTYPE_##NAME) == sizeof(TYPE));
KINA_DTYPES(KINA_ROW)
#undef KINA_ROW

inline const char* name_of(KinaDtype dtype) noexcept { return row_of(dtype).name; }

constexpr KinaDtype dtype_of(DLDataType type) noexcept {
  return static_cast<KinaDtype>(type.code) | static_cast<KinaDtype>(type.bits) << 8 |
         static_cast<KinaDtype>(type.lanes) << 16;
}

constexpr DLDataType dlpack_of(KinaDtype dtype) noexcept {
  return {static_cast<uint8_t>(dtype), static_cast<uint8_t>(dtype >> 8), static_cast<uint16_t>(dtype >> 16)};
}

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) for the C++ type of a dtype of the table; any other number gives an empty result.
template <class F>
auto visit(KinaDtype dtype, F&& f) -> std::invoke_result_t<F, Type<Bool>> {
  switch (dtype) {
#define KINA_CASE(NAME, WORD, TYPE, GROUP, COMPUTING) \
  case KINA_DTYPE_##NAME: return f(Type<TYPE>{});
    KINA_DTYPES(KINA_CASE)
#undef KINA_CASE
    default: return {};
  }
}

}  // namespace kina
