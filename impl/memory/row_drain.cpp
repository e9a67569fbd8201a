// Filling and emptying the ring. Rows are delivered under no lock.
#include "impl/memory/row_drain.h"

#include <signal.h>
#include <time.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <vector>

#include "impl/core/error.h"
#include "impl/core/handle.h"
#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

constexpr uint64_t kBatch = 256;
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr int kNapsBeforeSleep = 20;
constexpr auto kPatienceAtExit = std::chrono::seconds(2);

// Drains that write to a file or to stderr, to be settled at exit.
struct FileDrains {
  Mutex mutex;
  std::vector<RowDrain*> drains;
};
FileDrains& file_drains() noexcept {
  static Lasting<FileDrains> all;
  return *all;
}

__attribute__((destructor)) void settle_at_exit() noexcept {
  // No waiting with the lock: a fork takes it.
  FileDrains& all = file_drains();
  for (size_t index = 0;; ++index) {
    Ref<RowDrain> drain;
    {
      const std::lock_guard lock(all.mutex);
      if (index >= all.drains.size()) return;
      drain = Ref<RowDrain>::try_share(all.drains[index]);
    }
    if (drain) drain->settle();
  }
}

uint64_t now_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

struct Frames {
  std::array<uint64_t, kFrames> addresses;
  uint32_t count = 0;
  uint32_t skipped = 0;
};

// The frames of this file's own functions are left out.
constexpr uint32_t kOwnFrames = 2;

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* argument) {
  auto& frames = *static_cast<Frames*>(argument);
  if (frames.skipped < kOwnFrames) {
    ++frames.skipped;
    return _URC_NO_REASON;
  }
  if (frames.count == kFrames) return _URC_END_OF_STACK;
  frames.addresses[frames.count++] = _Unwind_GetIP(context);
  return _URC_NO_REASON;
}

// Room for `count` values, none for 0. The caller chose the number, so that a refusal is an answer and nothing to
// report.
template <class T>
std::unique_ptr<T[]> new_array(uint64_t count) {
  std::unique_ptr<T[]> made(count == 0 ? nullptr : new (std::nothrow) T[count]);
  require<Message::out_of_host_memory>(count == 0 || made, "KINA-STATUS-44", {});
  return made;
}

}  // namespace

RowDrain::RowDrain(uint64_t capacity, bool has_frames, const char* resource_name)
    : capacity_(capacity),
      resource_name_(resource_name),
      rows_(new_array<LogRow>(capacity)),
      frames_(new_array<uint64_t>(has_frames ? capacity * kFrames : 0)),
      forks_(forks()) {}

bool RowDrain::is_in_other_process() const noexcept { return forks() != forks_; }

// The thread takes no signals: they are the program's.
bool RowDrain::start() noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  retain();  // the thread's own reference
  const bool is_started = pthread_create(&thread_, nullptr, &RowDrain::run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!is_started) release();
  return is_started;
}

void RowDrain::stop() noexcept {
  if (is_in_other_process()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    filled_.notify_all();
  }
  if (pthread_equal(thread_, pthread_self()) != 0) {  // from its own callback: the thread ends when that returns
    pthread_detach(thread_);
    return;
  }
  pthread_join(thread_, nullptr);
}

void RowDrain::push(LogRow row) noexcept {
  Frames frames;
  if (frames_) _Unwind_Backtrace(&add_frame, &frames);
  row.frame_count = frames.count;
  row.thread = (uint64_t)pthread_self();  // an integer here, a pointer on other systems
  if (is_in_other_process()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(mutex_);
  row.order = ++order_;
  row.time_nanoseconds = now_nanoseconds();
  if (written_ - read_ == capacity_) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t slot = written_++ % capacity_;
  rows_[slot] = row;
  if (frames_) std::copy_n(frames.addresses.begin(), frames.count, frames_.get() + slot * kFrames);
  if (written_ - read_ == wake_at_) filled_.notify_one();
}

void* RowDrain::run(void* drain) noexcept {
  const auto self = Ref<RowDrain>::adopt(static_cast<RowDrain*>(drain));
  self->empty();
  return nullptr;
}

// After the last row it naps a while before it sleeps: a caller that allocates again and again must not wake it each
// time.
void RowDrain::empty() noexcept {
  std::unique_lock lock(mutex_);
  int naps = 0;
  while (true) {
    if (read_ != written_) {
      const uint64_t first = read_;
      const uint64_t last = target_.callback != nullptr ? first + 1 : std::min(written_, first + kBatch);
      lock.unlock();
      deliver(first, last);
      lock.lock();
      read_ = last;
      naps = 0;
    } else if (is_stopping_) {
      break;
    } else if (naps < kNapsBeforeSleep) {
      emptied_.notify_all();
      ++naps;
      wake_at_ = capacity_ / 2 + 1;
      filled_.wait_for(lock, kNap);
      wake_at_ = kNever;
    } else {
      wake_at_ = 1;
      filled_.wait(lock);
      wake_at_ = kNever;
    }
  }
  emptied_.notify_all();
}

void RowDrain::deliver(uint64_t first, uint64_t last) noexcept {
  for (uint64_t index = first; index < last; ++index) {
    const uint64_t slot = index % capacity_;
    const uint64_t* frames = frames_ ? frames_.get() + slot * kFrames : nullptr;
    if (target_.callback != nullptr) {
      call_back(rows_[slot], frames);
    } else {
      target_.file->write(rows_[slot], frames);
    }
  }
  if (target_.file) target_.file->flush();
}

void RowDrain::call_back(const LogRow& row, const uint64_t* frames) noexcept {
  KinaLogRow seen{};
  seen.struct_size = sizeof(seen);
  seen.event = row.event;
  seen.status = row.status;
  seen.frame_count = row.frame_count;
  seen.order = row.order;
  seen.time_nanoseconds = row.time_nanoseconds;
  seen.thread = row.thread;
  seen.bytes = row.bytes;
  seen.alignment = row.alignment;
  seen.data = row.data;
  seen.stream = row.stream;
  seen.resource = handle_of<KinaResource>(row.resource);
  seen.resource_name = resource_name_.c_str();
  seen.frames = frames;
  target_.callback(target_.context, &seen);
}

void RowDrain::settle() noexcept {
  if (is_in_other_process()) return;
  std::unique_lock lock(mutex_);
  emptied_.wait_for(lock, kPatienceAtExit, [this] { return read_ == written_; });
}

uint64_t RowDrain::bytes() const noexcept {
  return sizeof(*this) + capacity_ * (sizeof(LogRow) + (frames_ ? kFrames * sizeof(uint64_t) : 0));
}

void remember_at_exit(RowDrain* drain) {
  FileDrains& all = file_drains();
  const std::lock_guard lock(all.mutex);
  all.drains.push_back(drain);
}

void forget_at_exit(RowDrain* drain) noexcept {
  FileDrains& all = file_drains();
  const std::lock_guard lock(all.mutex);
  std::erase(all.drains, drain);
}

}  // namespace kina
