// The rows of a logging resource and where they are written to.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "kina_runtime.h"

namespace kina {

inline constexpr uint32_t kFrames = 16;

// The calling thread, as rows have it: an integer here, a pointer on other systems.
inline uint64_t name_of_thread() noexcept { return (uint64_t)pthread_self(); }

// A request and how it went, as the calling thread knows it.
struct LoggedRequest {
  KinaLogEvent event;
  KinaStatus status;
  void* data;
  uint64_t bytes, alignment, stream, resource, thread;
};

// One row as it is delivered.
struct LogRow {
  LoggedRequest request;
  uint64_t order, time_nanoseconds;
  uint32_t frame_count;
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
