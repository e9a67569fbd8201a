// Vector clocks: what a moment of a stream is ordered after.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kina::sim {

// Entry i: how many pieces of work of stream i are ordered before this moment.
class Clock {
 public:
  uint64_t of(uint32_t stream) const noexcept { return stream < counts_.size() ? counts_[stream] : 0; }
  void set(uint32_t stream, uint64_t count) {
    if (stream >= counts_.size()) counts_.resize(stream + 1, 0);
    counts_[stream] = count;
  }
  void join(const Clock& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size(), 0);
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] = std::max(counts_[i], other.counts_[i]);
  }

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace kina::sim
