// Opens OpenBLAS once and lets products through a gate that keeps the library within its own limits.
#include "impl/cpu/openblas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace kina::cpu {
namespace {

// The serial build only: the one with threads starts them when it is opened, prints, and raises SIGINT when it cannot.
// The file that the name libopenblas.so.0 alone would find can be either.
#if defined(__linux__) && defined(__x86_64__)
constexpr const char* kFile = "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0";
#elif defined(__linux__) && defined(__aarch64__)
constexpr const char* kFile = "/usr/lib/aarch64-linux-gnu/openblas-serial/libopenblas.so.0";
#else
constexpr const char* kFile = nullptr;
#endif

template <class T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a, int lda,
                      const T* b, int ldb, T beta, T* c, int ldc);
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

struct Library {
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
};

template <class Function>
Function symbol(void* file, const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(file, name));
}

// A library that is absent, has threads, or has 64-bit integers gives no functions.
Library open_library() noexcept {
  const char* const choice = std::getenv("KINA_OPENBLAS");
  if (kFile == nullptr || (choice != nullptr && std::strcmp(choice, "off") == 0)) return {};
  void* const file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return {};
  const auto parallel = symbol<int (*)()>(file, "openblas_get_parallel");
  const auto config = symbol<const char* (*)()>(file, "openblas_get_config");
  if (parallel == nullptr || parallel() != 0 || config == nullptr || std::strstr(config(), "USE64BITINT") != nullptr)
    return {};
  return {symbol<Gemm<float>>(file, "cblas_sgemm"), symbol<Gemm<double>>(file, "cblas_dgemm")};
}

// The serial build gives two threads one work buffer now and then (docs/decisions/014), loops for ever when it cannot
// map one, and its own lock does not survive fork. So at most kMostRunning products run at once, each new degree of
// concurrency first shows that a buffer can be mapped, and a fork lets none begin and waits for those that run. Plain
// pthread objects: nothing here is destroyed at exit.
constexpr int kMostRunning = 1;
constexpr size_t kBufferBytes = size_t{256} << 20;

struct Gate {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  int running = 0;
  int forks = 0;    // threads that wait to fork
  int buffers = 0;  // highest number of products that ran at once
};
constinit Gate gate;
constinit std::atomic<const Library*> library{nullptr};
constinit Library loaded;

void lock_for_fork() noexcept {
  pthread_mutex_lock(&gate.mutex);
  ++gate.forks;
  while (gate.running > 0) pthread_cond_wait(&gate.changed, &gate.mutex);
}
void unlock_after_fork() noexcept {
  --gate.forks;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}
// Threads that waited here exist no more in the child.
void reset_in_child() noexcept {
  gate.mutex = PTHREAD_MUTEX_INITIALIZER;
  gate.changed = PTHREAD_COND_INITIALIZER;
  gate.forks = 0;
}

const Library& opened() noexcept {
  if (const Library* const found = library.load(std::memory_order_acquire)) return *found;
  pthread_mutex_lock(&gate.mutex);
  if (library.load(std::memory_order_relaxed) == nullptr) {
    if (pthread_atfork(&lock_for_fork, &unlock_after_fork, &reset_in_child) == 0) loaded = open_library();
    library.store(&loaded, std::memory_order_release);
  }
  pthread_mutex_unlock(&gate.mutex);
  return loaded;
}

bool can_map_buffer() noexcept {
  void* const probe = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return probe != MAP_FAILED && munmap(probe, kBufferBytes) == 0;
}

bool enter() noexcept {
  pthread_mutex_lock(&gate.mutex);
  while (gate.running == kMostRunning || gate.forks > 0) pthread_cond_wait(&gate.changed, &gate.mutex);
  const bool may_run = gate.running < gate.buffers || can_map_buffer();
  if (may_run && ++gate.running > gate.buffers) gate.buffers = gate.running;
  pthread_mutex_unlock(&gate.mutex);
  return may_run;
}

void leave() noexcept {
  pthread_mutex_lock(&gate.mutex);
  --gate.running;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}

template <class T>
bool run(Gemm<T> gemm, const BlasProduct<T>& product) noexcept {
  if (gemm == nullptr || !enter()) return false;
  const auto transpose = [](const auto& matrix) { return matrix.is_transposed ? kTranspose : kNoTranspose; };
  gemm(kRowMajor, transpose(product.a), transpose(product.b), product.m, product.n, product.k, T{1}, product.a.data,
       product.a.leading, product.b.data, product.b.leading, T{0}, product.out.data, product.out.leading);
  leave();
  return true;
}

}  // namespace

bool is_openblas_usable() noexcept { return opened().sgemm != nullptr && opened().dgemm != nullptr; }
bool openblas_product(const BlasProduct<float>& product) noexcept { return run(opened().sgemm, product); }
bool openblas_product(const BlasProduct<double>& product) noexcept { return run(opened().dgemm, product); }

}  // namespace kina::cpu
