// The test program's operator new.
#include "impl/tests/heap.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace kina::tests {

thread_local int64_t heap_left = -1;
thread_local uint64_t heap_asked = 0;
thread_local int64_t heap_live = 0;
std::atomic<int64_t> heap_live_of_all{0};

namespace {

void give(void* data) noexcept {
  if (data != nullptr) {
    --heap_live;
    --heap_live_of_all;
  }
  std::free(data);
}

}  // namespace

}  // namespace kina::tests

using namespace kina::tests;

void* operator new(size_t bytes) {
  ++heap_asked;
  if (heap_left == 0) throw std::bad_alloc();
  if (heap_left > 0) --heap_left;
  void* data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  ++heap_live;
  ++heap_live_of_all;
  return data;
}
void operator delete(void* data) noexcept { give(data); }
void operator delete(void* data, size_t) noexcept { give(data); }
