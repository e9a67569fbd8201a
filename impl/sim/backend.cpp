// How a row of the host becomes work of a simulated device.
#include "impl/sim/backend.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "impl/cpu/rows.h"
#include "impl/sim/scheduler.h"

namespace kina {
namespace sim {
namespace {

Queue& queue_of(NativeStream stream) { return *static_cast<Queue*>(stream); }

using EventHolder = std::shared_ptr<Event>;

struct NativeEventBox {
  EventHolder event;
  int32_t device;
};

// A row with a copy of its arguments; views are moved to where device code reaches them when it runs.
class Task {
 public:
  Task(const Work& work, size_t piece) : run_(work.run), args_(new std::byte[work.args_bytes]) {
    std::memcpy(&row_, work.row, sizeof(row_));
    work.copy(args_.get(), work.args_of(piece));
    work.each_view(
        args_.get(),
        [](void*, View& view, Access) {
          if (view.data != nullptr) view.data = Scheduler::instance().inside(view.data);
        },
        nullptr);
  }
  void operator()() const { run_(&row_, args_.get(), nullptr); }

 private:
  void (*run_)(const void*, const void*, NativeStream);
  void (*row_)();
  std::shared_ptr<std::byte[]> args_;
};

Scheduler::Touched touched_by(const Work& work, size_t piece) {
  struct Collector {
    std::span<const Hull> by_caller;
    Scheduler::Touched touched;
  } collector{work.by_caller, {}};
  const std::unique_ptr<std::byte[]> args(new std::byte[work.args_bytes]);
  work.copy(args.get(), work.args_of(piece));
  work.each_view(
      args.get(),
      [](void* context, View& view, Access access) {
        if (view.data == nullptr || view.geometry.is_empty()) return;
        auto& [by_caller, touched] = *static_cast<Collector*>(context);
        const Hull hull = hull_of(view);
        const bool is_by_caller = std::any_of(by_caller.begin(), by_caller.end(), [&](const Hull& other) {
          return other.first <= hull.first && hull.last <= other.last;
        });
        touched.push_back({hull, access, is_by_caller});
      },
      &collector);
  return std::move(collector.touched);
}

KinaSimStream* native_make_queue(int32_t device, QueueOwner owner);

template <class F>
int32_t guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const Error& error) {
    return error.status;
  } catch (...) {
    return KINA_ERROR_OUT_OF_MEMORY;
  }
}

void native_copy(Queue& queue, void* to, const void* from, uint64_t bytes) {
  Scheduler& scheduler = Scheduler::instance();
  const auto hull_at = [bytes](const void* data) {
    const auto first = reinterpret_cast<uint64_t>(data);
    return Hull{first, first + bytes};
  };
  // The driver's parameter is no more const than its memory is.
  std::byte* target = scheduler.inside(static_cast<std::byte*>(to));
  const std::byte* source = scheduler.inside(static_cast<std::byte*>(const_cast<void*>(from)));
  scheduler.enqueue(
      queue, "a foreign copy", [=] { std::memmove(target, source, bytes); },
      {{hull_at(from), Access::read}, {hull_at(to), Access::write}}, Fault::copy);
}

constexpr KinaSimStream kFunctions = {
    [](KinaSimStream* like, KinaSimStream** out) -> int32_t {
      return guarded([&] { *out = native_make_queue(queue_of(like).device, QueueOwner::caller); });
    },
    [](KinaSimStream* stream) -> int32_t {
      return guarded([&] { Scheduler::instance().begin_capture(queue_of(stream)); });
    },
    [](KinaSimStream* stream, void** graph) -> int32_t {
      return guarded([&] { *graph = new Graph(Scheduler::instance().end_capture(queue_of(stream))); });
    },
    [](KinaSimStream* stream, void* graph) -> int32_t {
      if (graph == nullptr) return KINA_ERROR_INVALID_ARGUMENT;
      return guarded([&] { Scheduler::instance().replay(queue_of(stream), *static_cast<Graph*>(graph)); });
    },
    [](void* graph) -> int32_t {
      delete static_cast<Graph*>(graph);
      return 0;
    },
    [](KinaSimStream* stream, void* to, const void* from, uint64_t bytes) -> int32_t {
      return guarded([&] { native_copy(queue_of(stream), to, from, bytes); });
    },
    [](KinaSimStream*, KinaSimCounts* out) -> int32_t {
      return guarded([&] { *out = Scheduler::instance().counts(); });
    },
    [](KinaSimStream* stream) -> int32_t {
      return guarded([&] { Scheduler::instance().end_callers_queue(queue_of(stream)); });
    },
};

KinaSimStream* native_make_queue(int32_t device, QueueOwner owner) {
  Queue* queue = Scheduler::instance().make_queue(device, owner);
  queue->native = kFunctions;
  return &queue->native;
}

class SimulatedBackend final : public cpu::Arithmetic {
 public:
  int32_t device_type() const noexcept override { return kDLExtDev; }
  int32_t device_count() const noexcept override { return configuration().devices; }
  const char* why_absent() const noexcept override { return configuration().why_absent.c_str(); }
  bool is_asynchronous() const noexcept override { return true; }
  bool is_lost(int32_t device_id) const noexcept override { return Scheduler::instance().is_lost(device_id); }
  bool can_access(int32_t device_id, int32_t peer_id) const noexcept override {
    return Scheduler::instance().can_access(device_id, peer_id);
  }

  void describe(KinaDeviceInfo& info, int32_t device_id) const override {
    static const std::vector<std::string>& names = *new std::vector<std::string>([] {
      std::vector<std::string> made;
      made.reserve(static_cast<size_t>(configuration().devices));
      for (int32_t id = 0; id < configuration().devices; ++id) made.push_back("simulated device " + std::to_string(id));
      return made;
    }());
    info.name = names[static_cast<size_t>(device_id)].c_str();
    info.total_bytes = Scheduler::instance().total_bytes(device_id);
    info.free_bytes = Scheduler::instance().free_bytes(device_id);
    info.multiprocessor_count = 1;
    info.numa_node = -1;
    info.is_lost = is_lost(device_id) ? 1 : 0;
  }

  void* allocate(int32_t device_id, uint64_t bytes, uint64_t alignment) noexcept override {
    return Scheduler::instance().allocate(device_id, bytes, alignment);
  }
  void deallocate(int32_t device_id, void* data, uint64_t bytes, uint64_t) noexcept override {
    Scheduler::instance().deallocate(device_id, data, bytes);
  }

  NativeStream make_stream(int32_t device_id) override { return native_make_queue(device_id, QueueOwner::library); }
  bool is_stream(int32_t device_id, NativeStream stream) const noexcept override {
    return Scheduler::instance().is_queue(device_id, stream);
  }
  void end_stream(NativeStream stream) noexcept override { Scheduler::instance().end_queue(queue_of(stream)); }
  NativeEvent record(NativeStream stream) override {
    auto box = std::make_unique<NativeEventBox>();
    box->device = queue_of(stream).device;
    box->event = Scheduler::instance().record(queue_of(stream));
    return box.release();
  }
  void wait(NativeStream stream, NativeEvent event) override {
    Scheduler::instance().wait(queue_of(stream), static_cast<NativeEventBox*>(event)->event);
  }
  void synchronize(NativeEvent event) override {
    const auto* box = static_cast<NativeEventBox*>(event);
    Scheduler::instance().synchronize(box->event, box->device);
  }
  bool is_done(NativeEvent event) override {
    const auto* box = static_cast<NativeEventBox*>(event);
    return Scheduler::instance().is_done(*box->event, box->device);
  }
  bool is_idle(NativeStream stream) override { return Scheduler::instance().is_idle(queue_of(stream)); }
  void release(NativeEvent event) noexcept override { delete static_cast<NativeEventBox*>(event); }
  uint64_t capture(NativeStream stream) override { return Scheduler::instance().capture_on(queue_of(stream)); }
  void keep_with_graph(NativeStream stream, void* object, void (*end)(void*) noexcept) override {
    Scheduler::instance().keep_with_graph(queue_of(stream),
                                          std::shared_ptr<void>(object, [end](void* kept) { end(kept); }));
  }

  void launch(NativeStream stream, const Work& work) override {
    const bool is_copy = std::string_view(work.name).starts_with("runtime_copy");
    std::vector<Piece> pieces;
    for (size_t piece = 0; piece < work.pieces; ++piece)
      pieces.push_back({work.name, Task(work, piece), touched_by(work, piece)});
    Scheduler::instance().enqueue(queue_of(stream), std::move(pieces), is_copy ? Fault::copy : Fault::launch);
  }
};

}  // namespace
}  // namespace sim

Backend& simulated_backend() noexcept {
  static sim::SimulatedBackend backend;
  return backend;
}

}  // namespace kina
