// What PyTorch does for the same, timed beside the rows on tensors: a shared object of its own, so that everything else
// is built and runs where there is no PyTorch. It has a dlpack.h of its own: nothing here includes kina_runtime.h.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <c10/core/InferenceMode.h>
#ifdef KINA_BENCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "benchmark: PyTorch: %s\n", what);
  std::exit(1);
}

// The operands of tensors.c.
struct Operands {
  explicit Operands(c10::DeviceType device) : options(at::TensorOptions().device(device).dtype(at::kFloat)) {
    const c10::InferenceMode mode;
    source = at::ones({4, 8}, options);
    other = at::ones({4, 8}, options);
    result = at::zeros({4, 8}, options);
  }
  at::TensorOptions options;
  at::Tensor source, other, result;
};
Operands& on_host() {
  static Operands all(c10::kCPU);
  return all;
}

// As bench.h has it.
using Body = void(void* job, uint64_t first, uint64_t count);

// No gradients and no versions, as in a program that only computes.
template <class Once>
void repeat(uint64_t count, Once&& once) {
  const c10::InferenceMode mode;
  for (uint64_t at = 0; at < count; ++at) once();
}

// The bodies of tensors.c on one device.
template <Operands& (*operands)()>
struct On {
  static void alloc_and_free(void* /*job*/, uint64_t /*first*/, uint64_t count) {
    repeat(count, [] { at::empty({4, 8}, operands().options); });
  }
  static at::Tensor view() { return operands().source.as_strided({2, 4}, {16, 2}, 8); }
  static void view_and_free(void* /*job*/, uint64_t /*first*/, uint64_t count) { repeat(count, view); }
  static at::Tensor alias() { return at::alias(operands().source); }
  static void alias_and_free(void* /*job*/, uint64_t /*first*/, uint64_t count) { repeat(count, alias); }
  static at::Tensor imported() { return at::fromDLPack(at::toDLPack(alias())); }
  static void alias_export_import_and_free(void* /*job*/, uint64_t /*first*/, uint64_t count) {
    repeat(count, imported);
  }
  static void add() { at::add_out(operands().result, operands().source, operands().other); }
  static void add_32_elements(void* /*job*/, uint64_t /*first*/, uint64_t count) { repeat(count, add); }

  static void check(void* /*job*/, uint64_t /*first*/, uint64_t /*count*/) {
    const c10::InferenceMode mode;
    const auto* start = static_cast<float*>(operands().source.data_ptr());
    require(view().data_ptr() == start + 8, "a view starts elsewhere");
    require(imported().data_ptr() == start, "an import is a copy");
    add();
    require(operands().result.sum().item<float>() == 64, "a sum is wrong");
  }
};

#ifdef KINA_BENCH_CUDA
constexpr size_t kPairBytes = 4096;

Operands& on_gpu() {
  static Operands all(c10::kCUDA);
  return all;
}
void require(cudaError_t error) { require(error == cudaSuccess, cudaGetErrorString(error)); }

void wait(void* /*job*/, uint64_t /*first*/, uint64_t /*count*/) { require(cudaDeviceSynchronize()); }

// A kernel that does nothing, in the driver's own language: no CUDA compiler is needed.
cudaKernel_t empty_kernel() {
  static const cudaKernel_t kernel = [] {
    cudaLibrary_t library = nullptr;
    cudaKernel_t found = nullptr;
    const char* code = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    require(cudaLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
    require(cudaLibraryGetKernel(&found, library, "nothing"));
    return found;
  }();
  return kernel;
}
void empty_launch(void* /*job*/, uint64_t /*first*/, uint64_t count) {
  const void* kernel = empty_kernel();
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  for (uint64_t at = 0; at < count; ++at) require(cudaLaunchKernel(kernel, dim3(1), dim3(128), nullptr, 0, stream));
}

void caching_allocator_pair(void* /*job*/, uint64_t /*first*/, uint64_t count) {
  on_gpu();
  for (uint64_t at = 0; at < count; ++at)
    c10::cuda::CUDACachingAllocator::raw_delete(c10::cuda::CUDACachingAllocator::raw_alloc(kPairBytes));
}
void malloc_pair(void* /*job*/, uint64_t /*first*/, uint64_t count) {
  for (uint64_t at = 0; at < count; ++at) {
    void* data = nullptr;
    require(cudaMalloc(&data, kPairBytes));
    require(cudaFree(data));
  }
}
// The driver's pool keeps what it has, as a program that wants speed sets it.
void malloc_async_pair(void* /*job*/, uint64_t /*first*/, uint64_t count) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  cudaMemPool_t pool = nullptr;
  uint64_t keep_all = UINT64_MAX;
  require(cudaDeviceGetDefaultMemPool(&pool, 0));
  require(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  for (uint64_t at = 0; at < count; ++at) {
    void* data = nullptr;
    require(cudaMallocAsync(&data, kPairBytes, stream));
    require(cudaFreeAsync(data, stream));
  }
}
#endif

constexpr struct {
  std::string_view name;
  Body* body;
} kBodies[] = {
    {"host/check", &On<on_host>::check},
    {"host/alloc_and_free", &On<on_host>::alloc_and_free},
    {"host/view_and_free", &On<on_host>::view_and_free},
    {"host/alias_and_free", &On<on_host>::alias_and_free},
    {"host/alias_export_import_and_free", &On<on_host>::alias_export_import_and_free},
    {"host/add_32_elements", &On<on_host>::add_32_elements},
#ifdef KINA_BENCH_CUDA
    {"cuda/check", &On<on_gpu>::check},
    {"cuda/alloc_and_free", &On<on_gpu>::alloc_and_free},
    {"cuda/view_and_free", &On<on_gpu>::view_and_free},
    {"cuda/alias_and_free", &On<on_gpu>::alias_and_free},
    {"cuda/alias_export_import_and_free", &On<on_gpu>::alias_export_import_and_free},
    {"cuda/add_32_elements", &On<on_gpu>::add_32_elements},
    {"cuda/empty_launch", &empty_launch},
    {"cuda/caching_allocator_pair", &caching_allocator_pair},
    {"cuda/malloc_pair", &malloc_pair},
    {"cuda/malloc_async_pair", &malloc_async_pair},
    {"cuda/wait", &wait},
#endif
};

}  // namespace

// All that torch_rows.cpp asks of this object.
extern "C" __attribute__((visibility("default"))) Body* torch_body(const char* name) {
  for (const auto& each : kBodies)
    if (each.name == name) return each.body;
  return nullptr;
}
