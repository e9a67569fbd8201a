// The heap of the test program, counted, and out of memory on demand.
#pragma once

#include <atomic>
#include <cstdint>

namespace kina::tests {

// Of the calling thread: how many more allocations succeed (below zero: all), how many were asked for, and how many
// more it was given than it gave back.
extern thread_local int64_t heap_left;
extern thread_local uint64_t heap_asked;
extern thread_local int64_t heap_live;
// The last of them of all threads together.
extern std::atomic<int64_t> heap_live_of_all;

}  // namespace kina::tests
