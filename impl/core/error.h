// A failure on its way from the place that found it to the boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kina_runtime.h"

namespace kina {

enum class Message : uint16_t {
#define KINA_MESSAGE(NAME, STATUS, TEXT) NAME,
#include "impl/core/messages.def"
#undef KINA_MESSAGE
};

struct MessageRow {
  const char* name;
  KinaStatus status;
  const char* text;
};

inline constexpr MessageRow kMessages[] = {
#define KINA_MESSAGE(NAME, STATUS, TEXT) {#NAME, STATUS, TEXT},
#include "impl/core/messages.def"
#undef KINA_MESSAGE
};

constexpr const MessageRow& row_of(Message message) { return kMessages[static_cast<size_t>(message)]; }

// A parameter of an entry point: its position counted from 1 and its name as the header spells it. The position is as
// wide as the copies of a processor, which waits where they are wider than what was stored.
struct Argument {
  int64_t position = 0;
  const char* name = nullptr;
};

// What a driver or vendor library said itself. Strings are static.
struct Native {
  KinaNativeDomain domain = KINA_NATIVE_NONE;
  int64_t code = 0;
  const char* name = nullptr;
  const char* message = nullptr;
};

// The word for a device type, as KINA_RESOURCE and the messages spell it; NULL where there is none.
const char* word_of(DLDeviceType type) noexcept;

constexpr DLDevice device_of(int32_t type, int32_t id) noexcept { return {static_cast<DLDeviceType>(type), id}; }

// One value for one `{}` of a message: a device is written as sim:0, a device type as 12 (sim).
class Part {
 public:
  template <class Integer>
  requires std::is_integral_v<Integer> Part(Integer value)
      : kind_(std::is_signed_v<Integer> ? Kind::signed_integer : Kind::unsigned_integer) {
    number_ = static_cast<uint64_t>(value);
  }
  Part(DLDevice device);
  Part(DLDeviceType type) : kind_(Kind::device_type), type_(type) {}
  Part(const char* text) : text_(text == nullptr ? "NULL" : text), kind_(Kind::text) {}
  // Writes the value at `to`, at most `room` characters without a terminator; returns the count written.
  size_t write(char* to, size_t room) const noexcept;

 private:
  enum class Kind : uint8_t { signed_integer, unsigned_integer, text, device, device_type };
  uint64_t number_ = 0;
  const char* text_ = nullptr;
  Kind kind_;
  DLDeviceType type_{};
};

inline constexpr size_t kMessageBytes = 320;

struct Error {
  KinaStatus status = KINA_SUCCESS;
  const char* clause = nullptr;
  Argument argument;
  Native native;
  uint64_t failure = 0;
  uint64_t requested_bytes = 0;
  char text[kMessageBytes] = {};
};

constexpr size_t placeholders(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) count += text[i] == '{' && text[i + 1] == '}';
  return count;
}

// Fills `to` with `text`, each `{}` replaced by the next part; always terminated, cut where the room ends.
void format(char* to, size_t room, const char* text, const Part* parts, size_t count) noexcept;

template <Message kMessage, class... Values>
Error make_error(const char* clause, Argument argument, const Values&... values) {
  static_assert(placeholders(row_of(kMessage).text) == sizeof...(Values), "one value for each {} of the message");
  Error error;
  error.status = row_of(kMessage).status;
  error.clause = clause;
  error.argument = argument;
  const Part parts[] = {Part(values)..., Part(0)};
  format(error.text, sizeof(error.text), row_of(kMessage).text, parts, sizeof...(Values));
  return error;
}

// The caller's fault: a clause of the contract is broken. Values come as copies, out of line: what a check looks at
// stays in registers, for nobody needs its address.
template <Message kMessage, class... Values>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* clause, Argument argument, Values... values) {
  throw make_error<kMessage>(clause, argument, values...);
}

template <Message kMessage, class... Values>
[[gnu::always_inline]] inline void require(bool condition, const char* clause, Argument argument,
                                           const Values&... values) {
  if (!condition) [[unlikely]]
    refuse<kMessage>(clause, argument, values...);
}

// The fixed properties of a status: its word and what a caller may do about it.
struct StatusRow {
  KinaStatus status;
  const char* name;
  KinaCategory category;
  bool is_retryable;
};
const StatusRow* find_status(KinaStatus status) noexcept;

}  // namespace kina
