// The pool on simulated asynchronous devices: what a reuse costs in events and waits, and that no free waits. The
// devices report reads of bytes that were reused too early.
#include <gtest/gtest.h>
#include <kina_runtime.h>
#include <kina_simulated.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr int32_t kSimulated = kDLExtDev;

void succeed(KinaStatus status) {
  if (status != KINA_SUCCESS) FAIL() << runtime_last_error_message();
}

KinaPoolParams params_of(KinaGrowth growth, uint64_t growth_bytes = 0, uint32_t flags = 0) {
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.growth = growth;
  params.growth_bytes = growth_bytes;
  params.flags = flags;
  return params;
}

class SimPool : public testing::Test {
 protected:
  void SetUp() override { make(KINA_POOL_PARAMS_INIT); }
  void make(KinaPoolParams params, uint64_t bytes = kMebibyte) {
    if (params.initial_bytes == 0) params.initial_bytes = bytes;
    if (pool_ != nullptr) succeed(runtime_resource_release(pool_));
    succeed(runtime_resource_set_default(nullptr, kSimulated, 0, nullptr));
    KinaResource base = nullptr;
    succeed(runtime_resource_current(&base, kSimulated, 0));
    succeed(runtime_resource_pool(&pool_, base, &params));
  }
  void TearDown() override {
    for (KinaStream stream : checked_out_) succeed(runtime_stream_checkin(stream));
    succeed(runtime_resource_release(pool_));
  }
  KinaStream stream() {
    KinaStream made = nullptr;
    succeed(runtime_stream_checkout(&made, kSimulated, 0));
    checked_out_.push_back(made);
    return made;
  }
  KinaResourceInfo info() const {
    KinaResourceInfo told{};
    told.struct_size = sizeof(told);
    succeed(runtime_resource_info(&told, pool_));
    return told;
  }
  void* take(uint64_t bytes, KinaStream stream) const {
    void* data = nullptr;
    succeed(runtime_memory_allocate(&data, pool_, bytes, 0, stream));
    return data;
  }
  void give(void* data, uint64_t bytes, KinaStream stream) const {
    succeed(runtime_memory_deallocate(pool_, data, bytes, 0, stream));
  }
  // A tensor of `bytes` bytes that `stream` has work on.
  KinaTensor filled(uint64_t bytes, KinaStream stream) const {
    KinaScope scope = nullptr;
    succeed(runtime_resource_push(&scope, above_ == nullptr ? pool_ : above_));
    const auto count = static_cast<int64_t>(bytes);
    KinaTensor made = KINA_TENSOR_INIT;
    succeed(runtime_alloc(&made, &count, 1, KINA_DTYPE_U8, kSimulated, 0, stream));
    succeed(runtime_scope_pop(scope));
    fill(made, stream);
    return made;
  }
  static void fill(KinaTensor& tensor, KinaStream stream) {
    KinaScope scope = nullptr;
    succeed(runtime_stream_push(&scope, stream));
    const uint8_t value = 7;
    succeed(runtime_fill(&tensor, &value, 1));
    succeed(runtime_scope_pop(scope));
  }
  static void free(KinaTensor& tensor) { succeed(runtime_free(&tensor)); }

  struct Cost {
    uint64_t event_records, stream_waits;
    bool operator==(const Cost&) const = default;
  };
  Cost cost() const { return {info().event_records, info().stream_waits}; }

  KinaResource pool_ = nullptr;
  KinaResource above_ = nullptr;  // an adaptor that tensors come from, if there is one
  std::vector<KinaStream> checked_out_;
};

constexpr uint64_t kSizes[] = {1000, 300'000, kMebibyte};

TEST_F(SimPool, ReusesOnOneStreamWithoutACallOfTheDevice) {
  make(KINA_POOL_PARAMS_INIT, 4 * kMebibyte);
  KinaStream only = stream();
  for (uint64_t bytes : kSizes)
    for (int i = 0; i < 40; ++i) {
      KinaTensor tensor = filled(bytes, only);
      free(tensor);
    }
  EXPECT_EQ(cost(), (Cost{0, 0}));
  EXPECT_EQ(info().cache_hits, info().allocations);
}

TEST_F(SimPool, ReusesOnAnotherStreamAfterOneEventAndOneWait) {
  for (uint64_t bytes : {300'032ULL, 1'048'576ULL}) {
    make(params_of(KINA_GROWTH_NONE), bytes);
    KinaStream first = stream();
    KinaStream second = stream();
    KinaTensor tensor = filled(bytes, first);
    free(tensor);
    EXPECT_EQ(cost(), (Cost{0, 0})) << "nobody waits at a free";
    tensor = filled(bytes, second);
    EXPECT_EQ(cost(), (Cost{1, 1}));
    EXPECT_EQ(info().cache_hits, 1U);
    free(tensor);
  }
}

TEST_F(SimPool, ReusesOnAnotherStreamForNothingWhereTheOrderIsKnown) {
  make(params_of(KINA_GROWTH_NONE));
  KinaStream first = stream();
  KinaStream second = stream();
  KinaTensor tensor = filled(kMebibyte, first);
  free(tensor);
  succeed(runtime_stream_wait(second, first));
  tensor = filled(kMebibyte, second);
  free(tensor);
  EXPECT_EQ(cost(), (Cost{0, 0}));
  EXPECT_EQ(info().cache_hits, 2U);
}

TEST_F(SimPool, ReusesOnAnotherStreamForNothingAfterTheHostWaited) {
  make(params_of(KINA_GROWTH_NONE));
  KinaStream first = stream();
  KinaStream second = stream();
  KinaTensor tensor = filled(kMebibyte, first);
  free(tensor);
  succeed(runtime_stream_synchronize(first));
  tensor = filled(kMebibyte, second);
  free(tensor);
  EXPECT_EQ(cost(), (Cost{0, 0}));
}

// Also where the thread has blocks of that stream at hand.
TEST_F(SimPool, GivesNothingToAStreamWhoseCaptureNobodyAnnounced) {
  KinaStream given_away = nullptr;
  succeed(runtime_stream_phase(&given_away, kSimulated, 0, 1));
  const auto take_and_give = [&] {
    for (uint64_t bytes : {uint64_t{1000}, uint64_t{300'000}}) give(take(bytes, given_away), bytes, given_away);
  };
  for (int times = 0; times < 20; ++times) take_and_give();
  void* native = nullptr;
  succeed(runtime_stream_native(&native, given_away));
  auto* driver = static_cast<KinaSimStream*>(native);
  ASSERT_EQ(driver->begin_capture(driver), 0);

  void* data = nullptr;
  for (const uint64_t bytes : {uint64_t{1000}, uint64_t{300'000}})
    EXPECT_EQ(runtime_memory_allocate(&data, pool_, bytes, 0, given_away), KINA_ERROR_UNSUPPORTED);

  void* graph = nullptr;
  ASSERT_EQ(driver->end_capture(driver, &graph), 0);
  driver->destroy_graph(graph);
  take_and_give();
}

// Calls that name no stream go to the one in force, whatever it was when the thread came the last time.
TEST_F(SimPool, KeepsTheStreamOfAScopeAndTheOneBehindItApart) {
  KinaStream main = nullptr;
  succeed(runtime_stream_main(&main, kSimulated, 0));
  for (const bool is_left : {true, false}) {
    make(params_of(KINA_GROWTH_NONE));
    KinaStream pushed = stream();
    KinaScope scope = nullptr;
    const auto take_and_give = [&] { give(take(kMebibyte, nullptr), kMebibyte, nullptr); };
    KinaTensor tensor = filled(kMebibyte, is_left ? pushed : main);
    free(tensor);
    if (is_left) succeed(runtime_stream_push(&scope, pushed));
    for (int times = 0; times < 2; ++times) take_and_give();
    ASSERT_EQ(cost(), (Cost{0, 0}));
    succeed(is_left ? runtime_scope_pop(scope) : runtime_stream_push(&scope, pushed));

    take_and_give();

    EXPECT_EQ(cost(), (Cost{1, 1}));
    if (!is_left) succeed(runtime_scope_pop(scope));
  }
}

TEST_F(SimPool, KeepsStreamsApartAfterARequestForNoBytes) {
  make(params_of(KINA_GROWTH_NONE));
  KinaStream first = stream();
  KinaStream second = stream();
  KinaTensor tensor = filled(kMebibyte, first);
  free(tensor);
  EXPECT_EQ(take(0, second), nullptr);
  void* data = take(kMebibyte, second);
  EXPECT_EQ(cost(), (Cost{1, 1}));
  give(data, kMebibyte, second);
}

// From its last release on an imported stream may be gone: nobody asks the driver about it any more.
TEST_F(SimPool, FollowsWorkOfAnImportThatHasEndedWithoutAskingItsStream) {
  KinaStream other = stream();
  KinaStream given_away = nullptr;  // none that other tests get: from here on it may have work that nobody counts
  succeed(runtime_stream_phase(&given_away, kSimulated, 0, 0));
  void* native = nullptr;
  succeed(runtime_stream_native(&native, given_away));
  auto* driver = static_cast<KinaSimStream*>(native);
  KinaSimStream* theirs = nullptr;
  ASSERT_EQ(driver->make(driver, &theirs), 0);
  KinaStream imported = nullptr;
  succeed(runtime_stream_import(&imported, kSimulated, 0, theirs));
  KinaTensor tensor = filled(1000, imported);
  succeed(runtime_stream_release(imported));
  KinaSimCounts before{}, after{};
  ASSERT_EQ(driver->count(driver, &before), 0);
  fill(tensor, other);
  ASSERT_EQ(driver->count(driver, &after), 0);
  EXPECT_EQ(after.event_records, before.event_records);
  EXPECT_EQ(after.stream_waits, before.stream_waits + 1);
  free(tensor);
}

// P03: streams that take turns are not made to follow each other while there is other memory.
TEST_F(SimPool, DoesNotMakeStreamsFollowEachOtherWhileThereIsOtherMemory) {
  make(params_of(KINA_GROWTH_NONE), 16 * kMebibyte);
  const std::array<KinaStream, 4> streams{stream(), stream(), stream(), stream()};
  for (int round = 0; round < 10; ++round)
    for (KinaStream each : streams)
      for (uint64_t bytes : {5000ULL, 1'000'000ULL}) {
        KinaTensor tensor = filled(bytes, each);
        free(tensor);
      }
  EXPECT_EQ(cost(), (Cost{0, 0}));
}

// P02, and each small block of a slab goes from one stream to another.
TEST_F(SimPool, KeepsBlocksOfEndedStreamsInUse) {
  make(params_of(KINA_GROWTH_NONE));
  for (int round = 0; round < 12; ++round) {
    KinaStream brief = nullptr;
    succeed(runtime_stream_checkout(&brief, kSimulated, 0));
    std::vector<KinaTensor> tensors;
    tensors.reserve(20);
    for (int i = 0; i < 20; ++i) tensors.push_back(filled(40'000, brief));
    for (KinaTensor& tensor : tensors) free(tensor);
    succeed(runtime_stream_checkin(brief));
  }
  KinaStream other = stream();
  KinaTensor tensor = filled(kMebibyte, other);
  free(tensor);
  EXPECT_EQ(info().failures, 0U);
}

// P08: the second stream's use is declared; only who needs the bytes waits for it, also where an adaptor stands
// between.
TEST_F(SimPool, FollowsUsesOnOtherStreamsAtTheNextUseAlone) {
  for (uint64_t bytes : {400'000ULL, 2000ULL, 400'001ULL}) {
    make(params_of(KINA_GROWTH_NONE), 400'128);
    if (bytes == 400'001) succeed(runtime_resource_limit(&above_, pool_, kMebibyte));
    KinaStream owner = stream();
    KinaStream reader = stream();
    std::vector<KinaTensor> tensors;
    tensors.reserve(100);
    for (int i = 0; i < (bytes < 10'000 ? 100 : 1); ++i) tensors.push_back(filled(bytes, owner));
    for (KinaTensor& tensor : tensors) fill(tensor, reader);
    const Cost before = cost();
    for (KinaTensor& tensor : tensors) free(tensor);
    EXPECT_EQ(cost(), before) << "nobody waits at a free";
    for (int i = 0; i < 3; ++i) {
      KinaTensor whole = filled(400'000, owner);
      free(whole);
    }
    EXPECT_EQ(cost(), (Cost{before.event_records + 1, before.stream_waits + 1}));
  }
  succeed(runtime_resource_release(above_));
}

TEST_F(SimPool, ServesARequestFromNeighboursOfManyStreams) {
  make(params_of(KINA_GROWTH_NONE));
  std::vector<KinaStream> streams;
  streams.reserve(12);
  for (int i = 0; i < 12; ++i) streams.push_back(stream());
  std::vector<KinaTensor> tensors;
  for (size_t i = 0; i < 200; ++i) tensors.push_back(filled(5000, streams[i % streams.size()]));
  for (KinaTensor& tensor : tensors) free(tensor);
  KinaTensor whole = filled(kMebibyte, streams[0]);
  EXPECT_EQ(info().failures, 0U);
  EXPECT_LE(info().stream_waits, 12U * 11) << "one for each pair of streams at most";
  free(whole);
}

TEST_F(SimPool, GivesSpansBackOnceTheirWorkHasRun) {
  make(params_of(KINA_GROWTH_FIXED, kMebibyte));
  KinaStream first = stream();
  KinaStream second = stream();
  std::vector<KinaTensor> tensors;
  tensors.reserve(60);
  for (int i = 0; i < 60; ++i) tensors.push_back(filled(50'000, i % 2 == 0 ? first : second));
  for (KinaTensor& tensor : tensors) free(tensor);
  const uint64_t reserved = info().reserved_bytes;
  uint64_t released = 0;
  succeed(runtime_resource_trim(&released, pool_, 0));
  EXPECT_EQ(released, reserved);
  EXPECT_EQ(info().leaked_bytes, 0U);
  KinaTensor again = filled(kMebibyte, first);
  free(again);
}

TEST_F(SimPool, MayReuseWhatIsSeenToHaveRun) {
  make(params_of(KINA_GROWTH_NONE, 0, KINA_POOL_OPPORTUNISTIC));
  KinaStream first = stream();
  KinaStream second = stream();
  KinaTensor tensor = filled(kMebibyte, first);
  free(tensor);
  tensor = filled(kMebibyte, second);
  free(tensor);
  EXPECT_EQ(cost().event_records, 1U);
  EXPECT_LE(cost().stream_waits, 1U);
}

// A stream that was given bytes and did nothing with them passes on what they have to wait for.
TEST_F(SimPool, FollowsTheWorkBeforeAStreamThatDidNothing) {
  for (uint64_t bytes : {1024ULL, 300'032ULL, 1'048'576ULL}) {
    make(params_of(KINA_GROWTH_NONE), bytes);
    KinaStream second = stream();
    KinaStream third = stream();
    KinaTensor tensor = filled(bytes, stream());
    free(tensor);
    give(take(bytes, second), bytes, second);
    tensor = filled(bytes, third);
    free(tensor);
    give(take(bytes, second), bytes, second);
    EXPECT_EQ(cost().stream_waits, 3U);
  }
}

// What a stream that took a block waits for, who gives it up on another stream passes on.
TEST_F(SimPool, FollowsTheTakerOfABlockThatAnotherStreamGivesUp) {
  for (uint64_t bytes : {1024ULL, 300'032ULL, 1'048'576ULL}) {
    make(params_of(KINA_GROWTH_NONE), bytes);
    KinaStream first = stream();
    KinaStream third = stream();
    KinaStream giver = stream();
    ASSERT_EQ(runtime_stream_synchronize(giver), KINA_SUCCESS);  // it may have had work in another test
    KinaTensor tensor = filled(bytes, first);
    free(tensor);
    give(take(bytes, first), bytes, giver);
    tensor = filled(bytes, third);
    free(tensor);
    EXPECT_EQ(cost().stream_waits, 1U);
  }
}

// The same where blocks come from slabs.
TEST_F(SimPool, FollowsTheTakerOfABlockOfASlab) {
  constexpr uint64_t kBytes = 4096;
  make(params_of(KINA_GROWTH_NONE), kMebibyte);
  KinaStream first = stream();
  KinaStream second = stream();
  std::vector<void*> blocks;
  for (int round = 0; round < 2; ++round) {
    std::vector<KinaTensor> tensors;
    while (tensors.size() < 250) tensors.push_back(filled(kBytes, first));
    for (KinaTensor& tensor : tensors) free(tensor);
    while (blocks.size() < 250) blocks.push_back(take(kBytes, first));
    for (void* block : blocks) give(block, kBytes, second);
    blocks.clear();
    for (int i = 0; i < 250; ++i) blocks.push_back(take(kBytes, second));
    for (void* block : blocks) give(block, kBytes, second);
    blocks.clear();
  }
  EXPECT_GE(cost().stream_waits, 1U);
}

// Free pieces of one stream everywhere, each with room for a block and for no slab, and a large one of another stream.
class SimPoolSlabs : public SimPool {
 protected:
  // How many of thirty blocks come from the large piece.
  int64_t take_among_holes(bool is_large_piece_there, bool is_order_known) {
    make(KINA_POOL_PARAMS_INIT, 8 * kMebibyte);
    KinaStream here = stream();
    KinaStream other = stream();
    KinaTensor work = filled(1000, other);
    auto* large = static_cast<char*>(take(kMebibyte, other));
    std::vector<void*> holes(95);
    for (void*& data : holes) data = take(kHole, here);
    for (size_t i = 0; i < holes.size(); i += 2) give(holes[i], kHole, here);
    fill(work, other);
    if (is_large_piece_there) give(large, kMebibyte, other);
    if (is_order_known) succeed(runtime_stream_wait(here, other));
    const KinaResourceInfo before = info();
    std::vector<void*> small(30);
    for (void*& data : small) data = take(kSmall, here);
    upstream_calls_ = info().upstream_calls - before.upstream_calls;
    EXPECT_EQ(cost(), (Cost{0, 0}));
    const auto count = std::count_if(small.begin(), small.end(), [&](void* data) {
      return static_cast<char*>(data) >= large && static_cast<char*>(data) < large + kMebibyte;
    });
    for (void* data : small) give(data, kSmall, here);
    for (size_t i = 1; i < holes.size(); i += 2) give(holes[i], kHole, here);
    if (!is_large_piece_there) give(large, kMebibyte, other);
    free(work);
    return count;
  }
  static constexpr uint64_t kHole = 70'000;
  static constexpr uint64_t kSmall = 65'536;
  uint64_t upstream_calls_ = 0;
};

TEST_F(SimPoolSlabs, AreReasonToGrow) {
  EXPECT_EQ(take_among_holes(false, false), 0);
  EXPECT_EQ(upstream_calls_, 1U);
}

TEST_F(SimPoolSlabs, AreNoReasonToGrowWhereAnotherStreamHasRoom) {
  EXPECT_EQ(take_among_holes(true, false), 0);
  EXPECT_EQ(upstream_calls_, 0U);
}

TEST_F(SimPoolSlabs, AreCutFromRoomOfAnotherStreamInKnownOrder) {
  EXPECT_GE(take_among_holes(true, true), 8);
  EXPECT_EQ(upstream_calls_, 0U);
}

// Raw blocks and tensors of all sizes on five streams and four threads: every byte is written through its new owner,
// and the devices report a reuse that was too early.
TEST_F(SimPool, NeverReusesBytesTooEarly) {
  for (uint32_t flags : {0U, uint32_t{KINA_POOL_OPPORTUNISTIC}}) {
    make(params_of(KINA_GROWTH_NONE, 0, flags), 4 * kMebibyte);
    std::vector<KinaStream> streams;
    streams.reserve(5);
    for (int i = 0; i < 5; ++i) streams.push_back(stream());
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 4; ++seed)
      threads.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        std::vector<KinaTensor> live;
        for (int step = 0; step < 600; ++step) {
          if (live.size() < 12 && random() % 2 == 0) {
            live.push_back(filled(1 + random() % (uint64_t{1} << (6 + random() % 12)), streams[random() % 5]));
            if (random() % 4 == 0) fill(live.back(), streams[random() % 5]);
          } else if (!live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            free(live.back());
            live.pop_back();
          }
        }
        for (KinaTensor& tensor : live) free(tensor);
      });
    for (std::thread& thread : threads) thread.join();
    succeed(runtime_device_synchronize(kSimulated, 0));
    EXPECT_EQ(info().live_bytes, 0U);
    KinaTensor whole = filled(4 * kMebibyte, streams[0]);
    free(whole);
    succeed(runtime_device_synchronize(kSimulated, 0));
  }
}

}  // namespace
