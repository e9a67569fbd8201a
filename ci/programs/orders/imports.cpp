// Streams that their owners make for one piece of work and end as soon as the library lets them.
#include "ci/programs/orders/program.h"

namespace orders {
namespace {

// A resource in the order of streams whose blocks come from another one, on the stream that each call names.
KinaStatus take_named(void** out, void* base, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  return runtime_memory_allocate(out, static_cast<KinaResource>(base), bytes, alignment, stream);
}

KinaStatus give_named(void* base, void* data, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  return runtime_memory_deallocate(static_cast<KinaResource>(base), data, bytes, alignment, stream);
}

}  // namespace

KinaResource Program::make_naming_resource(int32_t device) {
  KinaResource resource = nullptr, base = nullptr;
  ok(runtime_resource_current(&base, kDLExtDev, device), "current resource");
  KinaResourceVtable table = KINA_RESOURCE_VTABLE_INIT;
  table.supports_streams = 1;
  table.allocate = &take_named;
  table.deallocate = &give_named;
  ok(runtime_resource_custom(&resource, kDLExtDev, device, &table, base), "custom resource");
  return resource;
}

void Program::import_stream() {
  Import import;
  import.device = some_device();
  Pair* pair = some(import.device);
  if (pair == nullptr) return;
  KinaSimStream* driver = native(import.device);
  require(driver->make(driver, &import.native) == 0, "make a native stream");
  ok(runtime_stream_import(&import.stream, kDLExtDev, import.device, import.native), "import a stream");
  for (const Foreign& foreign : foreign_)  // and for what was ordered by the caller alone
    ok(runtime_stream_wait(import.stream, foreign.stream), "wait for foreign");
  const auto value = static_cast<int32_t>(below(1000));
  on(import.stream, [&] { ok(runtime_fill(&pair->tensor, &value, sizeof value), "fill"); });
  pair->values.assign(pair->values.size(), value);
  if (below(2) == 0) ok(runtime_stream_synchronize(import.stream), "synchronize");
  for (const Foreign& foreign : foreign_)  // for the same on this stream
    ok(runtime_stream_wait(foreign.stream, import.stream), "foreign waits");
  switch (below(3)) {
    case 0: return serve_past_name(import);
    case 1: return free_past_name(import);
    default: return end_import(import);
  }
}

void Program::end_import(const Import& import) {
  release_import(import.stream);
  require(import.native->end(import.native) == 0, "end a native stream");
}

Pair Program::uploaded_by(const Import& import) {
  Pair made;
  made.device = import.device;
  made.values = some_values();
  KinaTensor host = host_tensor(made.values);
  on(import.stream, [&] { ok(runtime_copy(&made.tensor, &host, kDLExtDev, import.device), "upload"); });
  ok(runtime_free(&host), "free source");
  return made;
}

// The stream serves an export when its name has ended: what the consumer enqueues is followed all the same.
void Program::serve_past_name(Import& import) {
  Pair given = uploaded_by(import);
  KinaDlpackParams params = KINA_DLPACK_PARAMS_INIT;
  params.stream = import.stream;
  DLManagedTensorVersioned* managed = nullptr;
  ok(runtime_to_dlpack(&managed, &given.tensor, &params), "export");
  release_import(import.stream);
  void* scratch = foreign_[import.device].scratch;
  const int32_t answer = import.native->copy(import.native, scratch, managed->dl_tensor.data, bytes_of(given.values));
  require(answer == 0, "consume");
  managed->deleter(managed);
  upload();  // may get the bytes
  if (below(2) == 0) {
    ok(runtime_device_synchronize(kDLExtDev, import.device), "wait for the consumer too");
    require(import.native->end(import.native) == 0, "end a native stream");
  } else {
    ok(runtime_stream_import(&import.stream, kDLExtDev, import.device, import.native), "import again");
    ok(runtime_stream_wait(foreign_[import.device].stream, import.stream), "wait for the consumer");
    end_import(import);
  }
  check_scratch(import.device, given.values);
}

// The bytes go back when the stream that they are ordered by has ended: on one that follows it.
void Program::free_past_name(const Import& import) {
  KinaScope scope = nullptr;
  KinaTensor passing = KINA_TENSOR_INIT;
  const KinaTensor& source = some(import.device)->tensor;
  ok(runtime_resource_push(&scope, naming_[import.device]), "resource push");
  on(import.stream, [&] { ok(runtime_gpu_binary(&passing, &source, &source, KINA_BINARY_MAXIMUM), "work"); });
  ok(runtime_scope_pop(scope), "pop");
  end_import(import);
  ok(runtime_free(&passing), "free past the end");
  upload();  // may get the bytes
}

}  // namespace orders
