// PyTorch's rows beside those on tensors, and what it and CUDA take for the same on a GPU.
#include <dlfcn.h>
#include <unistd.h>

#include "impl/bench/rows.h"

namespace kina::bench {
namespace {

// PyTorch takes seconds to load, so its object is opened at the first of its rows that runs.
struct Torch {
  Body* (*body)(const char* name) = nullptr;
  std::string fault;
};
const Torch& torch() {
  static const Torch opened = [] {
    Torch made;
    void* const object = dlopen(KINA_BENCH_TORCH, RTLD_NOW | RTLD_LOCAL);
    void* const found = object == nullptr ? nullptr : dlsym(object, "torch_body");
    made.body = reinterpret_cast<Body* (*)(const char*)>(found);
    if (found == nullptr) made.fault = dlerror();
    return made;
  }();
  return opened;
}

// NULL, and the row given up, where PyTorch cannot be opened: a peer that does not run costs its own rows alone.
Body* body_of(Run& run, const std::string& name) {
  Body* const body = torch().body == nullptr ? nullptr : torch().body(name.c_str());
  if (body == nullptr) run.give_up(torch().body == nullptr ? torch().fault : "PyTorch's object has no " + name);
  return body;
}

void on_host(Run& run, const std::string& name) {
  Body* const body = body_of(run, "host/" + name);
  if (body == nullptr) return;
  if (run.is_check()) body_of(run, "host/check")(nullptr, 0, 1);
  run.measure(body, nullptr);
}

// Bursts into an idle stream; waiting for them is not timed.
void on_gpu(Run& run, const std::string& name) {
  constexpr uint64_t kBurst = 200;
  Body* const body = body_of(run, "cuda/" + name);
  if (body == nullptr) return;
  Body* const wait = body_of(run, "cuda/wait");
  if (run.is_check()) body_of(run, "cuda/check")(nullptr, 0, 1);
  run.measure_steps(
      [&](uint64_t) {
        const double time = nanoseconds_of([&] { body(nullptr, 0, kBurst); });
        wait(nullptr, 0, 1);
        return time;
      },
      kBurst, settings().batches);
}

}  // namespace

void add_torch_rows() {
  if (access(KINA_BENCH_TORCH, R_OK) != 0) return;
  benchmark::AddCustomContext("torch", KINA_BENCH_TORCH_VERSION);
  const bool has_gpu = KINA_BENCH_CUDA != 0;
  for (const char* name :
       {"alloc_and_free", "view_and_free", "alias_and_free", "alias_export_import_and_free", "add_32_elements"}) {
    add_row(std::string("tensor/") + name + "/torch", [name](Run& run) { on_host(run, name); });
    if (has_gpu) add_row(std::string("cuda/") + name + "/torch", [name](Run& run) { on_gpu(run, name); });
  }
  if (!has_gpu) return;
  add_row("cuda/empty_launch/cuda", [](Run& run) { on_gpu(run, "empty_launch"); });
  add_row("cuda/pair/torch", [](Run& run) { on_gpu(run, "caching_allocator_pair"); });
  add_row("cuda/pair/cuda", [](Run& run) { on_gpu(run, "malloc_pair"); });
  add_row("cuda/pair/cuda_async", [](Run& run) { on_gpu(run, "malloc_async_pair"); });
}

}  // namespace kina::bench
