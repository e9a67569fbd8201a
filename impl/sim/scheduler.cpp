// Queues, workers and the choice of what runs next.
#include "impl/sim/scheduler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

namespace kina::sim {
namespace {

// Set in a forked child: its copies of queues and mutexes belong to threads that do not exist there.
std::atomic<bool> is_forked{false};

// The thread that waits is worth more than order: how long a worker holds work back when nobody asks for it.
constexpr std::chrono::milliseconds kPatience{2};

[[noreturn]] void refuse_lost(int32_t device) {
  refuse<Message::device_lost>("KINA-DEVICE-21", {}, device_of(kDLExtDev, device));
}

// What a piece of work does to some of its bytes.
Deed part_of(Deed deed, bool is_by_caller) noexcept {
  deed.is_by_caller = is_by_caller;
  return deed;
}

}  // namespace

Scheduler& Scheduler::instance() {
  static Scheduler& made = *new Scheduler(configuration());
  return made;
}

Scheduler::Scheduler(const Configuration& wanted) : configuration_(wanted), random_(wanted.seed) {
  pthread_atfork(nullptr, nullptr, [] { is_forked.store(true); });
  for (int32_t device = 0; device < wanted.devices; ++device)
    devices_.push_back(std::make_unique<DeviceState>(wanted.memory_bytes));
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (const auto& state : devices_)
    if (state->worker.joinable()) state->worker.join();
}

bool Scheduler::is_lost(int32_t device) const noexcept {
  return is_forked.load() || devices_[static_cast<size_t>(device)]->is_lost.load();
}

void Scheduler::require_alive(int32_t device) const {
  if (is_lost(device)) refuse_lost(device);
}

bool Scheduler::strike(Fault fault) {
  const auto wanted = configuration_.faults.find(fault);
  return wanted != configuration_.faults.end() && ++struck_[fault] == wanted->second;
}

// What was queued never runs; whoever waits for it is let go.
void Scheduler::lose(int32_t device) {
  DeviceState& state = *devices_[static_cast<size_t>(device)];
  state.is_lost.store(true);
  for (Queue* queue : state.queues) {
    for (Item& item : queue->items)
      if (item.record) item.record->is_done.store(true);
    if (!queue->is_running) queue->items.clear();
  }
  changed_.notify_all();
}

Queue* Scheduler::make_queue(int32_t device, QueueOwner owner) {
  require_alive(device);
  const std::lock_guard lock(mutex_);
  DeviceState& state = *devices_[static_cast<size_t>(device)];
  const auto empty = std::find_if(state.ended.begin(), state.ended.end(),
                                  [](const Queue* queue) { return queue->items.empty() && !queue->is_running; });
  if (empty != state.ended.end()) {
    Queue* queue = *empty;
    state.ended.erase(empty);
    start_again(*queue, owner);
    return queue;
  }
  start_worker(device);
  if (state.queues.size() == state.queues.capacity()) state.queues.reserve(2 * state.queues.size() + 8);
  state.ended.reserve(state.queues.capacity());
  queues_.push_back(std::make_unique<Queue>());
  Queue* queue = queues_.back().get();
  queue->index = new_index();
  queue->device = device;
  queue->owner = owner;
  state.queues.push_back(queue);
  return queue;
}

// With its place in what the host has seen, so that whoever looks later takes no memory.
uint32_t Scheduler::new_index() {
  host_.set(queue_count_ + 1, 0);
  return ++queue_count_;
}

// At the same address, but ordered after the former one only as far as the host has seen that this was over.
void Scheduler::start_again(Queue& queue, QueueOwner owner) {
  if (host_.of(queue.index) < queue.enqueued) {
    queue.index = new_index();
    queue.enqueued = 0;
  }
  queue.clock = {};
  queue.owner = owner;
  queue.has_ended = false;
}

void Scheduler::end_queue(Queue& queue) noexcept {
  const std::lock_guard lock(mutex_);
  queue.has_ended = true;
  devices_[static_cast<size_t>(queue.device)]->ended.push_back(&queue);
}

void Scheduler::end_callers_queue(Queue& queue) {
  const std::lock_guard lock(mutex_);
  const bool may_end = queue.owner == QueueOwner::caller && !queue.has_ended && queue.capturing == 0;
  require<Message::driver_failed>(may_end, "KINA-DEVICE-23", {}, "ending a stream");
  queue.has_ended = true;
  devices_[static_cast<size_t>(queue.device)]->ended.push_back(&queue);
}

bool Scheduler::is_queue(int32_t device, const void* address) const noexcept {
  if (is_forked.load()) return true;  // nobody can tell, and the device is lost
  const std::lock_guard lock(mutex_);
  const std::vector<Queue*>& queues = devices_[static_cast<size_t>(device)]->queues;
  return std::any_of(queues.begin(), queues.end(),
                     [&](const Queue* queue) { return &queue->native == address && !queue->has_ended; });
}

// Whoever swallows this refusal is found out at the next work.
void Scheduler::require_there(const Queue& queue) {
  is_ended_queue_used_ = is_ended_queue_used_ || queue.has_ended;
  require<Message::driver_failed>(!queue.has_ended, "KINA-DEVICE-23", {}, "finding a stream that has ended");
}

void Scheduler::start_worker(int32_t device) {
  DeviceState& state = *devices_[static_cast<size_t>(device)];
  if (state.worker.joinable()) return;
  try {
    state.worker = std::thread([this, device] { serve(device); });
  } catch (const std::system_error&) {
    refuse<Message::out_of_threads>("KINA-STATUS-44", {});
  }
}

Queue* Scheduler::choose(DeviceState& state) {
  const auto is_ready = [](const Queue* queue) {
    if (queue->is_running || queue->items.empty()) return false;
    const Item& head = queue->items.front();
    return !head.await || head.await->is_done.load();
  };
  const auto ready = std::count_if(state.queues.begin(), state.queues.end(), is_ready);
  if (ready == 0) return nullptr;
  auto skipped = std::uniform_int_distribution<ptrdiff_t>(0, ready - 1)(random_);
  return *std::find_if(state.queues.begin(), state.queues.end(),
                       [&](const Queue* queue) { return is_ready(queue) && skipped-- == 0; });
}

// One worker of a device: takes any queue whose head may run. While nobody waits for results it often holds them back.
void Scheduler::serve(int32_t device) {
  DeviceState& state = *devices_[static_cast<size_t>(device)];
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (demand_ == 0 && (random_() & 1) != 0)
      changed_.wait_for(lock, kPatience, [this] { return demand_ != 0 || is_stopping_; });
    if (is_stopping_) return;
    Queue* queue = choose(state);
    if (queue == nullptr) {
      changed_.wait(lock);
      continue;
    }
    Item item = std::move(queue->items.front());
    queue->is_running = true;
    if (item.work && !state.is_lost.load()) {
      lock.unlock();
      item.work();
      item.work = nullptr;  // with what it keeps
      lock.lock();
    }
    if (item.record) item.record->is_done.store(true);
    queue->is_running = false;
    queue->items.pop_front();
    if (state.is_lost.load()) lose(device);
    changed_.notify_all();
  }
}

History* Scheduler::history_of(const Hull& hull) noexcept {
  for (const auto& state : devices_)
    if (state->arena.contains(reinterpret_cast<const void*>(hull.first))) return &state->history;
  return nullptr;
}

void Scheduler::submit(Queue& queue, Item item) {
  queue.items.push_back(std::move(item));
  changed_.notify_all();
}

// Throws with nothing changed where an edge is missing or memory is out; after it `note` takes no memory.
void Scheduler::check(const std::vector<Piece>& pieces, const Queue& queue, Clock clock) {
  require<Message::missing_edge>(violation_.empty(), "KINA-STREAM-35", {}, violation_.c_str());
  require<Message::stream_gone>(!is_ended_queue_used_, "KINA-STREAM-52", {});
  Deed deed{queue.index, queue.enqueued, nullptr};
  for (const Piece& piece : pieces) {
    deed.name = piece.name;
    clock.set(deed.stream, ++deed.count);
    for (const auto& [hull, access, is_by_caller] : piece.touched) {
      History* history = history_of(hull);
      if (history == nullptr) continue;
      history->prepare(hull.first, hull.last);
      const auto missing = history->missing(hull.first, hull.last, access, part_of(deed, is_by_caller), clock);
      if (missing) refuse<Message::missing_edge>("KINA-STREAM-34", {}, describe(*missing).c_str());
    }
  }
  // An access may have cut what an earlier one had prepared.
  for (const Piece& piece : pieces)
    for (const Touch& touch : piece.touched)
      if (History* history = history_of(touch.hull)) history->prepare(touch.hull.first, touch.hull.last);
}

void Scheduler::note(const Touched& touched, const Deed& deed) noexcept {
  for (const auto& [hull, access, is_by_caller] : touched)
    if (History* history = history_of(hull)) history->note(hull.first, hull.last, access, part_of(deed, is_by_caller));
}

void Scheduler::meet_faults(const Queue& queue, const char* name, Fault fault) {
  if (strike(Fault::lost)) {
    lose(queue.device);
    refuse_lost(queue.device);
  }
  if (!strike(fault)) return;
  require<Message::driver_failed>(fault != Fault::copy, "KINA-DEVICE-23", {}, "copying");
  refuse<Message::launch_failed>("KINA-DEVICE-23", {}, name);
}

void Scheduler::enqueue(Queue& queue, std::vector<Piece> pieces, Fault fault) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  if (queue.capturing != 0) {
    std::vector<Piece>& nodes = queue.capture.nodes;
    nodes.insert(nodes.end(), std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
    return;
  }
  Clock clock = queue.clock;
  clock.join(host_);
  clock.set(queue.index, queue.enqueued);
  std::list<Item> items;
  for (Piece& piece : pieces) items.push_back({std::move(piece.work), nullptr, nullptr});
  check(pieces, queue, clock);
  queue.clock = std::move(clock);
  for (const Piece& piece : pieces) {
    meet_faults(queue, piece.name, fault);
    queue.items.splice(queue.items.end(), items, items.begin());  // under way: it takes no memory from here on
    changed_.notify_all();
    note(piece.touched, {queue.index, ++queue.enqueued, piece.name});
    queue.clock.set(queue.index, queue.enqueued);
  }
}

std::shared_ptr<Event> Scheduler::record(Queue& queue) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  require<Message::stream_captures>(queue.capturing == 0, "KINA-STREAM-22", {});
  require<Message::driver_failed>(!strike(Fault::event), "KINA-DEVICE-23", {}, "recording an event");
  auto event = std::make_shared<Event>();
  event->clock = queue.clock;
  event->clock.join(host_);
  if (queue.items.empty()) {  // of an idle stream: it has happened
    event->is_done.store(true);
  } else {
    submit(queue, {nullptr, event, nullptr});
  }
  ++counts_.event_records;
  return event;
}

void Scheduler::wait(Queue& queue, const std::shared_ptr<Event>& event) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  require<Message::stream_captures>(queue.capturing == 0, "KINA-STREAM-22", {});
  require<Message::driver_failed>(!strike(Fault::wait), "KINA-DEVICE-23", {}, "waiting for an event");
  Clock clock = queue.clock;
  clock.join(event->clock);
  submit(queue, {nullptr, nullptr, event});
  queue.clock = std::move(clock);
  ++counts_.stream_waits;
}

void Scheduler::synchronize(const std::shared_ptr<Event>& event, int32_t device) {
  require_alive(device);
  std::unique_lock lock(mutex_);
  ++counts_.host_waits;
  ++demand_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return event->is_done.load(); });
  --demand_;
  if (is_lost(device)) refuse_lost(device);
  host_.join(event->clock);
}

void Scheduler::drain() {
  if (is_forked.load()) return;
  std::unique_lock lock(mutex_);
  ++demand_;
  changed_.notify_all();
  changed_.wait(lock, [this] {
    return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue->items.empty(); });
  });
  --demand_;
}

bool Scheduler::is_done(const Event& event, int32_t device) {
  require_alive(device);
  const std::lock_guard lock(mutex_);
  if (!event.is_done.load()) return false;
  host_.join(event.clock);
  return true;
}

bool Scheduler::is_idle(const Queue& queue) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  require<Message::stream_captures>(queue.capturing == 0, "KINA-STREAM-22", {});
  if (!queue.items.empty()) return false;
  host_.join(queue.clock);
  return true;
}

KinaSimCounts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

uint64_t Scheduler::capture_on(const Queue& queue) {
  if (is_forked.load()) return 0;
  const std::lock_guard lock(mutex_);
  require_there(queue);
  return queue.capturing;
}

void Scheduler::begin_capture(Queue& queue) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  require<Message::stream_captures>(queue.capturing == 0, "KINA-STREAM-22", {});
  queue.capturing = ++captures_;
  queue.capture = Graph{};
}

Graph Scheduler::end_capture(Queue& queue) {
  require_alive(queue.device);
  const std::lock_guard lock(mutex_);
  require_there(queue);
  require<Message::driver_failed>(queue.capturing != 0, "KINA-DEVICE-23", {}, "ending a capture");
  queue.capturing = 0;
  return std::move(queue.capture);
}

void Scheduler::keep_with_graph(Queue& queue, std::shared_ptr<void> used) {
  const std::lock_guard lock(mutex_);
  require_there(queue);
  std::shared_ptr<Graph::Kept>& kept = queue.capture.kept;
  if (!kept) kept = std::make_shared<Graph::Kept>();
  kept->push_back(std::move(used));
}

void Scheduler::replay(Queue& queue, const Graph& graph) {
  require<Message::stream_captures>(capture_on(queue) == 0, "KINA-STREAM-22", {});
  std::vector<Piece> pieces = graph.nodes;
  if (graph.kept)
    for (Piece& piece : pieces) piece.work = [work = std::move(piece.work), kept = graph.kept] { work(); };
  enqueue(queue, std::move(pieces), Fault::launch);
}

void* Scheduler::allocate(int32_t device, uint64_t bytes, uint64_t alignment) noexcept {
  if (is_lost(device)) return nullptr;
  const std::lock_guard lock(mutex_);
  try {
    if (strike(Fault::allocate)) return nullptr;
  } catch (...) {  // no memory to count it
    return nullptr;
  }
  return devices_[static_cast<size_t>(device)]->arena.allocate(bytes, alignment);
}

void Scheduler::deallocate(int32_t device, void* data, uint64_t bytes) noexcept {
  if (is_lost(device)) return;
  const std::lock_guard lock(mutex_);
  DeviceState& state = *devices_[static_cast<size_t>(device)];
  const auto first = reinterpret_cast<uint64_t>(data);
  // A release that outruns its users is not taken: the bytes stay out of use, and the next launch that looks reports
  // it. Neither is one that there is no memory to check.
  try {
    state.history.prepare(first, first + bytes);
    const Deed release{0, 0, "the release of the memory"};
    if (const auto missing = state.history.missing(first, first + bytes, Access::write, release, host_)) {
      violation_ = "a release";  // too short to take memory, which the full account does
      violation_ = describe(*missing);
      return;
    }
  } catch (...) {
    return;
  }
  state.history.forget(first, first + bytes);
  state.arena.deallocate(data, bytes);
}

std::byte* Scheduler::inside(std::byte* address) const noexcept {
  for (const auto& state : devices_)
    if (state->arena.contains(address)) return state->arena.inside(address);
  return address;
}

uint64_t Scheduler::free_bytes(int32_t device) const {
  if (is_lost(device)) return 0;
  const std::lock_guard lock(mutex_);
  return devices_[static_cast<size_t>(device)]->arena.free_bytes();
}

bool Scheduler::can_access(int32_t device, int32_t peer) const noexcept {
  return !configuration_.denied.contains({device, peer});
}

}  // namespace kina::sim
