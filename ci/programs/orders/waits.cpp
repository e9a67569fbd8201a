// What a caller may rely on after each kind of wait, and that order which is known already costs no call of the driver.
#include <unistd.h>

#include <cstring>
#include <memory>

#include "ci/programs/orders/program.h"

namespace orders {
namespace {

// The context of a resource whose blocks come from another one, on the main stream of the device: it knows nothing of
// the streams that use them, so a block is ready for all when it is given, and must not be in use when it comes back.
struct Unordered {
  KinaResource base;
  KinaStream main;
};

KinaStatus take_unordered(void** out, void* context, uint64_t bytes, uint64_t alignment, KinaStream) {
  const auto& source = *static_cast<Unordered*>(context);
  const KinaStatus status = runtime_memory_allocate(out, source.base, bytes, alignment, source.main);
  return status == KINA_SUCCESS ? runtime_stream_synchronize(source.main) : status;
}

KinaStatus give_unordered(void* context, void* data, uint64_t bytes, uint64_t alignment, KinaStream) {
  const auto& source = *static_cast<Unordered*>(context);
  return runtime_memory_deallocate(source.base, data, bytes, alignment, source.main);
}

int32_t is_idle(KinaStream stream) {
  int32_t answer = 0;
  ok(runtime_stream_query(&answer, stream), "query");
  return answer;
}

// Asks until the stream is idle, but leaves the device time to work.
void poll(KinaStream stream) {
  while (is_idle(stream) == 0) usleep(100);
}

// Memory of the host that the device may write while the host does something else.
struct PinnedBlock {
  DLManagedTensorVersioned managed{};
  Values bytes, expected;
  int64_t count = 0;

  static void end(DLManagedTensorVersioned* managed) {
    const std::unique_ptr<PinnedBlock> block(static_cast<PinnedBlock*>(managed->manager_ctx));
    require(block->bytes == block->expected, "an import was ended before its last use");
    block->bytes.assign(block->bytes.size(), 0);
  }
};

}  // namespace

KinaTensor Program::wrapped(int32_t device, void* block, const Values& values) {
  auto count = static_cast<int64_t>(values.size());
  DLTensor plain{};
  plain.data = block;
  plain.device = {kDLExtDev, device};
  plain.ndim = 1;
  plain.dtype = {kDLInt, 32, 1};
  plain.shape = &count;
  KinaTensor tensor = KINA_TENSOR_INIT, view = KINA_TENSOR_INIT;  // the view has a shape of its own
  ok(runtime_wrap(&tensor, &plain, bytes_of(values), nullptr, 0), "wrap");
  ok(runtime_alias(&view, &tensor), "alias of wrapped memory");
  ok(runtime_free(&tensor), "free wrapped");
  return view;
}

// The host overwrites what a device reads as soon as it knows that this is over.
void Program::reuse_source() {
  Pair pair;
  pair.device = some_device();
  pair.values = some_values();
  KinaTensor host = host_tensor(pair.values);
  KinaStream& stream = streams_[pair.device][below(3)];
  on(stream, [&] { ok(runtime_copy(&pair.tensor, &host, kDLExtDev, pair.device), "upload"); });
  finish(pair.device, stream, pair);
  std::memset(host.dl.data, 0xff, bytes_of(pair.values));
  ok(runtime_free(&host), "free source");
  pairs_.push_back(pair);
}

// Returns when the work on `stream`, of which `written` is the last result, has run. The stream may be another one
// then.
void Program::finish(int32_t device, KinaStream& stream, const Pair& written) {
  KinaStream other = some_stream(some_device()), host = nullptr;
  switch (below(7)) {
    case 0:
      ok(runtime_stream_synchronize(stream), "synchronize");
      return require(is_idle(stream) == 1, "a stream is busy after its synchronization");
    case 1:
      ok(runtime_device_synchronize(kDLExtDev, device), "device synchronize");
      return require(is_idle(stream) == 1, "a stream is busy after its device's synchronization");
    case 2: return ok(runtime_tensor_synchronize(&written.tensor), "tensor synchronize");
    case 3: return poll(stream);
    case 4:  // the stream that the work is on has ended
      ok(runtime_stream_checkin(stream), "checkin");
      ok(runtime_device_synchronize(kDLExtDev, device), "device synchronize");
      return ok(runtime_stream_checkout(&stream, kDLExtDev, device), "checkout");
    case 5:
      ok(runtime_stream_wait(other, stream), "wait");
      return ok(runtime_stream_synchronize(other), "synchronize what waited");
    default:
      ok(runtime_stream_main(&host, kDLCPU, 0), "host stream");
      ok(runtime_stream_wait(host, stream), "wait of the host");
  }
}

// Raw memory, whose users the caller alone orders: the fill on one stream, a read on another, and the release.
void Program::use_raw_block() {
  const int32_t device = some_device();
  KinaStream first = some_stream(device);
  Pair made;
  made.device = below(3) == 0 ? 1 - device : device;
  made.values = some_values();
  KinaResource resource = unordered_[device];
  if (below(2) == 0) ok(runtime_resource_current(&resource, kDLExtDev, device), "current resource");
  void* block = nullptr;
  ok(runtime_memory_allocate(&block, resource, bytes_of(made.values), 0, first), "allocate");
  KinaTensor tensor = wrapped(device, block, made.values);
  const auto value = static_cast<int32_t>(below(1000));
  made.values.assign(made.values.size(), value);
  on(first, [&] { ok(runtime_fill(&tensor, &value, sizeof value), "fill raw"); });

  // Another tensor on the same memory knows nothing of that fill once the first one has ended.
  ok(runtime_free(&tensor), "free wrapped");
  tensor = wrapped(device, block, made.values);
  KinaStream second = some_stream(made.device);
  ok(runtime_stream_wait(second, first), "wait");
  on(second, [&] {
    if (made.device == device)
      ok(runtime_gpu_binary(&made.tensor, &tensor, &tensor, KINA_BINARY_MAXIMUM), "read raw");
    else
      ok(runtime_copy(&made.tensor, &tensor, kDLExtDev, made.device), "read raw across");
  });
  ok(runtime_free(&tensor), "free wrapped");
  KinaStream last = made.device == device && below(2) == 0 ? second : first;
  if (last != second) ok(runtime_stream_wait(first, second), "wait back");
  ok(runtime_memory_deallocate(resource, block, bytes_of(made.values), 0, last), "deallocate");
  pairs_.push_back(made);
}

// Tensors on one piece of raw memory share a record as long as one of them lives: a failure on one is seen through all.
void Program::share_raw_record() {
  const int32_t device = some_device();
  const Values values(static_cast<size_t>(64));
  void* scratch = foreign_[device].scratch;
  KinaTensor first = wrapped(device, scratch, values), second = wrapped(device, scratch, values);
  ok(runtime_free(&first), "free the first");
  uint64_t failure = 0;
  ok(runtime_failure_set(&failure, &second, 0, KINA_ERROR_INTERNAL, "shared"), "failure set");
  KinaTensor third = wrapped(device, scratch, values);
  KinaFailureInfo info{};
  info.struct_size = sizeof info;
  ok(runtime_failure_get(&info, &third), "failure get");
  require(info.failure == failure, "a tensor on the same raw memory has another record");
  ok(runtime_free(&second), "free the second");
  ok(runtime_free(&third), "free the third");
}

// A read-back to page-locked memory is enqueued; the host's work on it, or its end, comes after.
void Program::read_back_later() {
  if (pairs_.empty()) return;
  const Pair& pair = pairs_[below(pairs_.size())];
  auto* block = new PinnedBlock;
  block->expected = pair.values;
  block->bytes.assign(pair.values.size(), -1);
  block->count = static_cast<int64_t>(pair.values.size());
  block->managed.version = {1, 0};
  block->managed.manager_ctx = block;
  block->managed.deleter = &PinnedBlock::end;
  DLTensor& plain = block->managed.dl_tensor;
  plain.data = block->bytes.data();
  plain.device = {kDLCUDAHost, 0};
  plain.ndim = 1;
  plain.dtype = {kDLInt, 32, 1};
  plain.shape = &block->count;
  KinaTensor pinned = KINA_TENSOR_INIT, host = KINA_TENSOR_INIT;
  ok(runtime_from_dlpack(&pinned, &block->managed, nullptr), "import pinned");
  on_some_stream(pair.device, [&] { ok(runtime_copy_to_host(&pinned, &pair.tensor), "read back later"); });
  switch (below(3)) {
    case 0:
      ok(runtime_gpu_binary(&host, &pinned, &pinned, KINA_BINARY_MAXIMUM), "read on the host");
      require(std::memcmp(host.dl.data, pair.values.data(), bytes_of(pair.values)) == 0, "a read-back was not over");
      ok(runtime_free(&host), "free host");
      break;
    case 1:
      ok(runtime_tensor_synchronize(&pinned), "synchronize read-back");
      require(block->bytes == pair.values, "a read-back was not over after its synchronization");
      break;
    default: break;  // its deleter looks
  }
  ok(runtime_free(&pinned), "free pinned");
}

KinaResource Program::make_unordered_resource(int32_t device) {
  KinaResource resource = nullptr;
  auto* context = new Unordered{};  // lives as long as the process
  ok(runtime_resource_current(&context->base, kDLExtDev, device), "current resource");
  ok(runtime_stream_main(&context->main, kDLExtDev, device), "main stream");
  KinaResourceVtable table = KINA_RESOURCE_VTABLE_INIT;
  table.allocate = &take_unordered;
  table.deallocate = &give_unordered;
  ok(runtime_resource_custom(&resource, kDLExtDev, device, &table, context), "custom resource");
  return resource;
}

void Program::use_unordered_resource() {
  Pair made;
  made.device = some_device();
  made.values = some_values();
  KinaTensor host = host_tensor(made.values), passing = KINA_TENSOR_INIT;
  KinaScope scope = nullptr;
  ok(runtime_resource_push(&scope, unordered_[made.device]), "resource push");
  on_some_stream(made.device, [&] { ok(runtime_copy(&passing, &host, kDLExtDev, made.device), "upload"); });
  ok(runtime_scope_pop(scope), "pop");
  on_some_stream(made.device,
                 [&] { ok(runtime_gpu_binary(&made.tensor, &passing, &passing, KINA_BINARY_MAXIMUM), "read"); });
  ok(runtime_free(&passing), "free unordered");
  ok(runtime_free(&host), "free source");
  pairs_.push_back(made);
}

KinaSimCounts Program::calls() {
  KinaSimCounts counts{};
  require(native(0)->count(native(0), &counts) == 0, "count");
  return counts;
}

void Program::expect_calls(const KinaSimCounts& before, const KinaSimCounts& allowed, const char* what) {
  const KinaSimCounts after = calls();
  require(after.event_records - before.event_records == allowed.event_records &&
              after.stream_waits - before.stream_waits == allowed.stream_waits &&
              after.host_waits - before.host_waits == allowed.host_waits,
          what);
}

// One of the device's streams with work on it that nobody knows of yet; NULL where there is no tensor to work on.
KinaStream Program::busy_stream(int32_t device) {
  Pair* pair = some(device);
  if (pair == nullptr) return nullptr;
  KinaStream stream = some_stream(device);
  const auto value = static_cast<int32_t>(below(1000));
  on(stream, [&] { ok(runtime_fill(&pair->tensor, &value, sizeof value), "fill"); });
  pair->values.assign(pair->values.size(), value);
  return stream;
}

void Program::repeat_wait() {
  KinaStream busy = busy_stream(some_device()), waiter = some_stream(some_device());
  if (busy == nullptr) return;
  ok(runtime_stream_wait(waiter, busy), "wait");
  const KinaSimCounts before = calls();
  ok(runtime_stream_wait(waiter, busy), "wait again");
  expect_calls(before, {0, 0, 0}, "a wait that is known cost a call");
}

void Program::wait_through_third() {
  KinaStream busy = busy_stream(some_device());
  if (busy == nullptr) return;
  KinaStream second = some_stream(some_device()), third = some_stream(some_device());
  ok(runtime_stream_wait(second, busy), "wait");
  ok(runtime_stream_wait(third, second), "wait for what waited");
  const KinaSimCounts before = calls();
  ok(runtime_stream_wait(third, busy), "wait for the first");
  expect_calls(before, {0, 0, 0}, "order known through a third stream cost a call");
}

void Program::wait_twice_for_one() {
  KinaStream busy = busy_stream(some_device());
  if (busy == nullptr) return;
  KinaStream second = some_stream(some_device()), third = some_stream(some_device());
  if (second == busy || third == busy || second == third) return;
  const KinaSimCounts before = calls();
  ok(runtime_stream_wait(second, busy), "wait");
  ok(runtime_stream_wait(third, busy), "wait of another");
  expect_calls(before, {1, 2, 0}, "two waits for one moment took other than one event");
}

// What the host has waited for is known to all, with what that was ordered after.
void Program::wait_after_host() {
  KinaStream busy = busy_stream(some_device()), second = some_stream(some_device()), third = some_stream(some_device());
  if (busy == nullptr) return;
  const bool is_through_second = below(2) == 0;
  if (is_through_second) ok(runtime_stream_wait(second, busy), "wait");
  KinaStream awaited = is_through_second ? second : busy;
  if (below(2) == 0) {
    ok(runtime_stream_synchronize(awaited), "synchronize");
  } else {
    poll(awaited);
  }
  const KinaSimCounts before = calls();
  ok(runtime_stream_wait(third, busy), "wait for what the host saw");
  ok(runtime_stream_synchronize(busy), "synchronize again");
  require(is_idle(busy) == 1, "what the host saw is not over");
  expect_calls(before, {0, 0, 0}, "order known to the host cost a call");
}

}  // namespace orders
