// The streams of a device that callers made, and the objects that stand for them.
#pragma once

#include <vector>

#include "impl/core/stream.h"

namespace kina {

// Streams never end as objects, so one of these is used again for another native stream as soon as all that was on the
// former one is over: its positions go on, and work of the new one comes after theirs. Guarded by the device's mutex.
class Imports {
 public:
  explicit Imports(Device& device) noexcept : device_(device) {}

  // The stream of `native` under its name, the same one for every import of it.
  Stream& add(NativeStream native);
  // Ends one import; the last one ends the name, unless a scope binds the stream.
  Stream::Ending remove(Stream& stream, uint64_t handle, Argument argument);

  // A DLPack export or import that was given `stream` is served by it until its deleter runs, also past the end of its
  // name: only then the native stream is its owner's alone.
  void begin_service(Stream& stream);
  void end_service(Stream& stream) noexcept;

  // Those whose work can be waited for.
  void append_to(std::vector<Ref<Stream>>& streams) const;

 private:
  struct Import {
    Stream* stream;
    uint64_t names = 0;     // imports that were not released
    uint64_t services = 0;  // exports and imports that it serves

    bool is_open() const noexcept { return names + services != 0; }
  };
  Import* find(const Stream& stream) noexcept;
  Import& find_or_make_unused();

  Device& device_;
  std::vector<Import> all_;
};

// The service of a stream to one export or import; nothing to keep where the library made the stream.
class Service {
 public:
  Service() = default;
  // Throws where the caller's stream has ended meanwhile. `stream` NULL: none.
  explicit Service(Stream* stream) {
    if (stream != nullptr) begin(*stream);
    stream_ = stream;
  }
  Service(Service&& other) noexcept : stream_(other.detach()) {}
  Service& operator=(Service&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Service() {
    if (stream_ != nullptr) end(*stream_);
  }

  // The service goes on until somebody ends it.
  Stream* detach() noexcept { return std::exchange(stream_, nullptr); }
  static void end(Stream& stream) noexcept;

  Stream* stream() const noexcept { return stream_; }

 private:
  static void begin(Stream& stream);
  Stream* stream_ = nullptr;
};

}  // namespace kina
