// Who used the bytes of a storage last, on which streams; and the turn of one operation on the storages that it
// touches.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "impl/core/mutex.h"
#include "impl/core/order.h"
#include "impl/core/thread_cache.h"

namespace kina {

class Storage;

// The last writer, the readers since, and uses that only the release of the bytes must follow. Idle until an
// asynchronous device touches the bytes: work of the host is over when its call returns. Until then it is one word.
class Uses {
 public:
  Uses() = default;
  Uses(const Uses&) = delete;
  Uses& operator=(const Uses&) = delete;
  ~Uses() {
    if (Record* known = record_.load(std::memory_order_relaxed)) [[unlikely]]
      end(known);
  }

  bool is_idle() const noexcept {
    const Record* known = record_.load(std::memory_order_acquire);
    return known == nullptr || !known->is_used.load(std::memory_order_acquire);
  }

  // The first time that the uses are locked may throw bad_alloc.
  void lock() { record().mutex.lock(); }
  void unlock() { known().mutex.unlock(); }

  // The functions that follow are called with the uses locked.
  // Later work on `stream` runs after what `access` has to follow.
  void order(Stream& stream, Access access, Site site = Site::here());
  // Returns when what `access` has to follow has run.
  void wait(Access access, Site site = Site::here());
  // Room for one more use, so that `note` cannot fail.
  void reserve();
  void note(Access access, const Point& point, Site site = Site::here()) noexcept;
  // The bytes are given out in the order of a stream: whoever uses them on another one comes after `point`. No use yet.
  // For who alone knows the bytes; needs no lock. Throws bad_alloc.
  void start(const Point& point, Site site = Site::here()) {
    if (!is_dropped(site, SiteKind::pin)) record().writer = point;
  }
  // A use through a PEER tensor: the owner's accesses are not ordered with it, but the bytes stay until it has run.
  void note_peer(const Point& point, Site site = Site::here()) noexcept;
  // Calls f(point) for every use, for the release of the bytes.
  template <class F>
  void each(F&& f) const {
    if (known().writer) f(*known().writer);
    for (const Point& reader : known().readers) f(reader);
    for (const Point& peer : known().peers) f(peer);
  }

  // The uses, where there are some, were noted by a process that this one was forked from.
  bool is_inherited() const noexcept { return known().forks != forks(); }

 private:
  struct Record {
    TurnMutex mutex;
    const uint64_t forks = kina::forks();
    std::atomic<bool> is_used{false};
    std::optional<Point> writer;
    std::vector<Point> readers;  // one for each stream
    std::vector<Point> peers;

    static void* operator new(size_t bytes) { return take_block(bytes); }
    static void operator delete(void* block, size_t bytes) noexcept { give_block(block, bytes); }
  };
  static void put(std::vector<Point>& points, const Point& point) noexcept;
  Record& record() {
    Record* made = record_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_record();
  }
  Record& make_record();
  static void end(Record* record) noexcept;
  Record& known() const noexcept { return *record_.load(std::memory_order_relaxed); }

  std::atomic<Record*> record_{nullptr};  // made when it is needed first
};

// The turn of one operation: from the waits before its work until that work is noted nobody else uses its storages, so
// that what one thread noted is never overtaken by another's work.
class Turn {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { leave(); }

  void add(Storage& storage, Access access, bool is_peer);
  // Takes the storages, makes `stream` wait for their earlier uses. Work enqueued now comes after them.
  void begin(Stream& stream, Site site = Site::here());
  // The work of the turn ends at `point`.
  void end(const Point& point, Site site = Site::here()) noexcept;
  // Lets others use the storages.
  void leave() noexcept;

 private:
  struct Part {
    Storage* storage;
    Access access;
    bool is_peer;
  };
  std::vector<Part> parts_;
  size_t taken_ = 0;
};

// The host is about to read or write the bytes itself: waits for devices that still use them.
void wait_for_uses(Storage& storage, Access access, Site site = Site::here());

}  // namespace kina
