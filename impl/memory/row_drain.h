// The ring of rows that calling threads fill and one thread of its own empties.
#pragma once

#include <pthread.h>

#include <bit>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "impl/core/counted.h"
#include "impl/core/lease.h"
#include "impl/core/mutex.h"
#include "impl/core/prefetch.h"
#include "impl/memory/rows.h"
#include "impl/memory/ticks.h"

namespace kina {

// Where the rows go: a callback, or a file.
struct RowTarget {
  KinaLogRowCallback callback = nullptr;
  void* context = nullptr;
  std::optional<RowFile> file;  // when there is no callback
};

class RowDrain final : public Counted {
 public:
  // Rows of `resource_name`. Throws OUT_OF_MEMORY where the ring cannot be had.
  RowDrain(uint64_t capacity, bool has_frames, const char* resource_name);

  RowTarget& target() noexcept { return target_; }
  // Starts the thread; false where there is none to be had.
  bool start() noexcept;
  // Delivers what waits and ends the thread. No row is delivered after it returns.
  void stop() noexcept;

  // Makes the request the next row. Where the ring is full the row is dropped, and counted. Takes no lock.
  [[gnu::always_inline]] void add(const LoggedRequest& request, uint64_t ticks) noexcept {
    uint64_t place = 0;
    if (!take_place(place, request.thread)) [[unlikely]]
      return;
    Row& row = row_at(place);
    ask_to_write(&row_at(place + kAhead));
    row.ticks = ticks;
    row.thread = request.thread;
    row.bytes = request.bytes;
    row.stream = request.stream;
    row.resource = request.resource;
    row.data = request.data;
    row.order = static_cast<uint32_t>(place + (place >> 32) + 1);
    row.status = request.status;
    row.event = static_cast<uint8_t>(request.event);
    row.alignment_log = static_cast<uint8_t>(std::countr_zero(request.alignment));
    row.frame_count = 0;
    if (frames_) [[unlikely]]
      add_frames(row, place);
    enter(row, static_cast<uint32_t>(place));
  }
  bool has_frames() const noexcept { return frames_ != nullptr; }
  uint64_t dropped_rows() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  uint64_t bytes() const noexcept;

  // Waits a moment for waiting rows to be written: the process is about to exit.
  void settle() noexcept;

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint64_t kNoThread = 0, kAllThreads = ~uint64_t{0}, kLeaving = ~uint64_t{1};  // no thread's names

  // One row in the ring, a line of the cache: callers and the thread that empties the ring share no other. Without
  // initialisers: a ring of many rows costs no memory until it is used.
  struct alignas(64) Row {
    uint64_t ticks, thread, bytes, stream, resource;
    void* data;
    uint32_t order;    // its low half
    uint32_t entered;  // the row is whole when it has the number of its place
    KinaStatus status;
    uint8_t event, alignment_log, frame_count;
  };
  // Rows from here on whose line is asked for now: the thread that empties the ring had it last.
  static constexpr uint64_t kAhead = 8;

  ~RowDrain() override = default;
  static void* run(void* drain) noexcept;
  void empty() noexcept;
  void doze(std::unique_lock<std::mutex>& lock, bool is_nap) noexcept;
  void wake() noexcept;
  uint32_t waiting_rows() const noexcept;  // whole, or about to be
  uint64_t whole_rows() noexcept;
  void deliver(uint64_t first, uint64_t last) noexcept;
  Row& row_at(uint64_t place) noexcept { return rows_[place & mask_]; }
  uint64_t* frames_at(uint64_t place) noexcept { return frames_ ? frames_.get() + (place & mask_) * kFrames : nullptr; }
  void call_back(const LogRow& row, const uint64_t* frames) noexcept;
  bool is_in_other_process() const noexcept { return forks() != forks_; }

  // The number of the next row is the low half of its place; false where there is none.
  bool take_place(uint64_t& place, uint64_t thread) noexcept {
    if (is_in_other_process()) [[unlikely]]
      return drop();
    const bool is_alone = try_enter(thread);
    place = taken_.load(std::memory_order_relaxed);
    const bool is_free = has_room(place, seen_read_.load(std::memory_order_acquire));
    if (is_alone) [[likely]] {
      if (is_free) taken_.store(after(place), std::memory_order_relaxed);
      is_inside_.store(false, std::memory_order_release);
      if (is_free) [[likely]]
        return true;
    } else if (is_free && taken_.compare_exchange_strong(place, after(place), std::memory_order_acq_rel)) {
      return true;
    }
    return search_place(place);
  }
  [[gnu::cold]] bool search_place(uint64_t& place) noexcept;
  // Whether the thread is the resident, and inside now: nobody else changes `taken_`.
  bool try_enter(uint64_t thread) noexcept {
    const uint64_t resident = resident_.load(std::memory_order_acquire);
    if (resident == kAllThreads) return false;
    if (resident != thread && !move_in(thread)) [[unlikely]]
      return false;
    is_inside_.store(true, std::memory_order_relaxed);
    fence_lease();
    if (resident_.load(std::memory_order_acquire) == thread) [[likely]]
      return true;
    is_inside_.store(false, std::memory_order_release);
    return false;
  }
  // Whether the thread is the resident now. Where another one is, there is none from here on.
  [[gnu::cold]] bool move_in(uint64_t thread) noexcept;
  static uint64_t after(uint64_t taken) noexcept {
    return (taken & ~uint64_t{0xFFFFFFFF}) | static_cast<uint32_t>(taken + 1);
  }
  bool has_room(uint64_t taken, uint64_t read) const noexcept {
    return static_cast<uint32_t>(taken - read) < capacity_;
  }
  bool has_room(uint64_t taken) noexcept;
  [[gnu::cold, gnu::noinline]] void add_frames(Row& row, uint64_t place) noexcept;
  // Makes the row visible.
  void enter(Row& row, uint32_t number) noexcept {
    __atomic_store_n(&row.entered, number + 1, __ATOMIC_RELEASE);
    fence_lease();  // with the fence before the thread goes to sleep
    const uint64_t wake_at = wake_at_.load(std::memory_order_relaxed);
    if (wake_at != kNever && static_cast<int32_t>(number + 1 - static_cast<uint32_t>(wake_at)) >= 0) [[unlikely]]
      wake();
  }
  bool drop() noexcept {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  const uint64_t capacity_;
  const uint64_t mask_;
  const std::string resource_name_;
  const std::unique_ptr<void, void (*)(void*)> memory_;  // zeroed, without touching it
  Row* const rows_;
  const std::unique_ptr<uint64_t[]> frames_;  // kFrames for each row, or none
  const uint64_t forks_;
  RowTarget target_;
  pthread_t thread_{};

  std::mutex mutex_;  // of the thread's sleep
  std::condition_variable filled_;
  std::condition_variable emptied_;
  bool is_stopping_ = false;
  uint64_t order_ = 0;  // of the row delivered last
  TickScale scale_;
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> wake_at_{kNever};  // the row that ends the nap or the sleep of the thread
  // Rows entered so far and rows dropped so far, 32 bits of each: one exchange gives a row its number and its place.
  alignas(64) std::atomic<uint64_t> taken_{0};
  // The resident takes places by plain stores: the first thread that enters a row, until another one comes, who pays a
  // fence of all threads. From then on all threads take them by locked instructions.
  std::atomic<uint64_t> resident_;
  std::atomic<bool> is_inside_{false};
  std::atomic<uint64_t> seen_read_{0};         // what a caller last saw of `read_`, which another core writes
  alignas(64) std::atomic<uint64_t> read_{0};  // rows below are delivered
};

// Drains whose rows go to a file: they are settled when the process exits.
void remember_at_exit(RowDrain* drain);
void forget_at_exit(RowDrain* drain) noexcept;

}  // namespace kina
