// The adversary: queues of work on simulated streams, run by real threads in any order that events allow.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "impl/core/storage.h"
#include "impl/sim/arena.h"
#include "impl/sim/configuration.h"
#include "impl/sim/history.h"
#include "kina_simulated.h"

namespace kina::sim {

// A moment of a stream that others can wait for.
struct Event {
  std::atomic<bool> is_done{false};
  Clock clock;
};

// Something on a queue: work, the completion of an event, or the wait for one.
struct Item {
  std::function<void()> work;
  std::shared_ptr<Event> record;
  std::shared_ptr<Event> await;
};

// Bytes that a piece of work reads or writes.
struct Touch {
  Hull hull;
  Access access;
  bool is_by_caller = false;  // see Work
};

// Work with what is needed to check it, at every replay anew where it is recorded.
struct Piece {
  const char* name;
  std::function<void()> work;
  std::vector<Touch> touched;
};

struct Graph {
  using Kept = std::vector<std::shared_ptr<void>>;
  std::vector<Piece> nodes;
  std::shared_ptr<Kept> kept;  // what the nodes use, shared with what runs of them; NULL: nothing
};

enum class QueueOwner : uint8_t { library, caller };

struct Queue {
  KinaSimStream native;  // the first member: its address is the stream's native handle
  uint32_t index = 0;
  int32_t device = 0;
  std::list<Item> items;
  uint64_t enqueued = 0;  // pieces of work so far
  Clock clock;            // what the next piece of work is ordered after
  bool is_running = false;
  uint64_t capturing = 0;  // the number of the capture; 0: none
  QueueOwner owner = QueueOwner::library;
  bool has_ended = false;
  Graph capture;
};

class Scheduler {
 public:
  using Touched = std::vector<Touch>;

  // The one of the process, made from the environment and never torn down.
  static Scheduler& instance();

  explicit Scheduler(const Configuration& wanted);
  // Lets the workers go; what is still queued never runs.
  ~Scheduler();

  Queue* make_queue(int32_t device, QueueOwner owner = QueueOwner::library);
  // Nobody uses it any more: once it is empty, `make_queue` may give it out again.
  void end_queue(Queue& queue) noexcept;
  // The same for one that the caller made, and did not end before.
  void end_callers_queue(Queue& queue);
  // Whether a queue of the device that has not ended stands at that address.
  bool is_queue(int32_t device, const void* address) const noexcept;

  // Enqueues `pieces`, one after the other. Throws bad_alloc, and INTERNAL where an edge is missing, with nothing
  // enqueued, and what a fault asks for, with all before the piece that it strikes under way.
  void enqueue(Queue& queue, std::vector<Piece> pieces, Fault fault);
  void enqueue(Queue& queue, const char* name, std::function<void()> work, Touched touched, Fault fault) {
    enqueue(queue, {{name, std::move(work), std::move(touched)}}, fault);
  }
  std::shared_ptr<Event> record(Queue& queue);
  void wait(Queue& queue, const std::shared_ptr<Event>& event);
  // Blocks the calling thread until the event is done, and orders all later work after it.
  void synchronize(const std::shared_ptr<Event>& event, int32_t device);
  // Blocks until nothing is queued any more. Orders nothing.
  void drain();
  bool is_done(const Event& event, int32_t device);
  // The same for everything on the queue.
  bool is_idle(const Queue& queue);
  uint64_t capture_on(const Queue& queue);
  KinaSimCounts counts() const;

  void begin_capture(Queue& queue);
  Graph end_capture(Queue& queue);
  // Until the graph that the queue records is gone and has run.
  void keep_with_graph(Queue& queue, std::shared_ptr<void> used);
  void replay(Queue& queue, const Graph& graph);

  void* allocate(int32_t device, uint64_t bytes, uint64_t alignment) noexcept;
  void deallocate(int32_t device, void* data, uint64_t bytes) noexcept;
  // The address of a byte as device code reaches it; addresses outside every arena stay as they are.
  std::byte* inside(std::byte* address) const noexcept;

  bool is_lost(int32_t device) const noexcept;
  void require_alive(int32_t device) const;
  uint64_t total_bytes(int32_t device) const noexcept {
    return devices_[static_cast<size_t>(device)]->arena.total_bytes();
  }
  uint64_t free_bytes(int32_t device) const;
  bool can_access(int32_t device, int32_t peer) const noexcept;

 private:
  struct DeviceState {
    explicit DeviceState(uint64_t bytes) : arena(bytes) {}
    Arena arena;
    History history;
    std::vector<Queue*> queues;
    std::vector<Queue*> ended;  // of these, to be given out again; room for all
    std::thread worker;
    // Callers ask all the time, and what lies around it is written all the time.
    alignas(128) std::atomic<bool> is_lost{false};
  };

  uint32_t new_index();
  void start_again(Queue& queue, QueueOwner owner);
  void require_there(const Queue& queue);
  bool strike(Fault fault);
  void meet_faults(const Queue& queue, const char* name, Fault fault);
  void lose(int32_t device);
  void start_worker(int32_t device);
  void serve(int32_t device);
  Queue* choose(DeviceState& state);
  History* history_of(const Hull& hull) noexcept;
  void check(const std::vector<Piece>& pieces, const Queue& queue, Clock clock);
  void note(const Touched& touched, const Deed& deed) noexcept;
  void submit(Queue& queue, Item item);

  const Configuration configuration_;
  std::vector<std::unique_ptr<DeviceState>> devices_;  // as many from the start on
  alignas(128) mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::map<Fault, uint64_t> struck_;
  std::mt19937_64 random_;
  Clock host_;             // what host threads have waited for
  std::string violation_;  // found where nothing could be thrown
  bool is_ended_queue_used_ = false;
  uint32_t queue_count_ = 0;
  bool is_stopping_ = false;
  uint64_t demand_ = 0;    // threads that wait
  uint64_t captures_ = 0;  // begun so far
  KinaSimCounts counts_{};
};

}  // namespace kina::sim
