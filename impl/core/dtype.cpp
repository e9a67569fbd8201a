// The table of element types.
#include "impl/core/dtype.h"

#include <algorithm>
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

}  // namespace

const DtypeRow* find_dtype(KinaDtype dtype) noexcept {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [dtype](const DtypeRow& candidate) { return candidate.dtype == dtype; });
  return row == std::end(kRows) ? nullptr : row;
}

const DtypeRow& row_of(KinaDtype dtype) noexcept { return *find_dtype(dtype); }

const DtypeRow& require_dtype(KinaDtype dtype, Argument argument) {
  const DtypeRow* row = find_dtype(dtype);
  if (row == nullptr) {
    const DLDataType type = dlpack_of(dtype);
    refuse<Message::dtype_unknown>("KINA-TENSOR-17", argument, argument.name, type.code, type.bits, type.lanes);
  }
  return *row;
}

}  // namespace kina
