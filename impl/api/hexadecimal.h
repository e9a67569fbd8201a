// A number of a message as the header writes it, 0x121.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace kina {

class Hexadecimal {
 public:
  explicit Hexadecimal(int32_t number) noexcept {
    std::snprintf(text_, sizeof(text_), "0x%" PRIX32, static_cast<uint32_t>(number));
  }
  operator const char*() const noexcept { return text_; }

 private:
  char text_[11];
};

}  // namespace kina
