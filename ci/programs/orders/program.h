// A random program over two simulated devices and what its tensors must hold: wrong order shows as a wrong value, as a
// report of the simulated device, or as a call of the driver that known order makes superfluous.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kina_runtime.h"
#include "kina_simulated.h"

namespace orders {

constexpr int32_t kDevices = 2;
constexpr int64_t kLargest = 2048;  // elements of a tensor
constexpr int kRight = 0, kWrong = 3;

// A program that meets a wrong value or an unexpected status ends here; its parent reads the exit code.
[[noreturn]] void wrong(const char* what);
void ok(KinaStatus status, const char* what);
void require(bool is_so, const char* what);

using Values = std::vector<int32_t>;
uint64_t bytes_of(const Values& values);

// A tensor on a device and what its elements must be.
struct Pair {
  KinaTensor tensor = KINA_TENSOR_INIT;
  Values values;
  int32_t device = 0;
};

// A tensor of the host with these values.
KinaTensor host_tensor(const Values& values);

class Program {
 public:
  explicit Program(uint64_t seed);
  void run();

 private:
  // program.cpp: values go up, are worked on across streams and devices, and come back.
  uint64_t below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }
  int32_t some_device() { return static_cast<int32_t>(below(kDevices)); }
  Values some_values();
  KinaStream some_stream(int32_t device);
  Pair* some(int32_t device);
  Pair* alike(const Pair& other);
  // Runs `call` with one of the device's streams pushed, with a device scope, or with none.
  template <class Call>
  void on_some_stream(int32_t device, Call call);
  template <class Call>
  void on(KinaStream stream, Call call);
  void step();
  void base_step();
  void upload();
  void add();
  void fill();
  void cross();
  void use_and_free();
  void gather();
  void verify(Pair& pair);
  void release(size_t index);
  void exchange_stream();
  void rename();

  // waits.cpp: what the caller may rely on after each kind of wait, and what known order costs.
  void reuse_source();
  void finish(int32_t device, KinaStream& stream, const Pair& written);
  KinaTensor wrapped(int32_t device, void* block, const Values& values);
  void use_raw_block();
  void share_raw_record();
  void read_back_later();
  KinaResource make_unordered_resource(int32_t device);
  void use_unordered_resource();
  void repeat_wait();
  void wait_through_third();
  void wait_twice_for_one();
  void wait_after_host();
  KinaStream busy_stream(int32_t device);
  KinaSimCounts calls();
  void expect_calls(const KinaSimCounts& before, const KinaSimCounts& allowed, const char* what);

  // memory.cpp: blocks that many streams used, and releases for which no memory of the host is left.
  void choose_resources();
  KinaResource above(KinaResource pool);
  void trim();
  KinaScope push_small_pool(int32_t device);
  void pop_small_pool(KinaScope scope);
  KinaTensor filled(int32_t device, int64_t count, KinaStream stream, int32_t value);
  void crowd();
  void free_without_memory();
  void release_import(KinaStream stream);

  // foreign.cpp: work that the library did not enqueue, exports, imports and peers.
  void make_foreign(int32_t device);
  void end_foreign(int32_t device);
  KinaSimStream* native(int32_t device) const { return foreign_[device].native; }
  void copy_foreign(int32_t device, void* to, const void* from, const Values& values);
  void follow_all(KinaStream stream);
  void all_follow(KinaStream stream);
  void write_scratch(int32_t device, const Values& values);
  void check_scratch(int32_t device, const Values& values);
  void use_by_foreign_work();
  void share_with_foreign_work();
  void synchronize_foreign();
  void export_tensor();
  void import_block();
  void use_as_peer();

  // imports.cpp: streams that come and go.
  struct Import {
    int32_t device = 0;
    KinaStream stream = nullptr;
    KinaSimStream* native = nullptr;
  };
  KinaResource make_naming_resource(int32_t device);
  void import_stream();
  void end_import(const Import& import);
  Pair uploaded_by(const Import& import);
  void serve_past_name(Import& import);
  void free_past_name(const Import& import);

  struct Foreign {
    KinaStream stream = nullptr;  // one with work that the library does not see
    KinaSimStream* native = nullptr;
    bool is_imported = false;
    void* scratch = nullptr;  // raw memory that only this stream uses
  };

  std::mt19937_64 random_;
  std::vector<KinaStream> streams_[kDevices];
  Foreign foreign_[kDevices];
  KinaResource unordered_[kDevices] = {};  // custom ones that are not stream-ordered
  KinaResource naming_[kDevices] = {};     // custom ones that are
  KinaResource small_pool_ = nullptr;
  std::vector<Pair> pairs_;
};

template <class Call>
void Program::on(KinaStream stream, Call call) {
  KinaScope scope = nullptr;
  ok(runtime_stream_push(&scope, stream), "push");
  call();
  ok(runtime_scope_pop(scope), "pop");
}

template <class Call>
void Program::on_some_stream(int32_t device, Call call) {
  const uint64_t choice = below(streams_[device].size() + 2);
  if (choice < streams_[device].size()) return on(streams_[device][choice], call);
  KinaScope scope = nullptr;
  if (choice == streams_[device].size()) ok(runtime_device_push(&scope, kDLExtDev, device), "device push");
  call();
  if (scope != nullptr) ok(runtime_scope_pop(scope), "pop");
}

}  // namespace orders
