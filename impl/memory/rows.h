// The rows of a logging resource and where they are written to.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "kina_runtime.h"

namespace kina {

inline constexpr uint32_t kFrames = 16;

// One request as the calling thread saw it. Without initialisers: a ring of many rows costs no memory until it is used.
// In the ring the order is its low half, and the time is in ticks.
struct LogRow {
  uint64_t order, time_nanoseconds, thread, bytes, alignment, resource;
  void* data;
  KinaStream stream;
  KinaLogEvent event;
  KinaStatus status;
  uint32_t frame_count;
  uint32_t entered;  // of the ring: the row is whole when it has the number of its place
};

// A file descriptor that is closed at the end, unless it is stderr's.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, kStandardError)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int number() const noexcept { return number_; }

 private:
  static constexpr int kStandardError = 2;
  int number_ = kStandardError;
};

// Formats rows as lines. Nothing here allocates after the construction: it runs where nobody could be told.
class RowFile {
 public:
  RowFile(Descriptor descriptor, KinaLogFormat format, const char* resource_name, bool has_frames);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  void write(const LogRow& row, const uint64_t* frames) noexcept;
  void flush() noexcept;

 private:
  void append(const char* text, size_t count) noexcept;
  void append_format(const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
  void write_out(const char* text, size_t count) noexcept;

  const Descriptor descriptor_;
  const bool is_json_;
  const bool has_frames_;
  const std::string name_;  // escaped for the format
  size_t used_ = 0;
  std::array<char, 16384> buffer_;
};

}  // namespace kina
