// A map of all live blocks in front of a source: each has to be aligned, overlap no other, and keep what is written.
#pragma once

#include <map>
#include <mutex>

#include "impl/bench/bench.h"

namespace kina::bench {

class Shadow {
 public:
  Shadow(const Source& checked, uint64_t alignment, bool is_touchable)
      : checked_(checked), alignment_(alignment), is_touchable_(is_touchable) {}
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  Source source();

 private:
  struct Live {
    uint64_t bytes;
    uint64_t mark;
  };
  void* take(uint64_t bytes);
  void give(void* data, uint64_t bytes);
  static void require(bool is_right, const char* what);

  Source checked_;
  uint64_t alignment_;
  bool is_touchable_;
  std::mutex mutex_;
  std::map<uint64_t, Live> live_;
  uint64_t last_mark_ = 0;
};

}  // namespace kina::bench
