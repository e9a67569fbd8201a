// weak_races: one thread makes, names and frees tensors, others upgrade the newest name and read through it.
//
// Usage: weak_races DEVICE_TYPE ROUNDS. An upgrade gives the tensor with its own bytes or is refused; both must have
// been seen, so that the race was one. With KINA_SIM_DEVICES set, device type 12 works too.
#include <kina_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kReaders = 2;
constexpr int64_t kCount = 32;

void stop(const char* what, int line) {
  std::fprintf(stderr, "weak_races.cpp:%d: %s; the last error says: %s\n", line, what, runtime_last_error_message());
  std::exit(1);
}
#define REQUIRE(condition) ((condition) ? (void)0 : stop(#condition, __LINE__))

struct Name {
  KinaWeak weak;
  int32_t value;
};
std::atomic<const Name*> g_newest{nullptr};
std::atomic<bool> g_is_over{false};
std::atomic<uint64_t> g_upgrades{0}, g_refusals{0};

// Pauses of many lengths, so that threads meet at every place.
void pause(uint64_t turns) {
  for (; turns > 0; --turns) std::atomic_signal_fence(std::memory_order_seq_cst);
}

void make(int32_t device_type, std::vector<Name>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    KinaTensor x = KINA_TENSOR_INIT;
    const auto value = static_cast<int32_t>(i);
    REQUIRE(runtime_alloc(&x, &kCount, 1, KINA_DTYPE_I32, device_type, 0, nullptr) == KINA_SUCCESS);
    REQUIRE(runtime_fill(&x, &value, sizeof(value)) == KINA_SUCCESS);
    REQUIRE(runtime_weak_create(&names[i].weak, &x) == KINA_SUCCESS);
    names[i].value = value;
    g_newest.store(&names[i]);
    pause(i * 37 % 2000 * (device_type == kDLCPU ? 1 : 100));  // a free on a device takes that much longer
    REQUIRE(runtime_free(&x) == KINA_SUCCESS);
    if (i % 3 == 0) REQUIRE(runtime_weak_release(names[i].weak) == KINA_SUCCESS);
  }
  g_is_over.store(true);
}

void read(const Name& name) {
  KinaTensor x = KINA_TENSOR_INIT;
  KinaTensor seen = KINA_TENSOR_INIT;
  const KinaStatus status = runtime_weak_upgrade(&x, name.weak);
  REQUIRE(status == KINA_SUCCESS || status == KINA_ERROR_INVALID_HANDLE);
  if (status != KINA_SUCCESS) {
    g_refusals.fetch_add(1);
    return;
  }
  g_upgrades.fetch_add(1);
  REQUIRE(runtime_copy_to_host(&seen, &x) == KINA_SUCCESS);
  REQUIRE(runtime_free(&x) == KINA_SUCCESS);
  const auto* elements = static_cast<const int32_t*>(seen.dl.data);
  for (int64_t i = 0; i < kCount; ++i) REQUIRE(elements[i] == name.value);
  REQUIRE(runtime_free(&seen) == KINA_SUCCESS);
}

void upgrade(uint64_t number) {
  for (uint64_t turn = number; !g_is_over.load(); ++turn) {
    const Name* name = g_newest.load();
    if (name != nullptr) read(*name);
    pause(turn * 53 % 1500);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  std::vector<Name> names(std::strtoull(argv[2], nullptr, 10));
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < kReaders; ++i) readers.emplace_back(upgrade, i);
  make(std::atoi(argv[1]), names);
  for (std::thread& reader : readers) reader.join();
  std::printf("%llu upgrades, %llu refusals\n", static_cast<unsigned long long>(g_upgrades.load()),
              static_cast<unsigned long long>(g_refusals.load()));
  REQUIRE(g_upgrades.load() > 0);
  REQUIRE(g_refusals.load() > 0);
  return 0;
}
