// Element types that are not in the table.
#include "impl/core/dtype.h"

namespace kina {

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
