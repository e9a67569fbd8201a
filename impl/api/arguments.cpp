// The rules of growing structs and flags.
#include "impl/api/arguments.h"

#include <algorithm>

#include "impl/api/hexadecimal.h"

namespace kina {

void require_struct_size(uint32_t struct_size, size_t known, Argument argument) {
  require<Message::struct_size_illegal>(struct_size <= KINA_STRUCT_LIMIT && struct_size % 8 == 0, "KINA-VERSION-12",
                                        argument, argument.name, struct_size);
  require<Message::struct_too_small>(struct_size >= known, "KINA-VERSION-11", argument, argument.name, struct_size,
                                     known);
}

void require_zero_tail(const void* structure, uint32_t struct_size, size_t known, Argument argument) {
  const auto* bytes = static_cast<const unsigned char*>(structure);
  require<Message::struct_tail>(
      std::all_of(bytes + known, bytes + struct_size, [](unsigned char byte) { return byte == 0; }), "KINA-VERSION-13",
      argument, argument.name, known);
}

void refuse_flags(uint32_t unknown, const char* clause, Argument argument) {
  refuse<Message::flag_unknown>(clause, argument, argument.name, Hexadecimal(static_cast<int32_t>(unknown)));
}

}  // namespace kina
