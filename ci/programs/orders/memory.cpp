// Where the memory of tensors comes from, blocks that many streams used, and releases without memory of the host.
#include <cstdlib>
#include <thread>

#include "ci/programs/orders/program.h"

namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr int64_t kPageElements = 16 * 1024;  // 64 KiB
constexpr uint64_t kUnlimited = ~uint64_t{0};
thread_local uint64_t allocations_left = kUnlimited;  // until this thread finds no memory of the host any more

}  // namespace

// The library's memory comes from here too: the program's definition is the one that counts.
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* malloc(size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left != kUnlimited) --allocations_left;
  return __libc_malloc(bytes);
}

namespace orders {

// The device's memory itself, or pools over it: a small one that grows and gives back, and one that must reclaim. At
// times it does not wait for what is seen to have run, and at times there is more above it.
void Program::choose_resources() {
  for (int32_t device = 0; device < kDevices; ++device) {
    const uint64_t choice = below(3);
    KinaResource base = nullptr, pool = nullptr;
    ok(runtime_resource_current(&base, kDLExtDev, device), "current resource");
    if (choice == 0) continue;
    KinaPoolParams params = KINA_POOL_PARAMS_INIT;
    params.initial_bytes = choice == 1 ? kMebibyte : kMebibyte / 16;
    params.maximum_bytes = choice == 1 ? 0 : 4 * kMebibyte;
    params.flags = below(4) == 0 ? KINA_POOL_OPPORTUNISTIC : 0;
    ok(runtime_resource_pool(&pool, base, &params), "pool");
    ok(runtime_resource_set_default(nullptr, kDLExtDev, device, below(2) == 0 ? pool : above(pool)), "set default");
  }
  for (int32_t device = 0; device < kDevices; ++device) {
    unordered_[device] = make_unordered_resource(device);
    naming_[device] = make_naming_resource(device);
  }
}

// A resource that passes blocks of `pool` on.
KinaResource Program::above(KinaResource pool) {
  KinaResource made = nullptr;
  KinaLoggingParams nowhere = KINA_LOGGING_PARAMS_INIT;
  nowhere.path = "/dev/null";
  KinaPoolParams small = KINA_POOL_PARAMS_INIT;
  small.initial_bytes = kMebibyte / 16;
  switch (below(3)) {
    case 0: ok(runtime_resource_limit(&made, pool, kUnlimited), "limit"); break;
    case 1: ok(runtime_resource_logging(&made, pool, &nowhere), "logging"); break;
    default: ok(runtime_resource_pool(&made, pool, &small), "pool over a pool");
  }
  return made;
}

void Program::trim() {
  for (int32_t device = 0; device < kDevices; ++device) {
    KinaResource resource = nullptr;
    uint64_t released = 0;
    ok(runtime_resource_current(&resource, kDLExtDev, device), "current resource");
    ok(runtime_resource_trim(&released, resource, 0), "trim");
  }
}

// Pushes a pool of two pages that neither grows nor shrinks.
KinaScope Program::push_small_pool(int32_t device) {
  KinaResource base = nullptr, pool = nullptr;
  ok(runtime_resource_current(&base, kDLExtDev, device), "current resource");
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.growth = KINA_GROWTH_NONE;
  params.initial_bytes = 2 * kPageElements * sizeof(int32_t);
  ok(runtime_resource_pool(&pool, base, &params), "pool");
  KinaScope scope = nullptr;
  ok(runtime_resource_push(&scope, pool), "resource push");
  small_pool_ = pool;
  return scope;
}

void Program::pop_small_pool(KinaScope scope) {
  ok(runtime_scope_pop(scope), "pop");
  ok(runtime_resource_release(small_pool_), "release pool");
}

// A tensor that was written on `stream`; empty where the pool has no bytes left.
KinaTensor Program::filled(int32_t device, int64_t count, KinaStream stream, int32_t value) {
  KinaTensor tensor = KINA_TENSOR_INIT;
  const KinaStatus status = runtime_alloc(&tensor, &count, 1, KINA_DTYPE_I32, kDLExtDev, device, stream);
  if (status == KINA_ERROR_OUT_OF_MEMORY) return tensor;
  ok(status, "alloc");
  on(stream, [&] { ok(runtime_fill(&tensor, &value, sizeof value), "fill"); });
  return tensor;
}

// Eight streams share the small blocks of a full pool; then one of them needs the bytes that all have used.
void Program::crowd() {
  const int32_t device = some_device();
  const KinaScope scope = push_small_pool(device);
  KinaStream streams[8];
  for (int32_t phase = 0; phase < 8; ++phase)
    ok(runtime_stream_phase(&streams[phase], kDLExtDev, device, phase), "phase");
  std::vector<KinaTensor> tensors;
  for (int i = 0; i < 16; ++i) tensors.push_back(filled(device, 64, streams[0], i));
  for (int64_t count = kPageElements; count > 64; count /= 2) {
    do tensors.push_back(filled(device, count, streams[0], 0));
    while (tensors.back().magic != 0);
  }
  for (KinaStream stream : streams) tensors.push_back(filled(device, 64, stream, 1));
  for (KinaTensor& tensor : tensors) ok(runtime_free(&tensor), "free");
  KinaTensor large = filled(device, kPageElements, streams[below(8)], 2);
  require(large.magic != 0, "the pool does not join its free bytes");
  ok(runtime_free(&large), "free large");
  pop_small_pool(scope);
}

// A release never fails: what cannot be remembered is waited for. On another thread, which the pool does not know yet,
// or on this one. Then the bytes are used again, or all at once, unless some had to be leaked.
void Program::free_without_memory() {
  const int32_t device = some_device();
  const KinaScope scope = push_small_pool(device);
  const KinaStream stream = some_stream(device);
  const auto value = static_cast<int32_t>(below(1000));
  std::vector<KinaTensor> tensors;  // so many that the pool cuts them from one piece
  for (int i = 0; i < 12; ++i) tensors.push_back(filled(device, 64, stream, value));
  KinaTensor& freed = tensors.back();
  Pair read;
  read.device = device;
  read.values.assign(64, value);
  if (below(2) == 0) {  // else only the stream of its own uses it
    KinaScope outer = nullptr;
    ok(runtime_resource_push(&outer, unordered_[device]), "push");
    on_some_stream(device, [&] { ok(runtime_gpu_binary(&read.tensor, &freed, &freed, KINA_BINARY_MAXIMUM), "read"); });
    ok(runtime_scope_pop(outer), "pop");
    pairs_.push_back(read);
  }
  const uint64_t granted = below(4);
  const auto release = [&] {
    allocations_left = granted;
    const KinaStatus status = runtime_free(&freed);
    allocations_left = kUnlimited;
    ok(status, "free without memory");
  };
  if (below(2) == 0) {
    std::thread(release).join();
  } else {
    release();
  }
  if (below(2) == 0) tensors.push_back(filled(device, 64, some_stream(device), value));  // may get the bytes
  for (KinaTensor& tensor : tensors) ok(runtime_free(&tensor), "free");
  KinaTensor all = filled(device, 2 * kPageElements, some_stream(device), value);
  ok(runtime_free(&all), "free all");
  pop_small_pool(scope);
}

// The same for what an import leaves on its stream.
void Program::release_import(KinaStream stream) {
  allocations_left = below(2) == 0 ? below(4) : kUnlimited;
  const KinaStatus status = runtime_stream_release(stream);
  allocations_left = kUnlimited;
  ok(status, "release a stream");
}

}  // namespace orders
