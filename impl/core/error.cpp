// Formatting of messages and the table of statuses.
#include "impl/core/error.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace kina {
namespace {

constexpr StatusRow kStatuses[] = {
    {KINA_SUCCESS, "SUCCESS", KINA_CATEGORY_NONE, false},
    {KINA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY", KINA_CATEGORY_RESOURCE, true},
    {KINA_ERROR_DEVICE, "DEVICE", KINA_CATEGORY_DEVICE, false},
    {KINA_ERROR_INVALID_SHAPE, "INVALID_SHAPE", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_DLPACK, "DLPACK", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_KERNEL_LAUNCH, "KERNEL_LAUNCH", KINA_CATEGORY_DEVICE, false},
    {KINA_ERROR_INTERNAL, "INTERNAL", KINA_CATEGORY_INTERNAL, false},
    {KINA_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_INVALID_HANDLE, "INVALID_HANDLE", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_INVALID_DTYPE, "INVALID_DTYPE", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_DEVICE_MISMATCH, "DEVICE_MISMATCH", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_UNSUPPORTED, "UNSUPPORTED", KINA_CATEGORY_UNSUPPORTED, false},
    {KINA_ERROR_OVERLAP, "OVERLAP", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_READ_ONLY, "READ_ONLY", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_FAILED_INPUT, "FAILED_INPUT", KINA_CATEGORY_DEVICE, false},
    {KINA_ERROR_INDEX_OUT_OF_RANGE, "INDEX_OUT_OF_RANGE", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_BUSY, "BUSY", KINA_CATEGORY_CALLER, true},
    {KINA_ERROR_VERSION, "VERSION", KINA_CATEGORY_CALLER, false},
    {KINA_ERROR_DEVICE_LOST, "DEVICE_LOST", KINA_CATEGORY_DEVICE, false},
    {KINA_ERROR_VENDOR_LIBRARY, "VENDOR_LIBRARY", KINA_CATEGORY_DEVICE, false},
};

size_t write_in_turn(char* to, size_t room, std::initializer_list<Part> parts) noexcept {
  size_t used = 0;
  for (const Part& part : parts) used += part.write(to + used, room - used);
  return used;
}

}  // namespace

const StatusRow* find_status(KinaStatus status) noexcept {
  const auto* row = std::find_if(std::begin(kStatuses), std::end(kStatuses),
                                 [status](const StatusRow& candidate) { return candidate.status == status; });
  return row == std::end(kStatuses) ? nullptr : row;
}

const char* word_of(DLDeviceType type) noexcept {
  switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLCUDAHost: return "cuda_host";
    case kDLCUDAManaged: return "cuda_managed";
    case kDLExtDev: return "sim";
    default: return nullptr;
  }
}

Part::Part(DLDevice device) : Part(int64_t{device.device_id}) {
  kind_ = Kind::device;
  type_ = device.device_type;
}

size_t Part::write(char* to, size_t room) const noexcept {
  if (kind_ == Kind::text) {
    const size_t count = std::min(room, std::strlen(text_));
    std::memcpy(to, text_, count);
    return count;
  }
  const Part type = static_cast<int32_t>(type_);
  if (kind_ == Kind::device) {
    const char* word = word_of(type_);
    return write_in_turn(to, room, {word == nullptr ? type : word, ":", static_cast<int64_t>(number_)});
  }
  if (kind_ == Kind::device_type) {
    const char* word = word_of(type_);
    return word == nullptr ? type.write(to, room) : write_in_turn(to, room, {type, " (", word, ")"});
  }
  const bool is_negative = kind_ == Kind::signed_integer && static_cast<int64_t>(number_) < 0;
  uint64_t rest = is_negative ? 0 - number_ : number_;
  char digits[21];
  size_t first = sizeof(digits);
  do {
    digits[--first] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (is_negative) digits[--first] = '-';
  const size_t count = std::min(room, sizeof(digits) - first);
  std::memcpy(to, digits + first, count);
  return count;
}

void format(char* to, size_t room, const char* text, const Part* parts, size_t count) noexcept {
  size_t used = 0;
  size_t next = 0;
  while (*text != '\0' && used + 1 < room) {
    if (text[0] == '{' && text[1] == '}' && next < count) {
      used += parts[next++].write(to + used, room - 1 - used);
      text += 2;
    } else {
      to[used++] = *text++;
    }
  }
  to[used] = '\0';
}

}  // namespace kina
