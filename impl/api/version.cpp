// Entry points of the version chapter.
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"

using namespace kina;

namespace {

struct LayoutRow {
  std::string_view type;
  std::string_view field;  // empty: the whole struct
  uint64_t offset;
  uint64_t bytes;
};

template <class Field>
struct Alone {
  Field field;
};

constexpr LayoutRow kLayout[] = {
#define KINA_TYPE(TYPE) {#TYPE, "", 0, sizeof(TYPE)},
#define KINA_FIELD(TYPE, FIELD)          \
  {#TYPE, #FIELD, offsetof(TYPE, FIELD), \
   sizeof(Alone<std::remove_reference_t<decltype((std::declval<TYPE&>().FIELD))>>)},
#include "impl/api/layout.def"
#undef KINA_FIELD
#undef KINA_TYPE
};

const LayoutRow* find_layout(std::string_view type, std::string_view field) {
  for (const LayoutRow& row : kLayout)
    if (row.type == type && row.field == field) return &row;
  return nullptr;
}

// Whether the build has a backend for a device type, present or not.
bool is_built(int32_t device_type) {
  for (Backend* const* backend = backends(); *backend != nullptr; ++backend)
    if ((*backend)->device_type() == device_type) return true;
  return false;
}

}  // namespace

uint32_t runtime_abi_version(void) { return KINA_ABI_VERSION; }

const char* runtime_version_string(void) { return "Kina reference runtime 1.0.0-rc"; }

int32_t runtime_has_feature(KinaFeature feature) {
  switch (feature) {
    case KINA_FEATURE_CORE:
    case KINA_FEATURE_DLPACK:
    case KINA_FEATURE_PEER:
    case KINA_FEATURE_FLOAT8: return 1;
    case KINA_FEATURE_CUDA: return is_built(kDLCUDA);
    case KINA_FEATURE_SIM:
    case KINA_FEATURE_CAPTURE:  // of simulated streams
      return is_built(kDLExtDev);
    default:  // whatever a newer contract numbers
      return 0;
  }
}

KinaStatus runtime_field_layout(uint64_t* offset, uint64_t* bytes, const char* type, const char* field) {
  return boundary(__func__, [&] {
    Pointer to_offset(offset, {1, "offset"});
    Pointer to_bytes(bytes, {2, "bytes"});
    Pointer named(type, {3, "type"});
    dereference(to_offset, to_bytes, named);
    require<Message::layout_type_unknown>(find_layout(type, "") != nullptr, "KINA-VERSION-7", {3, "type"}, type);
    const bool is_whole = field == nullptr;
    const LayoutRow* row = is_whole ? find_layout(type, "") : *field == '\0' ? nullptr : find_layout(type, field);
    require<Message::layout_field_unknown>(row != nullptr, "KINA-VERSION-7", {4, "field"}, type, field);
    *offset = row->offset;
    *bytes = row->bytes;
  });
}
