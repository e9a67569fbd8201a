// Filling and emptying the ring. Rows are delivered under no lock.
#include "impl/memory/row_drain.h"

#include <sched.h>
#include <signal.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "impl/core/error.h"
#include "impl/core/handle.h"
#include "impl/core/lasting.h"
#include "impl/core/lease.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

constexpr uint64_t kBatch = 256;
constexpr uint64_t kMostRows = uint64_t{1} << 31;  // more than a machine holds: places are compared in 32 bits
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

// Threads that wait for the thread of a drain to end.
struct Joins {
  struct Join {
    pthread_t waiting;
    pthread_t awaited;
    Join* next;
  };
  Mutex mutex;
  Join* first = nullptr;  // on the stacks of threads of this process
  uint64_t at_forks = forks();

  void renew() noexcept {
    if (std::exchange(at_forks, forks()) != forks()) first = nullptr;
  }
  // Whether `awaited` cannot end before the caller goes on: it is the caller itself, running a callback, or it waits
  // for the caller in a callback of its own.
  bool is_circle(pthread_t awaited) const noexcept {
    while (pthread_equal(awaited, pthread_self()) == 0) {
      const Join* join = first;
      while (join != nullptr && pthread_equal(join->waiting, awaited) == 0) join = join->next;
      if (join == nullptr) return false;
      awaited = join->awaited;
    }
    return true;
  }
  void leave(const Join& join) noexcept {
    const std::lock_guard lock(mutex);
    for (Join** at = &first; *at != nullptr; at = &(*at)->next)
      if (*at == &join) {
        *at = join.next;
        return;
      }
  }
};
Joins& joins() noexcept {
  static Lasting<Joins> all;
  return *all;
}

// Where that would never end the thread goes on alone, and ends when its callback returns.
void join_or_leave(pthread_t thread) noexcept {
  Joins& all = joins();
  Joins::Join join{pthread_self(), thread, nullptr};
  {
    const std::lock_guard lock(all.mutex);
    all.renew();
    if (all.is_circle(thread)) {
      pthread_detach(thread);
      return;
    }
    join.next = std::exchange(all.first, &join);
  }
  pthread_join(thread, nullptr);
  all.leave(join);
}

struct Frames {
  std::array<uint64_t, kFrames> addresses;
  uint32_t count = 0;
  uint32_t skipped = 0;
};

// The frames of the library's own functions that each row passes are left out.
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

// Places are numbers of 32 bits, which wrap around: a power of two of them does not mind.
uint64_t room_for(uint64_t capacity) {
  require<Message::out_of_host_memory>(capacity <= kMostRows, "KINA-STATUS-44", {});
  return std::bit_ceil(capacity);
}

// Large ones are pages that are zero until they are written.
std::unique_ptr<void, void (*)(void*)> new_zeros(uint64_t count, uint64_t bytes_each) {
  void* zeros = std::calloc(count, bytes_each);
  require<Message::out_of_host_memory>(zeros != nullptr, "KINA-STATUS-44", {});
  return {zeros, &std::free};
}

// The first address from there on that is `alignment`'s.
void* aligned(void* from, uint64_t alignment) noexcept {
  const auto address = reinterpret_cast<uint64_t>(from);
  return static_cast<std::byte*>(from) + ((~address + 1) & (alignment - 1));
}

constexpr uint64_t kOneDropped = uint64_t{1} << 32;

}  // namespace

RowDrain::RowDrain(uint64_t capacity, bool has_frames, const char* resource_name)
    : capacity_(capacity),
      mask_(room_for(capacity) - 1),
      resource_name_(resource_name),
      memory_(new_zeros(mask_ + 2, sizeof(Row))),
      rows_(static_cast<Row*>(aligned(memory_.get(), alignof(Row)))),
      frames_(new_array<uint64_t>(has_frames ? (mask_ + 1) * kFrames : 0)),
      forks_(forks()),
      // Where each fence is the thread's own it would cost more than the locked instruction.
      resident_(fences_are_remote.load(std::memory_order_relaxed) || kIsThreadSanitized ? kNoThread : kAllThreads) {}

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
  join_or_leave(thread_);
}

// The thread that empties the ring writes `read_` again and again, so callers look at it only where what they saw last
// says that there is no room.
bool RowDrain::has_room(uint64_t taken) noexcept {
  if (has_room(taken, seen_read_.load(std::memory_order_acquire))) return true;
  const uint64_t read = read_.load(std::memory_order_acquire);
  seen_read_.store(read, std::memory_order_release);
  return has_room(taken, read);
}

bool RowDrain::move_in(uint64_t thread) noexcept {
  uint64_t resident = kNoThread;
  if (resident_.compare_exchange_strong(resident, thread, std::memory_order_acq_rel)) return true;
  const std::lock_guard lock(mutex_);
  if (resident_.load(std::memory_order_relaxed) == kAllThreads) return false;
  resident_.store(kLeaving, std::memory_order_relaxed);
  fence_all_threads_surely();
  while (is_inside_.load(std::memory_order_acquire)) sched_yield();
  resident_.store(kAllThreads, std::memory_order_release);
  return false;
}

bool RowDrain::search_place(uint64_t& place) noexcept {
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  bool is_free = false;
  do {
    is_free = has_room(taken);
  } while (!taken_.compare_exchange_weak(taken, is_free ? after(taken) : taken + kOneDropped, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  place = taken;
  return is_free || drop();
}

void RowDrain::add_frames(Row& row, uint64_t place) noexcept {
  Frames frames;
  _Unwind_Backtrace(&add_frame, &frames);
  row.frame_count = static_cast<uint8_t>(frames.count);
  std::copy_n(frames.addresses.begin(), frames.count, frames_at(place));
}

void RowDrain::wake() noexcept {
  const std::lock_guard lock(mutex_);
  wake_at_.store(kNever, std::memory_order_relaxed);
  filled_.notify_one();
}

void* RowDrain::run(void* drain) noexcept {
  const auto self = Ref<RowDrain>::adopt(static_cast<RowDrain*>(drain));
  self->empty();
  return nullptr;
}

uint32_t RowDrain::waiting_rows() const noexcept {
  return static_cast<uint32_t>(taken_.load(std::memory_order_acquire)) -
         static_cast<uint32_t>(read_.load(std::memory_order_relaxed));
}

// Of those that come next, as many as are delivered at once.
uint64_t RowDrain::whole_rows() noexcept {
  const uint64_t first = read_.load(std::memory_order_relaxed);
  const uint64_t most = target_.callback != nullptr ? 1 : std::min(kBatch, capacity_);
  uint64_t count = 0;
  while (count < most &&
         __atomic_load_n(&row_at(first + count).entered, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(first + count + 1))
    ++count;
  return count;
}

// After the last row it naps a while before it sleeps: a caller that allocates again and again must not wake it each
// time.
void RowDrain::empty() noexcept {
  int naps = 0;
  while (true) {
    if (const uint64_t count = whole_rows(); count != 0) {
      const uint64_t first = read_.load(std::memory_order_relaxed);
      deliver(first, first + count);
      read_.store(first + count, std::memory_order_release);
      naps = 0;
      continue;
    }
    std::unique_lock lock(mutex_);
    const bool is_row_on_its_way = waiting_rows() != 0;
    if (is_row_on_its_way && is_stopping_) {
      lock.unlock();
      sched_yield();
      continue;
    }
    if (!is_row_on_its_way) emptied_.notify_all();
    if (is_stopping_) return;
    doze(lock, is_row_on_its_way || naps++ < kNapsBeforeSleep);
  }
}

// Until rows come, or half a ring of them, or a moment has passed: on the heels of a caller each would take the other's
// line of the cache away for every row. Whoever enters a row after the fence sees that it has to wake.
void RowDrain::doze(std::unique_lock<std::mutex>& lock, bool is_nap) noexcept {
  const uint64_t awaited_rows = is_nap ? capacity_ / 2 + 1 : 1;
  wake_at_.store(read_.load(std::memory_order_relaxed) + awaited_rows, std::memory_order_relaxed);
  if (!fence_all_threads()) is_nap = true;
  if (waiting_rows() >= awaited_rows) {  // a caller is about to finish the first of many
    sched_yield();
  } else if (is_nap) {
    filled_.wait_for(lock, kNap);
  } else {
    filled_.wait(lock);
  }
  wake_at_.store(kNever, std::memory_order_relaxed);
}

void RowDrain::deliver(uint64_t first, uint64_t last) noexcept {
  for (uint64_t index = first; index < last; ++index) {
    const Row& noted = row_at(index);
    order_ += static_cast<uint32_t>(noted.order - order_);
    const LogRow row = {{noted.event, noted.status, noted.data, noted.bytes, uint64_t{1} << noted.alignment_log,
                         noted.stream, noted.resource, noted.thread},
                        order_,
                        scale_.nanoseconds(noted.ticks),
                        noted.frame_count};
    if (target_.callback != nullptr) {
      call_back(row, frames_at(index));
    } else {
      target_.file->write(row, frames_at(index));
    }
  }
  if (target_.file) target_.file->flush();
}

void RowDrain::call_back(const LogRow& row, const uint64_t* frames) noexcept {
  KinaLogRow seen{};
  seen.struct_size = sizeof(seen);
  seen.event = row.request.event;
  seen.status = row.request.status;
  seen.frame_count = row.frame_count;
  seen.order = row.order;
  seen.time_nanoseconds = row.time_nanoseconds;
  seen.thread = row.request.thread;
  seen.bytes = row.request.bytes;
  seen.alignment = row.request.alignment;
  seen.data = row.request.data;
  seen.stream = handle_of<KinaStream>(row.request.stream);
  seen.resource = handle_of<KinaResource>(row.request.resource);
  seen.resource_name = resource_name_.c_str();
  seen.frames = frames;
  target_.callback(target_.context, &seen);
}

void RowDrain::settle() noexcept {
  if (is_in_other_process()) return;
  std::unique_lock lock(mutex_);
  emptied_.wait_for(lock, kPatienceAtExit, [this] { return waiting_rows() == 0; });
}

uint64_t RowDrain::bytes() const noexcept {
  return sizeof(*this) + (mask_ + 1) * (sizeof(Row) + (frames_ ? kFrames * sizeof(uint64_t) : 0));
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
