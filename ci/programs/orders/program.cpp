// The body of the random program: uploads, arithmetic, copies across, frees, and the choice of what comes next.
#include "ci/programs/orders/program.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace orders {
namespace {

constexpr int kSteps = 60;
constexpr int64_t kSizes[] = {64, 320, kLargest};

}  // namespace

void wrong(const char* what) {
  std::printf("wrong: %s: %s\n", what, runtime_last_error_message());
  std::fflush(stdout);
  std::_Exit(kWrong);
}

void ok(KinaStatus status, const char* what) {
  if (status != KINA_SUCCESS) wrong(what);
}

void require(bool is_so, const char* what) {
  if (!is_so) wrong(what);
}

uint64_t bytes_of(const Values& values) { return values.size() * sizeof(int32_t); }

KinaTensor host_tensor(const Values& values) {
  KinaTensor host = KINA_TENSOR_INIT;
  const auto count = static_cast<int64_t>(values.size());
  ok(runtime_alloc(&host, &count, 1, KINA_DTYPE_I32, kDLCPU, 0, nullptr), "alloc host");
  std::memcpy(host.dl.data, values.data(), bytes_of(values));
  return host;
}

Program::Program(uint64_t seed) : random_(seed) {
  choose_resources();
  for (int32_t device = 0; device < kDevices; ++device) {
    for (int i = 0; i < 3; ++i) {
      KinaStream stream = nullptr;
      ok(runtime_stream_checkout(&stream, kDLExtDev, device), "checkout");
      streams_[device].push_back(stream);
    }
    make_foreign(device);
  }
}

void Program::run() {
  for (int step = 0; step < kSteps; ++step) this->step();
  for (Pair& pair : pairs_) verify(pair);
  while (!pairs_.empty()) release(pairs_.size() - 1);
  for (auto& streams : streams_)
    for (KinaStream stream : streams) ok(runtime_stream_checkin(stream), "checkin");
  for (int32_t device = 0; device < kDevices; ++device) {
    end_foreign(device);
    ok(runtime_device_synchronize(kDLExtDev, device), "synchronize");
    trim();
    // A violation that was found where nothing could be thrown is reported by the next work.
    KinaTensor last = KINA_TENSOR_INIT;
    const int64_t count = 1;
    const int32_t zero = 0;
    ok(runtime_alloc(&last, &count, 1, KINA_DTYPE_I32, kDLExtDev, device, nullptr), "last alloc");
    ok(runtime_fill(&last, &zero, sizeof zero), "last fill");
    ok(runtime_free(&last), "last free");
  }
}

Values Program::some_values() {
  Values values(static_cast<size_t>(kSizes[below(3)]));
  for (int32_t& value : values) value = static_cast<int32_t>(below(1000));
  return values;
}

KinaStream Program::some_stream(int32_t device) { return streams_[device][below(streams_[device].size())]; }

Pair* Program::some(int32_t device) {
  std::vector<Pair*> candidates;
  for (Pair& pair : pairs_)
    if (pair.device == device) candidates.push_back(&pair);
  return candidates.empty() ? nullptr : candidates[below(candidates.size())];
}

// A pair of the same device and size, itself included.
Pair* Program::alike(const Pair& other) {
  std::vector<Pair*> candidates;
  for (Pair& pair : pairs_)
    if (pair.device == other.device && pair.values.size() == other.values.size()) candidates.push_back(&pair);
  return candidates[below(candidates.size())];
}

void Program::upload() {
  Pair pair;
  pair.device = some_device();
  pair.values = some_values();
  KinaTensor host = host_tensor(pair.values);
  on_some_stream(pair.device, [&] { ok(runtime_copy(&pair.tensor, &host, kDLExtDev, pair.device), "upload"); });
  if (below(2) == 0) {  // the source is reused at once: the write must wait for the copy
    const int32_t zero = 0;
    ok(runtime_fill(&host, &zero, sizeof zero), "fill source");
  }
  ok(runtime_free(&host), "free source");
  pairs_.push_back(pair);
}

void Program::verify(Pair& pair) {
  KinaTensor host = KINA_TENSOR_INIT;
  on_some_stream(pair.device, [&] { ok(runtime_copy_to_host(&host, &pair.tensor), "read back"); });
  require(std::memcmp(host.dl.data, pair.values.data(), bytes_of(pair.values)) == 0, "values differ");
  ok(runtime_free(&host), "free read back");
}

void Program::release(size_t index) {
  ok(runtime_free(&pairs_[index].tensor), "free");
  pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(index));
}

// c = a + b into a new tensor, or a += b in place.
void Program::add() {
  Pair* a = some(some_device());
  if (a == nullptr) return;
  const Pair* b = alike(*a);
  Values sum = a->values;
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] = static_cast<int32_t>(static_cast<uint32_t>(sum[i]) + static_cast<uint32_t>(b->values[i]));
  Pair made;
  const bool is_in_place = below(2) == 0;
  KinaTensor& out = is_in_place ? a->tensor : made.tensor;
  on_some_stream(a->device, [&] { ok(runtime_gpu_binary(&out, &a->tensor, &b->tensor, KINA_BINARY_ADD), "add"); });
  if (is_in_place) {
    a->values = sum;
    return;
  }
  made.device = a->device;
  made.values = sum;
  pairs_.push_back(made);
}

void Program::fill() {
  Pair* pair = some(some_device());
  if (pair == nullptr) return;
  if (below(3) == 0) {  // fresh bytes, given out in the order of one stream and first used on another
    KinaTensor fresh = KINA_TENSOR_INIT;
    const auto count = static_cast<int64_t>(pair->values.size());
    KinaStream stream = some_stream(pair->device);
    ok(runtime_alloc(&fresh, &count, 1, KINA_DTYPE_I32, kDLExtDev, pair->device, stream), "alloc");
    ok(runtime_free(&pair->tensor), "free");
    pair->tensor = fresh;
  }
  const auto value = static_cast<int32_t>(below(1000));
  on_some_stream(pair->device, [&] { ok(runtime_fill(&pair->tensor, &value, sizeof value), "fill"); });
  pair->values.assign(pair->values.size(), value);
}

void Program::cross() {
  const Pair* source = some(some_device());
  if (source == nullptr) return;
  Pair made;
  made.device = 1 - source->device;
  made.values = source->values;
  on_some_stream(made.device,
                 [&] { ok(runtime_copy(&made.tensor, &source->tensor, kDLExtDev, made.device), "copy across"); });
  pairs_.push_back(made);
}

// Reads and frees at once: queued work keeps the memory, and the next allocation may get it.
void Program::use_and_free() {
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

// What the device finds late, a bad index, is found where the host looks; good ones give what they name.
void Program::gather() {
  const Pair* source = some(some_device());
  if (source == nullptr) return;
  Pair made;
  made.device = source->device;
  Values indices(64);
  for (int32_t& index : indices) index = static_cast<int32_t>(below(source->values.size()));
  const bool is_bad = below(3) == 0;
  if (is_bad) indices[below(indices.size())] = static_cast<int32_t>(source->values.size());
  KinaTensor host = host_tensor(indices), uploaded = KINA_TENSOR_INIT, back = KINA_TENSOR_INIT;
  on_some_stream(made.device, [&] { ok(runtime_copy(&uploaded, &host, kDLExtDev, made.device), "upload indices"); });
  on_some_stream(made.device, [&] { ok(runtime_gpu_gather(&made.tensor, &source->tensor, &uploaded), "gather"); });
  ok(runtime_free(&uploaded), "free indices");
  ok(runtime_free(&host), "free host");
  if (is_bad) {
    const KinaStatus status = runtime_copy_to_host(&back, &made.tensor);
    require(status == KINA_ERROR_FAILED_INPUT, "a bad index was not found at the host");
    runtime_clear_last_error();
    return ok(runtime_free(&made.tensor), "free gathered");
  }
  for (const int32_t index : indices) made.values.push_back(source->values[static_cast<size_t>(index)]);
  pairs_.push_back(made);
}

// A stream ends with work on it; it may come back under another name.
void Program::exchange_stream() {
  const int32_t device = some_device();
  KinaStream& stream = streams_[device][below(streams_[device].size())];
  ok(runtime_stream_checkin(stream), "checkin");
  ok(runtime_stream_checkout(&stream, kDLExtDev, device), "checkout");
}

// The same bytes under another tensor, which alone keeps them from then on.
void Program::rename() {
  if (pairs_.empty()) return;
  Pair& pair = pairs_[below(pairs_.size())];
  KinaTensor renamed = KINA_TENSOR_INIT;
  const auto count = static_cast<int64_t>(pair.values.size());
  KinaWeak weak = nullptr;
  KinaPeer peer = nullptr;
  switch (below(4)) {
    case 0: ok(runtime_alias(&renamed, &pair.tensor), "alias"); break;
    case 1: ok(runtime_view(&renamed, &pair.tensor, &count, nullptr, 1, 0, 0), "view"); break;
    case 2:
      ok(runtime_weak_create(&weak, &pair.tensor), "weak");
      ok(runtime_weak_upgrade(&renamed, weak), "upgrade");
      ok(runtime_weak_release(weak), "weak release");
      break;
    default:
      ok(runtime_peer_share(&peer, &pair.tensor), "share");
      ok(runtime_free(&pair.tensor), "free shared");
      ok(runtime_peer_open(&renamed, peer, kDLExtDev, pair.device), "open at home");
      ok(runtime_peer_release(peer), "peer release");
  }
  ok(runtime_free(&pair.tensor), "free renamed");
  pair.tensor = renamed;
}

void Program::base_step() {
  switch (below(8)) {
    case 0:
    case 1: return upload();
    case 2:
    case 3: return add();
    case 4: return fill();
    case 5: return cross();
    case 6: return use_and_free();
    default:
      if (pairs_.size() > 6) return release(below(pairs_.size()));
      if (!pairs_.empty()) verify(pairs_[below(pairs_.size())]);
  }
}

void Program::step() {
  if (below(2) == 0) return base_step();
  using Step = void (Program::*)();
  constexpr Step kOthers[] = {
      &Program::exchange_stream,
      &Program::trim,
      &Program::rename,
      &Program::share_raw_record,
      &Program::gather,
      &Program::crowd,
      &Program::free_without_memory,
      &Program::reuse_source,
      &Program::use_raw_block,
      &Program::read_back_later,
      &Program::use_unordered_resource,
      &Program::repeat_wait,
      &Program::wait_through_third,
      &Program::wait_twice_for_one,
      &Program::wait_after_host,
      &Program::use_by_foreign_work,
      &Program::synchronize_foreign,
      &Program::export_tensor,
      &Program::import_block,
      &Program::import_stream,
      &Program::use_as_peer,
      &Program::share_with_foreign_work,
  };
  (this->*kOthers[below(std::size(kOthers))])();
}

}  // namespace orders
