// The ring of rows that calling threads fill and one thread of its own empties.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "impl/core/counted.h"
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
  // Throws OUT_OF_MEMORY where the ring cannot be had.
  RowDrain(uint64_t capacity, bool has_frames, const char* resource_name);

  RowTarget& target() noexcept { return target_; }
  // Starts the thread; false where there is none to be had.
  bool start() noexcept;
  // Delivers what waits and ends the thread. No row is delivered after it returns.
  void stop() noexcept;

  // Where the calling thread writes its next row, which has its number, time and thread already; no row where the ring
  // is full, and the row counts as dropped. `enter` makes it visible. Takes no lock.
  struct Place {
    LogRow* row = nullptr;
    uint32_t number = 0;
  };
  Place begin() noexcept;
  void enter(const Place& place) noexcept;
  uint64_t dropped_rows() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  uint64_t bytes() const noexcept;

  // Waits a moment for waiting rows to be written: the process is about to exit.
  void settle() noexcept;

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};

  ~RowDrain() override = default;
  static void* run(void* drain) noexcept;
  void empty() noexcept;
  void doze(std::unique_lock<std::mutex>& lock, bool is_nap) noexcept;
  void wake() noexcept;
  bool is_empty() const noexcept;
  uint64_t whole_rows() noexcept;
  void deliver(uint64_t first, uint64_t last) noexcept;
  LogRow& row_at(uint64_t place) noexcept { return rows_[place & mask_]; }
  uint64_t* frames_at(uint64_t place) noexcept { return frames_ ? frames_.get() + (place & mask_) * kFrames : nullptr; }
  void call_back(const LogRow& row, const uint64_t* frames) noexcept;
  bool is_in_other_process() const noexcept;
  bool has_room(uint64_t taken) noexcept;
  void drop() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }

  const uint64_t capacity_;
  const uint64_t mask_;
  const std::string resource_name_;
  const std::unique_ptr<LogRow[], void (*)(void*)> rows_;  // zeroed, without touching them
  const std::unique_ptr<uint64_t[]> frames_;               // kFrames for each row, or none
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
  std::atomic<uint64_t> seen_read_{0};         // what a caller last saw of `read_`, which another core writes
  alignas(64) std::atomic<uint64_t> read_{0};  // rows below are delivered
};

// Drains whose rows go to a file: they are settled when the process exits.
void remember_at_exit(RowDrain* drain);
void forget_at_exit(RowDrain* drain) noexcept;

}  // namespace kina
