// Work that the library did not enqueue, tensors that leave and come back through DLPack, and peers.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ci/programs/orders/program.h"

namespace orders {
namespace {

void* data_of(const KinaTensor& tensor) { return static_cast<std::byte*>(tensor.dl.data) + tensor.dl.byte_offset; }

KinaDlpackParams ordered_by(KinaStream stream) {
  KinaDlpackParams params = KINA_DLPACK_PARAMS_INIT;
  params.stream = stream;
  return params;
}

// Raw memory that is imported; it goes back when the library has ended the import.
struct ImportedBlock {
  DLManagedTensorVersioned managed{};
  KinaResource resource = nullptr;
  KinaStream stream = nullptr;
  void* data = nullptr;
  int64_t count = 0;

  static void end(DLManagedTensorVersioned* managed) {
    const std::unique_ptr<ImportedBlock> block(static_cast<ImportedBlock*>(managed->manager_ctx));
    const uint64_t bytes = static_cast<uint64_t>(block->count) * sizeof(int32_t);
    ok(runtime_memory_deallocate(block->resource, block->data, bytes, 0, block->stream), "deallocate imported");
  }
};

}  // namespace

// A stream of the library's whose native handle goes out, or one that was made elsewhere.
void Program::make_foreign(int32_t device) {
  Foreign& foreign = foreign_[device];
  KinaStream stream = nullptr;
  void* handle = nullptr;
  ok(runtime_stream_checkout(&stream, kDLExtDev, device), "checkout");
  ok(runtime_stream_native(&handle, stream), "native");
  foreign.native = static_cast<KinaSimStream*>(handle);
  foreign.stream = stream;
  foreign.is_imported = below(2) == 0;
  if (foreign.is_imported) {
    require(foreign.native->make(foreign.native, &foreign.native) == 0, "make a native stream");
    ok(runtime_stream_import(&foreign.stream, kDLExtDev, device, foreign.native), "import a stream");
    ok(runtime_stream_checkin(stream), "checkin");
  }
  KinaResource resource = nullptr;
  ok(runtime_resource_current(&resource, kDLExtDev, device), "current resource");
  const auto bytes = static_cast<uint64_t>(kLargest) * sizeof(int32_t);
  ok(runtime_memory_allocate(&foreign.scratch, resource, bytes, 0, foreign.stream), "scratch");
}

void Program::end_foreign(int32_t device) {
  const Foreign& foreign = foreign_[device];
  KinaResource resource = nullptr;
  ok(runtime_resource_current(&resource, kDLExtDev, device), "current resource");
  const auto bytes = static_cast<uint64_t>(kLargest) * sizeof(int32_t);
  ok(runtime_memory_deallocate(resource, foreign.scratch, bytes, 0, foreign.stream), "deallocate scratch");
  ok(foreign.is_imported ? runtime_stream_release(foreign.stream) : runtime_stream_checkin(foreign.stream), "end");
}

void Program::copy_foreign(int32_t device, void* to, const void* from, const Values& values) {
  require(native(device)->copy(native(device), to, from, bytes_of(values)) == 0, "foreign work was refused");
}

// `stream` waits for everything that is enqueued anywhere.
void Program::follow_all(KinaStream stream) {
  for (int32_t device = 0; device < kDevices; ++device) {
    KinaStream main = nullptr;
    ok(runtime_stream_main(&main, kDLExtDev, device), "main stream");
    ok(runtime_stream_wait(stream, main), "wait for main");
    ok(runtime_stream_wait(stream, foreign_[device].stream), "wait for foreign");
    for (KinaStream other : streams_[device]) ok(runtime_stream_wait(stream, other), "wait for all");
  }
}

// Whatever is enqueued from now on waits for `stream`.
void Program::all_follow(KinaStream stream) {
  for (int32_t device = 0; device < kDevices; ++device) {
    KinaStream main = nullptr;
    ok(runtime_stream_main(&main, kDLExtDev, device), "main stream");
    ok(runtime_stream_wait(main, stream), "main waits");
    ok(runtime_stream_wait(foreign_[device].stream, stream), "foreign waits");
    for (KinaStream other : streams_[device]) ok(runtime_stream_wait(other, stream), "all wait");
  }
}

void Program::write_scratch(int32_t device, const Values& values) {
  KinaTensor host = host_tensor(values), scratch = wrapped(device, foreign_[device].scratch, values);
  on(foreign_[device].stream, [&] { ok(runtime_copy(&scratch, &host, kDLExtDev, device), "write scratch"); });
  ok(runtime_free(&scratch), "free scratch");
  ok(runtime_free(&host), "free host");
}

void Program::check_scratch(int32_t device, const Values& values) {
  KinaTensor scratch = wrapped(device, foreign_[device].scratch, values), host = KINA_TENSOR_INIT;
  on(foreign_[device].stream, [&] { ok(runtime_copy_to_host(&host, &scratch), "read scratch"); });
  require(std::memcmp(host.dl.data, values.data(), bytes_of(values)) == 0, "foreign work read wrong values");
  ok(runtime_free(&scratch), "free scratch");
  ok(runtime_free(&host), "free host");
}

// Foreign work on a tensor is declared; what comes later follows it.
void Program::use_by_foreign_work() {
  if (pairs_.empty()) return;
  const size_t index = below(pairs_.size());
  Pair& pair = pairs_[index];
  const Foreign& foreign = foreign_[pair.device];
  if (below(2) == 0) {
    const Values values = some_values();
    if (values.size() != pair.values.size()) return;
    write_scratch(pair.device, values);
    follow_all(foreign.stream);
    if (below(2) == 0) ok(runtime_stream_wait(some_stream(some_device()), foreign.stream), "wait before the write");
    copy_foreign(pair.device, data_of(pair.tensor), foreign.scratch, values);
    ok(runtime_tensor_record_use(&pair.tensor, foreign.stream, KINA_ACCESS_WRITE), "record a write");
    pair.values = values;
    return;
  }
  const Values values = pair.values;
  const int32_t device = pair.device;
  follow_all(foreign.stream);
  copy_foreign(device, foreign.scratch, data_of(pair.tensor), values);
  ok(runtime_tensor_record_use(&pair.tensor, foreign.stream, KINA_ACCESS_READ), "record a read");
  if (below(2) == 0) {
    release(index);
    upload();
  } else {
    const int32_t zero = 0;
    on_some_stream(device, [&] { ok(runtime_fill(&pair.tensor, &zero, sizeof zero), "fill what is read"); });
    pair.values.assign(values.size(), 0);
  }
  check_scratch(device, values);
}

// Foreign work on one half of a storage needs no order with the library's work on the other half, but what comes later
// follows both.
void Program::share_with_foreign_work() {
  if (pairs_.empty()) return;
  Pair& pair = pairs_[below(pairs_.size())];
  const int32_t device = pair.device;
  const Foreign& foreign = foreign_[device];
  const auto half = static_cast<int64_t>(pair.values.size() / 2);
  Pair read;
  read.device = device;
  read.values.assign(pair.values.begin() + half, pair.values.begin() + 2 * half);
  Values given(static_cast<size_t>(half), static_cast<int32_t>(below(1000)));
  KinaTensor low = KINA_TENSOR_INIT, high = KINA_TENSOR_INIT;
  ok(runtime_view(&low, &pair.tensor, &half, nullptr, 1, 0, 0), "view low");
  ok(runtime_view(&high, &pair.tensor, &half, nullptr, 1, half, 0), "view high");
  write_scratch(device, given);
  follow_all(foreign.stream);
  on_some_stream(device, [&] { ok(runtime_gpu_binary(&read.tensor, &high, &high, KINA_BINARY_MAXIMUM), "read"); });
  copy_foreign(device, data_of(low), foreign.scratch, given);
  ok(runtime_tensor_record_use(&low, foreign.stream, KINA_ACCESS_WRITE), "record a write");
  const auto value = static_cast<int32_t>(below(1000));
  on_some_stream(device, [&] { ok(runtime_fill(&high, &value, sizeof value), "fill high"); });
  std::copy(given.begin(), given.end(), pair.values.begin());
  std::fill_n(pair.values.begin() + half, half, value);
  ok(runtime_free(&low), "free low");
  ok(runtime_free(&high), "free high");
  pairs_.push_back(read);
}

// Who synchronizes a stream waits for foreign work on it as well.
void Program::synchronize_foreign() {
  const int32_t device = some_device();
  const Foreign& foreign = foreign_[device];
  const Values values = some_values();
  Values back(values.size(), -1);
  write_scratch(device, values);
  ok(runtime_stream_synchronize(foreign.stream), "synchronize");
  copy_foreign(device, back.data(), foreign.scratch, values);
  KinaStream other = some_stream(some_device());
  int32_t is_done = 0;
  switch (below(4)) {
    case 0: ok(runtime_stream_synchronize(foreign.stream), "synchronize foreign"); break;
    case 1: ok(runtime_device_synchronize(kDLExtDev, device), "device synchronize"); break;
    case 2:
      ok(runtime_stream_wait(other, foreign.stream), "wait for foreign");
      ok(runtime_stream_synchronize(other), "synchronize what waited");
      break;
    default:
      for (; is_done == 0; usleep(100)) ok(runtime_stream_query(&is_done, foreign.stream), "query foreign");
  }
  require(back == values, "foreign work was not over");
}

// A consumer that enqueues work of its own on the exported bytes, and ends the export while that is queued.
void Program::export_tensor() {
  if (pairs_.empty()) return;
  const size_t index = below(pairs_.size());
  Pair pair = pairs_[index];
  const int32_t device = pair.device;
  const Foreign& foreign = foreign_[device];
  KinaDlpackParams params = ordered_by(foreign.stream);
  const bool is_copy = below(3) == 0;
  if (is_copy) params.flags = KINA_DLPACK_COPY;
  KinaTensor kept = KINA_TENSOR_INIT;
  const bool writes = !is_copy && below(3) == 0;
  if (writes) ok(runtime_alias(&kept, &pair.tensor), "alias");
  const Values given = some_values();
  if (writes && given.size() == pair.values.size()) write_scratch(device, given);
  Pair read;
  if (below(2) == 0) {  // the consumer waits for the last writer, not for readers: those still keep the bytes
    read.device = device;
    read.values = pair.values;
    on_some_stream(
        device, [&] { ok(runtime_gpu_binary(&read.tensor, &pair.tensor, &pair.tensor, KINA_BINARY_MAXIMUM), "read"); });
  }
  DLManagedTensorVersioned* managed = nullptr;
  ok(runtime_to_dlpack(&managed, &pair.tensor, &params), "export");
  pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!read.values.empty()) pairs_.push_back(read);
  if (writes) {
    pair.tensor = kept;
    if (given.size() == pair.values.size()) {
      follow_all(foreign.stream);
      copy_foreign(device, managed->dl_tensor.data, foreign.scratch, given);
      pair.values = given;
    }
    managed->deleter(managed);
    pairs_.push_back(pair);
    return;
  }
  if (below(2) == 0) {  // it comes back as an import
    follow_all(foreign.stream);
    params.flags = 0;
    ok(runtime_from_dlpack(&pair.tensor, managed, &params), "import the export");
    pairs_.push_back(pair);
    return;
  }
  copy_foreign(device, foreign.scratch, managed->dl_tensor.data, pair.values);
  managed->deleter(managed);
  upload();  // may get the bytes
  check_scratch(device, pair.values);
}

// Foreign memory whose bytes become ready on a stream, or are ready; it ends after its last use.
void Program::import_block() {
  Pair pair;
  pair.device = some_device();
  pair.values = some_values();
  const Foreign& foreign = foreign_[pair.device];
  auto* block = new ImportedBlock;
  ok(runtime_resource_current(&block->resource, kDLExtDev, pair.device), "current resource");
  ok(runtime_memory_allocate(&block->data, block->resource, bytes_of(pair.values), 0, foreign.stream), "allocate");
  write_scratch(pair.device, pair.values);
  copy_foreign(pair.device, block->data, foreign.scratch, pair.values);
  block->count = static_cast<int64_t>(pair.values.size());
  block->managed.version = {1, 0};
  block->managed.manager_ctx = block;
  block->managed.deleter = &ImportedBlock::end;
  DLTensor& plain = block->managed.dl_tensor;
  plain.data = block->data;
  plain.device = {kDLExtDev, pair.device};
  plain.ndim = 1;
  plain.dtype = {kDLInt, 32, 1};
  plain.shape = &block->count;
  KinaDlpackParams params = ordered_by(foreign.stream);
  block->stream = foreign.stream;
  if (below(2) == 0) {
    ok(runtime_stream_synchronize(foreign.stream), "make ready");
    params.stream = nullptr;
    ok(runtime_stream_main(&block->stream, kDLExtDev, pair.device), "main stream");
  }
  ok(runtime_from_dlpack(&pair.tensor, &block->managed, &params), "import");
  pairs_.push_back(pair);
  if (below(2) == 0) return;
  Pair read;  // at once, while what makes the bytes ready is queued
  read.device = pair.device;
  read.values = pair.values;
  on_some_stream(pair.device, [&] {
    ok(runtime_gpu_binary(&read.tensor, &pair.tensor, &pair.tensor, KINA_BINARY_MAXIMUM), "read an import");
  });
  pairs_.push_back(read);
}

// Work of the other device on the owner's bytes, which only the caller orders; the bytes stay as long as it needs them.
void Program::use_as_peer() {
  if (pairs_.empty()) return;
  const size_t index = below(pairs_.size());
  Pair& pair = pairs_[index];
  const int32_t other = 1 - pair.device;
  KinaPeer peer = nullptr;
  KinaTensor opened = KINA_TENSOR_INIT;
  ok(runtime_peer_share(&peer, &pair.tensor), "share");
  ok(runtime_peer_open(&opened, peer, kDLExtDev, other), "open");
  KinaStream stream = some_stream(other);
  follow_all(stream);
  if (below(2) == 0) {
    const auto value = static_cast<int32_t>(below(1000));
    on(stream, [&] { ok(runtime_fill(&opened, &value, sizeof value), "fill a peer"); });
    all_follow(stream);
    pair.values.assign(pair.values.size(), value);
  } else {
    Pair made;
    made.device = other;
    made.values = pair.values;
    on(stream, [&] { ok(runtime_gpu_binary(&made.tensor, &opened, &opened, KINA_BINARY_MAXIMUM), "read a peer"); });
    release(index);
    pairs_.push_back(made);
  }
  ok(runtime_peer_release(peer), "peer release");
  ok(runtime_free(&opened), "free peer");
}

}  // namespace orders
