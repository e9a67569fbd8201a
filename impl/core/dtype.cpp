// The table of element types.
#include "impl/core/dtype.h"

#include <array>
#include <bit>
#include <iterator>

namespace kina {
namespace {

template <class T>
inline constexpr uint32_t kAlignment = alignof(T);
template <class T>
inline constexpr uint32_t kAlignment<std::complex<T>> = alignof(T);

constexpr DtypeRow kRows[] = {
#define KINA_ROW(NAME, WORD, TYPE, GROUP, COMPUTING) \
  {KINA_DTYPE_##NAME, WORD, sizeof(TYPE), kAlignment<TYPE>, DtypeClass::GROUP, COMPUTING},
    KINA_DTYPES(KINA_ROW)
#undef KINA_ROW
};

// Code and width tell all rows apart: every call looks some up.
constexpr size_t kPlaces = 128;
constexpr size_t place_of(KinaDtype dtype) {
  return (dtype & 7) * 16 + static_cast<size_t>(std::bit_width(dtype >> 8 & 0xFF));
}
constexpr std::array<uint8_t, kPlaces> kPlaceRows = [] {
  std::array<uint8_t, kPlaces> rows{};
  for (size_t row = 0; row < std::size(kRows); ++row) {
    uint8_t& place = rows[place_of(kRows[row].dtype)];
    if (place != 0) throw "two rows share a place";
    place = static_cast<uint8_t>(row + 1);
  }
  return rows;
}();

}  // namespace

const DtypeRow* find_dtype(KinaDtype dtype) noexcept {
  const uint8_t place = kPlaceRows[place_of(dtype)];
  if (place == 0) return nullptr;
  const DtypeRow& row = kRows[place - 1];
  return row.dtype == dtype ? &row : nullptr;
}

const DtypeRow& row_of(KinaDtype dtype) noexcept { return *find_dtype(dtype); }

void refuse_dtype(KinaDtype dtype, Argument argument) {
  const DLDataType type = dlpack_of(dtype);
  refuse<Message::dtype_unknown>("KINA-TENSOR-17", argument, argument.name, type.code, type.bits, type.lanes);
}

const DtypeRow& require_dtype(KinaDtype dtype, Argument argument) {
  const DtypeRow* row = find_dtype(dtype);
  if (row == nullptr) [[unlikely]]
    refuse_dtype(dtype, argument);
  return *row;
}

}  // namespace kina
