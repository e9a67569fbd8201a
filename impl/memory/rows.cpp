// Rows as text and as JSON lines.
#include "impl/memory/rows.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "impl/core/error.h"

namespace kina {
namespace {

bool is_control(char letter) noexcept { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F; }

void append_json(std::string& to, char letter) {
  if (is_control(letter)) {
    char code[8];
    std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(letter));
    to += code;
    return;
  }
  if (letter == '"' || letter == '\\') to += '\\';
  to += letter;
}

std::string escaped(const char* text, bool is_json) {
  std::string result;
  for (; *text != '\0'; ++text) {
    if (is_json) {
      append_json(result, *text);
    } else {
      result += is_control(*text) ? '?' : *text;
    }
  }
  return result;
}

const char* word_of_event(KinaLogEvent event) noexcept {
  return event == KINA_LOG_EVENT_ALLOCATE ? "allocate" : "deallocate";
}

uint64_t number_of(const void* pointer) noexcept { return reinterpret_cast<uint64_t>(pointer); }

constexpr char kText[] =
    "order=%" PRIu64 " time_nanoseconds=%" PRIu64 " thread=%" PRIu64 " event=%s status=%s bytes=%" PRIu64
    " alignment=%" PRIu64 " data=0x%" PRIx64 " stream=0x%" PRIx64 " resource=0x%" PRIx64 " resource_name=";
constexpr char kJson[] =
    "{\"order\":%" PRIu64 ",\"time_nanoseconds\":%" PRIu64 ",\"thread\":%" PRIu64
    ",\"event\":\"%s\",\"status\":\"%s\",\"bytes\":%" PRIu64 ",\"alignment\":%" PRIu64 ",\"data\":\"0x%" PRIx64
    "\",\"stream\":\"0x%" PRIx64 "\",\"resource\":\"0x%" PRIx64 "\",\"resource_name\":\"";

}  // namespace

Descriptor::~Descriptor() {
  if (number_ != kStandardError) close(number_);
}

RowFile::RowFile(Descriptor descriptor, KinaLogFormat format, const char* resource_name, bool has_frames)
    : descriptor_(std::move(descriptor)),
      is_json_(format == KINA_LOG_FORMAT_JSON_LINES),
      has_frames_(has_frames),
      name_(escaped(resource_name, is_json_)) {}

RowFile::~RowFile() { flush(); }

void RowFile::write(const LogRow& row, const uint64_t* frames) noexcept {
  const LoggedRequest& request = row.request;
  const StatusRow* status = find_status(request.status);
  append_format(is_json_ ? kJson : kText, row.order, row.time_nanoseconds, request.thread, word_of_event(request.event),
                status == nullptr ? "UNKNOWN" : status->name, request.bytes, request.alignment, number_of(request.data),
                request.stream, request.resource);
  append(name_.data(), name_.size());
  if (!is_json_) return append("\n", 1);
  append("\"", 1);
  if (has_frames_) {
    append_format(",\"frames\":[");
    for (uint32_t i = 0; i < row.frame_count; ++i) append_format("%s\"0x%" PRIx64 "\"", i == 0 ? "" : ",", frames[i]);
    append("]", 1);
  }
  append("}\n", 2);
}

void RowFile::append_format(const char* format, ...) noexcept {
  char line[512];  // the longest prefix has 10 numbers of at most 20 digits
  va_list values;
  va_start(values, format);
  const int count = std::vsnprintf(line, sizeof(line), format, values);
  va_end(values);
  if (count > 0) append(line, std::min(sizeof(line) - 1, static_cast<size_t>(count)));
}

void RowFile::append(const char* text, size_t count) noexcept {
  if (count > buffer_.size() - used_) flush();
  if (count > buffer_.size()) return write_out(text, count);
  std::memcpy(buffer_.data() + used_, text, count);
  used_ += count;
}

void RowFile::flush() noexcept {
  write_out(buffer_.data(), used_);
  used_ = 0;
}

// A file that cannot be written loses its rows: there is nobody to tell.
void RowFile::write_out(const char* text, size_t count) noexcept {
  while (count > 0) {
    const ssize_t written = ::write(descriptor_.number(), text, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    count -= static_cast<size_t>(written);
  }
}

}  // namespace kina
