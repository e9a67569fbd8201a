// every_call: calls every function of the library from several threads at once, on shared and on own objects.
//
// Usage: every_call THREADS ROUNDS COUNTS. Each thread goes through the steps below in an order of its own; results are
// checked against what is legal while others do the same. COUNTS receives how often each function was called; a
// function that was never called makes the program fail. ThreadSanitizer, or an interposer, watches from outside.
#include "counted.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kSide = 8;

void expect(KinaStatus status, std::initializer_list<KinaStatus> legal, const char* call, int line) {
  if (std::find(legal.begin(), legal.end(), status) != legal.end()) return;
  std::fprintf(stderr, "every_call.cpp:%d: %s answered %s: %s\n", line, call, runtime_status_name(status),
               runtime_last_error_message());
  std::_Exit(1);
}
#define OK(call) expect((call), {KINA_SUCCESS}, #call, __LINE__)
#define EXPECT(call, ...) expect((call), {__VA_ARGS__}, #call, __LINE__)
#define REQUIRE(condition) \
  expect((condition) ? KINA_SUCCESS : KINA_ERROR_INTERNAL, {KINA_SUCCESS}, #condition, __LINE__)

// A tensor that is freed where its scope ends.
struct Tensor : KinaTensor {
  Tensor() : KinaTensor(KINA_TENSOR_INIT) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { OK(runtime_free(this)); }
};

// What all threads use together; `failing` is the one whose bytes are failed and repaired all the time.
struct Shared {
  Tensor a, b, indices, failing;
  KinaResource pool = nullptr;
  KinaStream stream = nullptr;
  KinaWeak weak = nullptr;
  KinaPeer peer = nullptr;
};

void make(KinaTensor& out, std::initializer_list<int64_t> shape, KinaDtype dtype) {
  OK(runtime_alloc(&out, shape.begin(), static_cast<int32_t>(shape.size()), dtype, kDLCPU, 0, nullptr));
}
void fill(KinaTensor& tensor, float value) { OK(runtime_fill(&tensor, &value, sizeof value)); }

void version_and_status(Shared&) {
  REQUIRE(runtime_abi_version() >> 16 == 1);
  REQUIRE(std::strlen(runtime_version_string()) > 0);
  REQUIRE(runtime_has_feature(KINA_FEATURE_CORE) == 1);
  uint64_t offset = 0, bytes = 0;
  OK(runtime_field_layout(&offset, &bytes, "KinaTensor", "handle"));
  REQUIRE(offset == 80 && bytes == 8);
  REQUIRE(std::string_view(runtime_status_name(KINA_ERROR_OVERLAP)) == "OVERLAP");
  EXPECT(runtime_free(nullptr), KINA_ERROR_INVALID_ARGUMENT);
  REQUIRE(std::strlen(runtime_last_error_message()) > 0);
  KinaErrorInfo info{};
  info.struct_size = sizeof info;
  OK(runtime_last_error(&info));
  REQUIRE(info.status == KINA_ERROR_INVALID_ARGUMENT && info.argument == 1);
  runtime_clear_last_error();
}

std::atomic<int> log_lines{0};
void count_line(void* context, KinaLogLevel, const char*) { static_cast<std::atomic<int>*>(context)->fetch_add(1); }

void logging(Shared&) {
  OK(runtime_set_log_callback(count_line, &log_lines, KINA_LOG_TRACE));
  OK(runtime_set_log_callback(nullptr, nullptr, KINA_LOG_OFF));
}

void devices(Shared&) {
  int32_t count = 0, access = -1;
  OK(runtime_device_count(&count, kDLCPU));
  REQUIRE(count == 1);
  KinaDeviceInfo info{};
  info.struct_size = sizeof info;
  OK(runtime_device_info(&info, kDLCPU, 0));
  OK(runtime_device_can_access(&access, kDLCPU, 0, 0));
  OK(runtime_device_synchronize(kDLCPU, 0));
}

void streams(Shared& shared) {
  KinaStream main = nullptr, own = nullptr, current = nullptr, phase = nullptr;
  OK(runtime_stream_main(&main, kDLCPU, 0));
  OK(runtime_stream_checkout(&own, kDLCPU, 0));
  OK(runtime_stream_phase(&phase, kDLCPU, 0, 1));
  void* native = &main;
  OK(runtime_stream_native(&native, own));
  int32_t idle = 0;
  OK(runtime_stream_query(&idle, shared.stream));
  OK(runtime_stream_wait(own, shared.stream));
  OK(runtime_stream_wait(shared.stream, own));
  OK(runtime_stream_synchronize(shared.stream));
  KinaScope pushed = nullptr, redirect = nullptr, phased = nullptr, device = nullptr, capture = nullptr;
  OK(runtime_stream_push(&pushed, shared.stream));
  OK(runtime_stream_current(&current, kDLCPU, 0));
  REQUIRE(current == shared.stream);
  OK(runtime_phase_push(&phased, 1));
  OK(runtime_redirect_push(&redirect, own));
  OK(runtime_device_push(&device, kDLCPU, 0));
  for (KinaScope scope : {device, redirect, phased, pushed}) OK(runtime_scope_pop(scope));
  EXPECT(runtime_capture_push(&capture, own, shared.pool), KINA_ERROR_UNSUPPORTED);
  KinaStream imported = nullptr;
  EXPECT(runtime_stream_import(&imported, kDLCPU, 0, &imported), KINA_ERROR_UNSUPPORTED);
  EXPECT(runtime_stream_release(main), KINA_ERROR_INVALID_ARGUMENT);
  OK(runtime_stream_checkin(own));
}

KinaStatus plain_allocate(void** out, void*, uint64_t bytes, uint64_t alignment, KinaStream) {
  *out = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *out == nullptr ? KINA_ERROR_OUT_OF_MEMORY : KINA_SUCCESS;
}
KinaStatus plain_deallocate(void*, void* data, uint64_t, uint64_t, KinaStream) {
  std::free(data);
  return KINA_SUCCESS;
}
void ignore_row(void* context, const KinaLogRow*) { static_cast<std::atomic<int>*>(context)->fetch_add(1); }

void resources(Shared& shared) {
  KinaResource host = nullptr, limit = nullptr, logger = nullptr, custom = nullptr, cuda = nullptr, current = nullptr;
  OK(runtime_resource_host(&host));
  OK(runtime_resource_limit(&limit, shared.pool, 1 << 20));
  KinaLoggingParams logging_params = KINA_LOGGING_PARAMS_INIT;
  logging_params.callback = ignore_row;
  logging_params.context = &log_lines;
  OK(runtime_resource_logging(&logger, limit, &logging_params));
  KinaResourceVtable vtable = KINA_RESOURCE_VTABLE_INIT;
  vtable.allocate = plain_allocate;
  vtable.deallocate = plain_deallocate;
  OK(runtime_resource_custom(&custom, kDLCPU, 0, &vtable, nullptr));
  EXPECT(runtime_resource_cuda(&cuda, 0), KINA_ERROR_UNSUPPORTED);
  EXPECT(runtime_resource_cuda_async(&cuda, 0, nullptr), KINA_ERROR_UNSUPPORTED);

  KinaScope scope = nullptr;
  OK(runtime_resource_push(&scope, logger));
  OK(runtime_resource_current(&current, kDLCPU, 0));
  KinaResourceInfo bound{};
  bound.struct_size = sizeof bound;
  OK(runtime_resource_info(&bound, current));
  REQUIRE(std::string_view(bound.name).starts_with("logging("));
  Tensor logged;
  make(logged, {kSide, kSide}, KINA_DTYPE_F32);
  OK(runtime_scope_pop(scope));

  void* block = nullptr;
  OK(runtime_memory_allocate(&block, shared.pool, 1000, 256, nullptr));
  std::memset(block, 1, 1000);
  OK(runtime_memory_deallocate(shared.pool, block, 1000, 256, nullptr));
  uint64_t released = 0;
  OK(runtime_resource_trim(&released, shared.pool, 1 << 16));
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  OK(runtime_resource_info(&info, shared.pool));
  for (KinaResource resource : {host, limit, logger, custom}) OK(runtime_resource_release(resource));
}

void default_resource(Shared& shared) {
  KinaResource previous = nullptr;
  OK(runtime_resource_set_default(&previous, kDLCPU, 0, shared.pool));
  Tensor tensor;
  make(tensor, {100}, KINA_DTYPE_U8);
  OK(runtime_resource_set_default(&previous, kDLCPU, 0, nullptr));
}

void pool_of_own(Shared&) {
  KinaResource host = nullptr, pool = nullptr;
  OK(runtime_resource_host(&host));
  OK(runtime_resource_pool(&pool, host, nullptr));
  OK(runtime_resource_release(host));
  OK(runtime_resource_release(pool));
}

void tensors(Shared& shared) {
  Tensor view, alias;
  const int64_t shape[] = {2, 2}, strides[] = {-kSide, 2};
  OK(runtime_view(&view, &shared.a, shape, strides, 2, kSide, KINA_FLAG_READ_ONLY));
  OK(runtime_alias(&alias, &shared.a));
  OK(runtime_tensor_synchronize(&alias));
  OK(runtime_tensor_record_use(&view, shared.stream, KINA_ACCESS_READ));
  float data[4] = {1, 2, 3, 4};
  int64_t extent = 4;
  DLTensor plain{data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &extent, nullptr, 0};
  Tensor wrapped, sum;
  OK(runtime_wrap(&wrapped, &plain, sizeof data, nullptr, 0));
  OK(runtime_gpu_binary(&sum, &wrapped, &wrapped, KINA_BINARY_ADD));
  REQUIRE(static_cast<float*>(sum.dl.data)[3] == 8);
}

void sharing(Shared& shared) {
  Tensor view;
  const int64_t shape[] = {kSide};
  OK(runtime_view(&view, &shared.a, shape, nullptr, 1, 0, 0));
  KinaOverlap overlap = -1;
  OK(runtime_overlap(&overlap, &shared.a, &view));
  REQUIRE(overlap == KINA_OVERLAP_PARTIAL);
  int32_t exclusive = -1;
  OK(runtime_is_exclusive(&exclusive, &shared.a));
  KinaByteRange range{};
  OK(runtime_byte_range(&range, &view));
  REQUIRE(range.end - range.start == kSide * sizeof(float));
  KinaWeak weak = nullptr;
  OK(runtime_weak_create(&weak, &shared.a));
  Tensor upgraded, from_shared;
  OK(runtime_weak_upgrade(&upgraded, weak));
  OK(runtime_weak_upgrade(&from_shared, shared.weak));
  OK(runtime_weak_release(weak));
  KinaPeer peer = nullptr;
  Tensor opened;
  OK(runtime_peer_share(&peer, &shared.a));
  OK(runtime_peer_open(&opened, shared.peer, kDLCPU, 0));
  OK(runtime_peer_release(peer));
}

void failures(Shared& shared) {
  uint64_t failure = 0;
  OK(runtime_failure_set(&failure, &shared.failing, 0, KINA_ERROR_DEVICE, "on purpose"));
  KinaFailureInfo info{};
  info.struct_size = sizeof info;
  OK(runtime_failure_get(&info, &shared.failing));
  Tensor out;
  EXPECT(runtime_gpu_unary(&out, &shared.failing, KINA_UNARY_NEG), KINA_SUCCESS, KINA_ERROR_FAILED_INPUT);
  int32_t was_failed = 0;
  OK(runtime_failure_clear(&was_failed, &shared.failing));
}

void exchange(Shared& shared) {
  Tensor alias, imported, legacy_alias, legacy_imported;
  OK(runtime_alias(&alias, &shared.a));
  DLManagedTensorVersioned* managed = nullptr;
  OK(runtime_to_dlpack(&managed, &alias, nullptr));
  OK(runtime_from_dlpack(&imported, managed, nullptr));
  OK(runtime_alias(&legacy_alias, &shared.b));
  DLManagedTensor* legacy = nullptr;
  OK(runtime_to_dlpack_legacy(&legacy, &legacy_alias, nullptr));
  OK(runtime_from_dlpack_legacy(&legacy_imported, legacy, nullptr));
}

void movement(Shared& shared) {
  Tensor host, copy, device;
  OK(runtime_copy_to_host(&host, &shared.a));
  OK(runtime_copy(&copy, &shared.a, kDLCPU, 0));
  EXPECT(runtime_copy_to_device(&device, &shared.a, 0), KINA_ERROR_UNSUPPORTED);
}

void arithmetic(Shared& shared) {
  Tensor unary, binary, cast, own;
  OK(runtime_gpu_unary(&unary, &shared.a, KINA_UNARY_EXP));
  OK(runtime_gpu_binary(&binary, &shared.a, &shared.b, KINA_BINARY_MUL));
  OK(runtime_gpu_cast(&cast, &shared.a, KINA_DTYPE_BF16));
  make(own, {kSide}, KINA_DTYPE_F32);
  fill(own, 2);
}

void reductions(Shared& shared) {
  Tensor sum, soft, log_soft;
  OK(runtime_gpu_reduce(&sum, &shared.a, -1, KINA_REDUCE_SUM));
  OK(runtime_gpu_softmax(&soft, &shared.a, 0));
  OK(runtime_gpu_log_softmax(&log_soft, &shared.a, 1));
}

void products(Shared& shared) {
  Tensor plain, scaled;
  OK(runtime_gpu_matmul(&plain, &shared.a, &shared.b, nullptr));
  REQUIRE(static_cast<float*>(plain.dl.data)[0] == kSide * 1.0F * 2.0F);
  KinaMatmulParams params = KINA_MATMUL_PARAMS_INIT;
  params.transpose_b = 1;
  params.activation = KINA_UNARY_RELU;
  OK(runtime_gpu_matmul(&scaled, &shared.a, &shared.b, &params));
}

void picking(Shared& shared) {
  Tensor gathered, along, repeated;
  OK(runtime_gpu_gather(&gathered, &shared.a, &shared.indices));
  OK(runtime_gpu_gather_axis(&along, &shared.a, &shared.indices, 1));
  OK(runtime_gpu_repeat_interleave(&repeated, &shared.a, 0, 2));
}

void reshaping(Shared& shared) {
  Tensor transposed, reshaped, broadcast, sliced, joined, joined_n;
  const int32_t permutation[] = {1, 0};
  const int64_t flat[] = {kSide * kSide}, stacked[] = {3, kSide, kSide};
  OK(runtime_gpu_transpose(&transposed, &shared.a, permutation));
  OK(runtime_gpu_reshape(&reshaped, &shared.a, flat, 1));
  OK(runtime_gpu_broadcast(&broadcast, &shared.a, stacked, 3));
  OK(runtime_gpu_slice(&sliced, &shared.a, 0, 2, 5));
  OK(runtime_gpu_concat(&joined, &shared.a, &shared.b, 0));
  const KinaTensor* const inputs[] = {&shared.a, &shared.b, &shared.a};
  OK(runtime_gpu_concat_n(&joined_n, inputs, 3, 1));
}

using Step = void (*)(Shared&);
constexpr Step kSteps[] = {version_and_status, logging, devices,  streams,   resources, default_resource,
                           pool_of_own,        tensors, sharing,  failures,  exchange,  movement,
                           arithmetic,         picking, products, reshaping, reductions};

void work(Shared& shared, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  std::vector<Step> order(std::begin(kSteps), std::end(kSteps));
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const Step step : order) step(shared);
  }
}

void prepare(Shared& shared) {
  for (KinaTensor* tensor : {&shared.a, &shared.b, &shared.failing}) {
    make(*tensor, {kSide, kSide}, KINA_DTYPE_F32);
    fill(*tensor, tensor == &shared.b ? 2.0F : 1.0F);
  }
  make(shared.indices, {3}, KINA_DTYPE_I64);
  const int64_t one = 1;
  OK(runtime_fill(&shared.indices, &one, sizeof one));
  KinaResource host = nullptr;
  OK(runtime_resource_host(&host));
  OK(runtime_resource_pool(&shared.pool, host, nullptr));
  OK(runtime_resource_release(host));
  OK(runtime_stream_checkout(&shared.stream, kDLCPU, 0));
  OK(runtime_weak_create(&shared.weak, &shared.a));
  OK(runtime_peer_share(&shared.peer, &shared.a));
}

void finish(Shared& shared) {
  OK(runtime_peer_release(shared.peer));
  OK(runtime_weak_release(shared.weak));
  OK(runtime_stream_checkin(shared.stream));
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  OK(runtime_resource_info(&info, shared.pool));
  REQUIRE(info.live_blocks == 0);
  OK(runtime_resource_release(shared.pool));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: every_call THREADS ROUNDS COUNTS\n");
    return 64;
  }
  {
    Shared shared;
    prepare(shared);
    std::vector<std::thread> threads;
    for (int i = 0; i < std::atoi(arguments[1]); ++i)
      threads.emplace_back(
          [&shared, arguments, i] { work(shared, static_cast<unsigned>(i), std::atoi(arguments[2])); });
    for (std::thread& thread : threads) thread.join();
    finish(shared);
  }
  const int missing = kina_write_counts(arguments[3]);
  std::printf("every_call: %s threads, %s rounds, %d functions never called\n", arguments[1], arguments[2], missing);
  return missing == 0 ? 0 : 1;
}
