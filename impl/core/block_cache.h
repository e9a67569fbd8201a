// Memory of small objects that come and go with tensors: each thread keeps some blocks for its next ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include "impl/core/sanitizers.h"

namespace kina {

// Under a sanitizer every block goes back at once, so that a late access is seen.
inline constexpr bool kKeepsBlocks = !kIsAddressSanitized && !kIsThreadSanitized;

// The blocks of one thread. One that another thread gives back stays there.
class BlockCache {
 public:
  static constexpr size_t kStep = 64;
  static constexpr size_t kLargest = 512;
  static constexpr uint32_t kRoom = 64;  // of each size

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() {
    for (List& list : lists_)
      while (void* block = list.take()) ::operator delete(block);
  }

  // NULL when there is none.
  void* take(size_t bytes) noexcept { return lists_[index_of(bytes)].take(); }
  // False when there are enough.
  bool keep(void* block, size_t bytes) noexcept {
    List& list = lists_[index_of(bytes)];
    if (list.count == kRoom) return false;
    list.first = new (block) Free{list.first};
    ++list.count;
    return true;
  }

  static constexpr size_t rounded(size_t bytes) noexcept { return (bytes + kStep - 1) / kStep * kStep; }

 private:
  struct Free {
    Free* next;
  };
  struct List {
    Free* first = nullptr;
    uint32_t count = 0;
    void* take() noexcept {
      Free* taken = first;
      if (taken == nullptr) return nullptr;
      first = taken->next;
      --count;
      return taken;
    }
  };
  static constexpr size_t index_of(size_t bytes) noexcept { return (bytes - 1) / kStep; }

  std::array<List, kLargest / kStep> lists_;
};

}  // namespace kina
