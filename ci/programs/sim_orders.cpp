// Random programs over simulated devices, judged against plain arrays: finds any wait that the runtime leaves out.
//
// sim_orders --seeds N          runs N random programs, each in a process of its own: all must be right
// sim_orders --drop-each N      leaves out each ordering site in turn (a build with KINA_DROP_SITES): up to N programs
// may
//                               pass before one goes wrong; prints sites and the seed that found each
// sim_orders --program SEED     one program, in this process

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kina_runtime.h"

namespace {

constexpr int kRight = 0, kWrong = 3;
constexpr int32_t kDevices = 2;
constexpr int kSteps = 60;
constexpr int64_t kElements = 64;

// A program that meets a wrong value or an unexpected status ends here; the parent reads the exit code.
[[noreturn]] void wrong(const char* what) {
  std::printf("wrong: %s: %s\n", what, runtime_last_error_message());
  std::fflush(stdout);
  std::_Exit(kWrong);
}

void ok(KinaStatus status, const char* what) {
  if (status != KINA_SUCCESS) wrong(what);
}

using Values = std::vector<int32_t>;

// A tensor on a device and what its elements must be.
struct Pair {
  KinaTensor tensor = KINA_TENSOR_INIT;
  Values values;
  int32_t device = 0;
};

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (int32_t device = 0; device < kDevices; ++device) {
      for (int i = 0; i < 3; ++i) {
        KinaStream stream = nullptr;
        ok(runtime_stream_checkout(&stream, kDLExtDev, device), "checkout");
        streams_[device].push_back(stream);
      }
    }
  }

  void run() {
    for (int step = 0; step < kSteps; ++step) this->step();
    for (Pair& pair : pairs_) verify(pair);
    while (!pairs_.empty()) release(pairs_.size() - 1);
    for (auto& streams : streams_)
      for (KinaStream stream : streams) ok(runtime_stream_checkin(stream), "checkin");
    for (int32_t device = 0; device < kDevices; ++device)
      ok(runtime_device_synchronize(kDLExtDev, device), "synchronize");
  }

 private:
  uint64_t below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }

  // Runs `call` with one of the device's streams pushed, or with none.
  template <class Call>
  void on_some_stream(int32_t device, Call call) {
    KinaScope scope = nullptr;
    const uint64_t choice = below(streams_[device].size() + 1);
    if (choice < streams_[device].size()) ok(runtime_stream_push(&scope, streams_[device][choice]), "push");
    call();
    if (scope != nullptr) ok(runtime_scope_pop(scope), "pop");
  }

  void upload() {
    Pair pair;
    pair.device = static_cast<int32_t>(below(kDevices));
    for (int64_t i = 0; i < kElements; ++i) pair.values.push_back(static_cast<int32_t>(below(1000)));
    KinaTensor host = KINA_TENSOR_INIT;
    const int64_t shape[] = {kElements};
    ok(runtime_alloc(&host, shape, 1, KINA_DTYPE_I32, kDLCPU, 0, nullptr), "alloc host");
    std::memcpy(host.dl.data, pair.values.data(), pair.values.size() * sizeof(int32_t));
    on_some_stream(pair.device, [&] { ok(runtime_copy(&pair.tensor, &host, kDLExtDev, pair.device), "upload"); });
    if (below(2) == 0) {  // the source is reused at once: the copy must have read it, or the write must wait
      const int32_t zero = 0;
      ok(runtime_fill(&host, &zero, sizeof zero), "fill source");
    }
    ok(runtime_free(&host), "free source");
    pairs_.push_back(pair);
  }

  void verify(Pair& pair) {
    KinaTensor host = KINA_TENSOR_INIT;
    on_some_stream(pair.device, [&] { ok(runtime_copy_to_host(&host, &pair.tensor), "read back"); });
    if (std::memcmp(host.dl.data, pair.values.data(), pair.values.size() * sizeof(int32_t)) != 0)
      wrong("values differ");
    ok(runtime_free(&host), "free read back");
  }

  void release(size_t index) {
    ok(runtime_free(&pairs_[index].tensor), "free");
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  Pair* some(int32_t device) {
    std::vector<Pair*> candidates;
    for (Pair& pair : pairs_)
      if (pair.device == device) candidates.push_back(&pair);
    return candidates.empty() ? nullptr : candidates[below(candidates.size())];
  }

  // c = a + b into a new tensor, or a += b in place.
  void add() {
    const auto device = static_cast<int32_t>(below(kDevices));
    Pair* a = some(device);
    Pair* b = some(device);
    if (a == nullptr || (a == b && below(2) == 0)) return;
    Values sum = a->values;
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] = static_cast<int32_t>(static_cast<uint32_t>(sum[i]) + static_cast<uint32_t>(b->values[i]));
    if (below(2) == 0) {
      on_some_stream(
          device, [&] { ok(runtime_gpu_binary(&a->tensor, &a->tensor, &b->tensor, KINA_BINARY_ADD), "add in place"); });
      a->values = sum;
      return;
    }
    Pair made;
    made.device = device;
    made.values = sum;
    on_some_stream(device,
                   [&] { ok(runtime_gpu_binary(&made.tensor, &a->tensor, &b->tensor, KINA_BINARY_ADD), "add"); });
    pairs_.push_back(made);
  }

  void fill() {
    const auto device = static_cast<int32_t>(below(kDevices));
    Pair* pair = some(device);
    if (pair == nullptr) return;
    const auto value = static_cast<int32_t>(below(1000));
    on_some_stream(device, [&] { ok(runtime_fill(&pair->tensor, &value, sizeof value), "fill"); });
    pair->values.assign(pair->values.size(), value);
  }

  void cross() {
    const auto from = static_cast<int32_t>(below(kDevices));
    Pair* source = some(from);
    if (source == nullptr) return;
    Pair made;
    made.device = 1 - from;
    made.values = source->values;
    on_some_stream(made.device,
                   [&] { ok(runtime_copy(&made.tensor, &source->tensor, kDLExtDev, made.device), "copy across"); });
    pairs_.push_back(made);
  }

  // Reads and frees at once: queued work keeps the memory, and the next allocation may get it.
  void use_and_free() {
    if (pairs_.empty()) return;
    const size_t index = below(pairs_.size());
    Pair made;
    made.device = pairs_[index].device;
    made.values = pairs_[index].values;
    for (int32_t& value : made.values) value = static_cast<int32_t>(0U - static_cast<uint32_t>(value));
    on_some_stream(made.device,
                   [&] { ok(runtime_gpu_unary(&made.tensor, &pairs_[index].tensor, KINA_UNARY_NEG), "negate"); });
    release(index);
    pairs_.push_back(made);
  }

  void wait() {
    const auto device = static_cast<int32_t>(below(kDevices));
    KinaStream first = streams_[device][below(3)], second = streams_[1 - device][below(3)];
    switch (below(4)) {
      case 0: return ok(runtime_stream_wait(first, second), "wait");
      case 1: return ok(runtime_stream_synchronize(first), "synchronize");
      case 2: {
        int32_t is_idle = 0;
        return ok(runtime_stream_query(&is_idle, first), "query");
      }
      default:
        if (Pair* pair = some(device)) ok(runtime_tensor_synchronize(&pair->tensor), "tensor synchronize");
    }
  }

  void step() {
    switch (below(10)) {
      case 0:
      case 1: return upload();
      case 2:
      case 3: return add();
      case 4: return fill();
      case 5: return cross();
      case 6: return use_and_free();
      case 7:
        if (!pairs_.empty()) verify(pairs_[below(pairs_.size())]);
        return;
      case 8:
        if (pairs_.size() > 6) release(below(pairs_.size()));
        return;
      default: return wait();
    }
  }

  std::mt19937_64 random_;
  std::vector<KinaStream> streams_[kDevices];
  std::vector<Pair> pairs_;
};

// The exit code of one program in a child process; anything that is no exit counts as wrong.
int outcome(uint64_t seed, const std::string& dropped, const std::string& log) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("KINA_SIM_DEVICES", std::to_string(kDevices).c_str(), 1);
    setenv("KINA_SIM_SEED", std::to_string(seed).c_str(), 1);
    if (!dropped.empty()) {
      setenv("KINA_DROP_SITE", dropped.c_str(), 1);
      if (std::freopen("/dev/null", "w", stdout) == nullptr) std::_Exit(kWrong);
    }
    if (!log.empty()) setenv("KINA_SITE_LOG", log.c_str(), 1);
    alarm(20);
    Program(seed).run();
    std::_Exit(kRight);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : kWrong;
}

int run_seeds(uint64_t count) {
  uint64_t alarms = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    if (outcome(seed, "", "") == kRight) continue;
    std::printf("seed %llu went wrong\n", static_cast<unsigned long long>(seed));
    ++alarms;
  }
  std::printf("%llu programs, %llu went wrong\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(alarms));
  return alarms == 0 ? 0 : 1;
}

std::set<std::string> sites_of(uint64_t seeds) {
  char path[] = "/tmp/kina-sites-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return {};
  close(file);
  for (uint64_t seed = 1; seed <= seeds; ++seed) outcome(seed, "", path);
  std::set<std::string> sites;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) sites.insert(line);
  unlink(path);
  return sites;
}

int drop_each(uint64_t limit) {
  const std::set<std::string> sites = sites_of(20);
  uint64_t found = 0;
  for (const std::string& site : sites) {
    uint64_t seed = 1;
    while (seed <= limit && outcome(seed, site, "") == kRight) ++seed;
    if (seed <= limit) {
      ++found;
      std::printf("%-24s found by seed %llu\n", site.c_str(), static_cast<unsigned long long>(seed));
    } else {
      std::printf("%-24s NOT FOUND in %llu seeds\n", site.c_str(), static_cast<unsigned long long>(limit));
    }
  }
  std::printf("sites %zu, found %llu\n", sites.size(), static_cast<unsigned long long>(found));
  return sites.empty() || found != sites.size() ? 1 : 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  const uint64_t number = count > 2 ? std::strtoull(words[2], nullptr, 10) : 200;
  if (mode == "--seeds") return run_seeds(number);
  if (mode == "--drop-each") return drop_each(number);
  if (mode == "--program") return Program(number).run(), 0;
  std::fprintf(stderr, "usage: sim_orders --seeds N | --drop-each N | --program SEED\n");
  return 64;
}
