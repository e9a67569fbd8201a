// Threads that make, use, hand over and free tensors of the host and of two simulated devices, each tensor with what
// its elements must be: a wrong value or status ends the program with the thread's seed and step.
//
// stress THREADS OPERATIONS [SEED]

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kina_runtime.h"

namespace {

constexpr int32_t kHost = 2;  // a place: simulated devices 0 and 1, and the host
constexpr size_t kMostItems = 12;
constexpr int64_t kSizes[] = {16, 320, 2048};
using Values = std::vector<int32_t>;

struct Item {
  KinaTensor tensor = KINA_TENSOR_INIT;
  DLManagedTensorVersioned* exported = nullptr;  // on its way to another thread
  KinaStream stream = nullptr;                   // of the export
  KinaWeak weak = nullptr;                       // instead of a tensor
  Values values;
  int32_t place = kHost;
  bool is_constant = false;  // others may look at its bytes: nobody writes them again
};

class Mailbox {
 public:
  void put(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  bool take(Item& item) {
    const std::lock_guard lock(mutex_);
    if (items_.empty()) return false;
    item = std::move(items_.front());
    items_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<Item> items_;
};

class Worker {
 public:
  Worker(size_t number, std::vector<Mailbox>& mailboxes, uint64_t seed)
      : number_(number), mailboxes_(mailboxes), seed_(seed), random_(seed) {}

  void run(uint64_t operations) {
    for (int32_t device = 0; device < kHost; ++device)
      for (KinaStream& stream : streams_[device]) ok(runtime_stream_checkout(&stream, kDLExtDev, device));
    for (step_ = 0; step_ < operations; ++step_) {
      const size_t kind = below(std::size(kKinds));
      if (kKinds[kind].needs_item && items_.empty()) make();
      (this->*kKinds[kind].run)();
      counts[kind].fetch_add(1, std::memory_order_relaxed);
    }
    while (!items_.empty()) end(items_.size() - 1);
  }

  // After all threads: what is still under way to this one.
  void finish() {
    while (receive_one()) end(items_.size() - 1);
  }
  // After all imports, which name these streams.
  void end_streams() {
    for (auto& streams : streams_)
      for (KinaStream stream : streams) ok(runtime_stream_checkin(stream));
  }

  static void report() {
    for (size_t kind = 0; kind < std::size(kKinds); ++kind)
      std::printf("%-12s %10llu\n", kKinds[kind].name, static_cast<unsigned long long>(counts[kind].load()));
  }

 private:
  struct Kind {
    const char* name;
    void (Worker::*run)();
    bool needs_item;
  };
  static const Kind kKinds[18];
  static inline std::atomic<uint64_t> counts[18];

  [[noreturn]] void wrong(const char* what, KinaStatus status = KINA_SUCCESS) {
    std::printf("wrong: thread of seed %llu, step %llu: %s: %s: %s\n", static_cast<unsigned long long>(seed_),
                static_cast<unsigned long long>(step_), what, runtime_status_name(status),
                runtime_last_error_message());
    std::fflush(stdout);
    std::_Exit(3);
  }
  void expect(KinaStatus status, KinaStatus wanted) {
    if (status != wanted) wrong("another status than the model's", status);
  }
  void ok(KinaStatus status) { expect(status, KINA_SUCCESS); }

  uint64_t below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }
  Item& some() { return items_[below(items_.size())]; }
  KinaStream some_stream(int32_t device) { return streams_[device][below(std::size(streams_[device]))]; }
  static int32_t type_of(int32_t place) { return place == kHost ? kDLCPU : kDLExtDev; }
  static int32_t id_of(int32_t place) { return place == kHost ? 0 : place; }

  // Runs `call` inside a scope of the place, or in none.
  template <class Call>
  void anywhere(int32_t place, Call call) {
    KinaScope scope = nullptr;
    if (place != kHost && below(4) != 0) ok(runtime_stream_push(&scope, some_stream(place)));
    if (place != kHost && scope == nullptr) ok(runtime_device_push(&scope, kDLExtDev, place));
    call();
    if (scope != nullptr) ok(runtime_scope_pop(scope));
  }

  void keep(Item item) {
    items_.push_back(std::move(item));
    if (items_.size() > kMostItems) end(below(items_.size()));
  }

  void end(size_t index) {
    ok(runtime_free(&items_[index].tensor));
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void check(const KinaTensor& tensor, const Values& values) {
    KinaTensor host = KINA_TENSOR_INIT;
    ok(runtime_copy_to_host(&host, &tensor));
    const auto* data = static_cast<const std::byte*>(host.dl.data) + host.dl.byte_offset;
    if (std::memcmp(data, values.data(), values.size() * sizeof(int32_t)) != 0) wrong("another value than the model's");
    ok(runtime_free(&host));
  }

  void make() {
    Item item;
    item.place = static_cast<int32_t>(below(kHost + 1));
    item.is_constant = below(4) == 0;
    const int64_t count = kSizes[below(std::size(kSizes))];
    const auto value = static_cast<int32_t>(below(1000));
    KinaStream stream = item.place == kHost ? nullptr : some_stream(item.place);
    ok(runtime_alloc(&item.tensor, &count, 1, KINA_DTYPE_I32, type_of(item.place), id_of(item.place), stream));
    anywhere(item.place, [&] { ok(runtime_fill(&item.tensor, &value, sizeof value)); });
    item.values.assign(static_cast<size_t>(count), value);
    keep(item);
  }

  void fill() {
    Item& item = some();
    if (item.is_constant) return;
    const auto value = static_cast<int32_t>(below(1000));
    anywhere(item.place, [&] { ok(runtime_fill(&item.tensor, &value, sizeof value)); });
    item.values.assign(item.values.size(), value);
  }

  void copy() {
    const Item& item = some();
    Item made;
    made.values = item.values;
    made.place = static_cast<int32_t>(below(kHost + 1));
    anywhere(made.place == kHost ? item.place : made.place,
             [&] { ok(runtime_copy(&made.tensor, &item.tensor, type_of(made.place), id_of(made.place))); });
    keep(made);
  }

  void add() {
    Item& item = some();
    Item made;
    made.place = item.place;
    const bool is_in_place = !item.is_constant && below(2) == 0;
    KinaTensor& out = is_in_place ? item.tensor : made.tensor;
    anywhere(item.place, [&] { ok(runtime_gpu_binary(&out, &item.tensor, &item.tensor, KINA_BINARY_ADD)); });
    made.values = item.values;
    for (int32_t& value : made.values) value = static_cast<int32_t>(2U * static_cast<uint32_t>(value));
    if (is_in_place)
      item.values = made.values;
    else
      keep(made);
  }

  // The upper half alone, through a view.
  void view() {
    Item& item = some();
    if (item.is_constant) return;
    const auto half = static_cast<int64_t>(item.values.size() / 2);
    const auto value = static_cast<int32_t>(below(1000));
    KinaTensor upper = KINA_TENSOR_INIT;
    ok(runtime_view(&upper, &item.tensor, &half, nullptr, 1, half, 0));
    anywhere(item.place, [&] { ok(runtime_fill(&upper, &value, sizeof value)); });
    ok(runtime_free(&upper));
    std::fill(item.values.begin() + half, item.values.begin() + 2 * half, value);
  }

  void rename() {
    Item& item = some();
    KinaTensor other = KINA_TENSOR_INIT;
    ok(runtime_alias(&other, &item.tensor));
    ok(runtime_free(&item.tensor));
    item.tensor = other;
  }

  void verify() {
    const Item& item = some();
    anywhere(item.place, [&] { check(item.tensor, item.values); });
  }

  void release() { end(below(items_.size())); }

  Mailbox& other() { return mailboxes_[below(mailboxes_.size())]; }

  void hand_over() {
    const size_t index = below(items_.size());
    other().put(items_[index]);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // What comes in by DLPack is only read: readers on other streams may still be under way.
  void hand_export() {
    const size_t index = below(items_.size());
    Item item = items_[index];
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
    item.is_constant = true;
    KinaDlpackParams params = KINA_DLPACK_PARAMS_INIT;
    if (item.place != kHost) params.stream = item.stream = streams_[item.place][0];  // never exchanged
    ok(runtime_to_dlpack(&item.exported, &item.tensor, &params));
    other().put(item);
  }

  void hand_weak() {
    Item& item = some();
    if (!item.is_constant) return;
    Item sent;
    sent.values = item.values;
    sent.place = item.place;
    ok(runtime_weak_create(&sent.weak, &item.tensor));
    other().put(sent);
  }

  void upgrade(Item& item) {
    KinaTensor tensor = KINA_TENSOR_INIT;
    const KinaStatus status = runtime_weak_upgrade(&tensor, item.weak);
    if (status != KINA_ERROR_INVALID_HANDLE) {
      ok(status);
      check(tensor, item.values);
      ok(runtime_free(&tensor));
    }
    ok(runtime_weak_release(item.weak));
  }

  bool receive_one() {
    Item item;
    while (mailboxes_[number_].take(item)) {
      if (item.weak != nullptr) {
        upgrade(item);
        continue;
      }
      if (item.exported != nullptr) {
        KinaDlpackParams params = KINA_DLPACK_PARAMS_INIT;
        params.stream = item.stream;
        ok(runtime_from_dlpack(&item.tensor, item.exported, &params));
        item.exported = nullptr;
      }
      items_.push_back(item);
      return true;
    }
    return false;
  }

  void receive() {
    if (receive_one() && items_.size() > kMostItems) end(below(items_.size()));
  }

  void exchange() {
    const auto device = static_cast<int32_t>(below(kHost));
    KinaStream& stream = streams_[device][1 + below(2)];
    ok(runtime_stream_checkin(stream));
    ok(runtime_stream_checkout(&stream, kDLExtDev, device));
  }

  void fail_and_repair() {
    Item& item = some();
    if (item.is_constant) return;
    uint64_t failure = 0;
    ok(runtime_failure_set(&failure, &item.tensor, 0, KINA_ERROR_DEVICE, "stress"));
    KinaTensor host = KINA_TENSOR_INIT;
    expect(runtime_copy_to_host(&host, &item.tensor), KINA_ERROR_FAILED_INPUT);
    const auto value = static_cast<int32_t>(below(1000));
    ok(runtime_fill(&item.tensor, &value, sizeof value));
    item.values.assign(item.values.size(), value);
  }

  void record_use() {
    const Item& item = some();
    if (item.place == kHost) return;
    ok(runtime_tensor_record_use(&item.tensor, some_stream(item.place), KINA_ACCESS_READ));
  }

  void trim() {
    KinaResource resource = nullptr;
    uint64_t released = 0;
    ok(runtime_resource_current(&resource, kDLExtDev, static_cast<int32_t>(below(kHost))));
    ok(runtime_resource_trim(&released, resource, 0));
  }

  void wait() {
    const auto device = static_cast<int32_t>(below(kHost));
    ok(runtime_stream_wait(some_stream(device), some_stream(1 - device)));
  }

  void synchronize() {
    const Item& item = some();
    ok(runtime_tensor_synchronize(&item.tensor));
    int32_t is_idle = 0;
    if (item.place != kHost) ok(runtime_stream_query(&is_idle, some_stream(item.place)));
  }

  size_t number_;
  std::vector<Mailbox>& mailboxes_;
  uint64_t seed_;
  uint64_t step_ = 0;
  std::mt19937_64 random_;
  KinaStream streams_[kHost][3] = {};
  std::vector<Item> items_;
};

const Worker::Kind Worker::kKinds[18] = {
    {"make", &Worker::make, false},
    {"fill", &Worker::fill, true},
    {"copy", &Worker::copy, true},
    {"add", &Worker::add, true},
    {"view", &Worker::view, true},
    {"rename", &Worker::rename, true},
    {"verify", &Worker::verify, true},
    {"release", &Worker::release, true},
    {"hand over", &Worker::hand_over, true},
    {"export", &Worker::hand_export, true},
    {"weak", &Worker::hand_weak, true},
    {"receive", &Worker::receive, false},
    {"exchange", &Worker::exchange, false},
    {"fail", &Worker::fail_and_repair, true},
    {"record use", &Worker::record_use, true},
    {"trim", &Worker::trim, false},
    {"wait", &Worker::wait, false},
    {"synchronize", &Worker::synchronize, true},
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: stress THREADS OPERATIONS [SEED]\n");
    return 64;
  }
  const size_t threads = std::strtoull(words[1], nullptr, 10);
  const uint64_t operations = std::strtoull(words[2], nullptr, 10);
  const uint64_t seed = count > 3 ? std::strtoull(words[3], nullptr, 10) : 1;
  setenv("KINA_SIM_DEVICES", "2", 1);
  setenv("KINA_SIM_SEED", std::to_string(seed).c_str(), 1);
  KinaResource base = nullptr, pool = nullptr;
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.initial_bytes = uint64_t{1} << 20;
  if (runtime_resource_current(&base, kDLExtDev, 0) != KINA_SUCCESS ||
      runtime_resource_pool(&pool, base, &params) != KINA_SUCCESS ||
      runtime_resource_set_default(nullptr, kDLExtDev, 0, pool) != KINA_SUCCESS) {
    std::printf("wrong: no pool: %s\n", runtime_last_error_message());
    return 3;
  }
  std::vector<Mailbox> mailboxes(threads);
  std::deque<Worker> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(i, mailboxes, seed * 1000 + i);
  std::vector<std::thread> running;
  for (Worker& worker : workers) running.emplace_back([&] { worker.run(operations / threads); });
  for (std::thread& thread : running) thread.join();
  for (Worker& worker : workers) worker.finish();
  for (Worker& worker : workers) worker.end_streams();
  Worker::report();
  std::printf("%llu operations of %zu threads, each as the model says\n", static_cast<unsigned long long>(operations),
              threads);
  std::fflush(stdout);
  std::_Exit(0);
}
