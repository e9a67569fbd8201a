// What is checked of every block, and its end at the first fault.
#include "impl/bench/shadow.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kina::bench {

void Shadow::require(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "benchmark: %s\n", what);
  std::exit(1);
}

Source Shadow::source() {
  Source made = checked_;
  made.context = this;
  made.take = [](const Source* self, uint64_t bytes) { return static_cast<Shadow*>(self->context)->take(bytes); };
  made.give = [](const Source* self, void* data, uint64_t bytes) {
    static_cast<Shadow*>(self->context)->give(data, bytes);
  };
  return made;
}

void* Shadow::take(uint64_t bytes) {
  void* data = checked_.take(&checked_, bytes);
  const auto start = reinterpret_cast<uint64_t>(data);
  require(data != nullptr, "a source gave no block");
  require(start % alignment_ == 0, "a block is not aligned");
  const std::lock_guard lock(mutex_);
  const auto above = live_.lower_bound(start);
  require(above == live_.end() || start + bytes <= above->first, "a block overlaps a live one above it");
  if (above != live_.begin()) {
    const auto below = std::prev(above);
    require(below->first + below->second.bytes <= start, "a block overlaps a live one below it");
  }
  const Live live{bytes, ++last_mark_};
  live_.emplace(start, live);
  if (is_touchable_ && bytes >= 2 * sizeof live.mark) {
    std::memcpy(data, &live.mark, sizeof live.mark);
    std::memcpy(static_cast<char*>(data) + bytes - sizeof live.mark, &live.mark, sizeof live.mark);
  }
  return data;
}

void Shadow::give(void* data, uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(reinterpret_cast<uint64_t>(data));
    require(found != live_.end() && found->second.bytes == bytes, "what goes back is no live block");
    uint64_t marks[2] = {found->second.mark, found->second.mark};
    if (is_touchable_ && bytes >= sizeof marks) {
      std::memcpy(&marks[0], data, sizeof marks[0]);
      std::memcpy(&marks[1], static_cast<char*>(data) + bytes - sizeof marks[1], sizeof marks[1]);
    }
    require(marks[0] == found->second.mark && marks[1] == found->second.mark, "a block lost what was written into it");
    live_.erase(found);
  }
  checked_.give(&checked_, data, bytes);
}

}  // namespace kina::bench
