// The pool as its threads and streams meet in it: exact accounts, distinct blocks, what a trim brings together.
#include "impl/memory/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "impl/core/device.h"
#include "impl/memory/host.h"

namespace kina {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

struct Pool {
  explicit Pool(KinaPoolParams params = KINA_POOL_PARAMS_INIT)
      : upstream(make_device_resource(host_device())), resource(make_pool(upstream, plan_of(params, true))) {}
  KinaResourceInfo info() const {
    KinaResourceInfo told{};
    resource->describe(told);
    return told;
  }
  uint64_t upstream_bytes() const {
    KinaResourceInfo told{};
    upstream->describe(told);
    return told.live_bytes;
  }
  void* take(uint64_t bytes) const { return resource->take({bytes, 0, BlockUse::raw}, stream()).data; }
  Return give(void* data, uint64_t bytes) const { return resource->give(data, {bytes, 0, BlockUse::raw}, stream()); }
  static Stream& stream() { return host_device().main(); }

  Ref<Resource> upstream;
  Ref<Resource> resource;
};

// Takes and gives blocks at random; each is filled with a mark of its own and checked when it goes.
void churn(const Pool& pool, uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<unsigned char*, uint64_t>> live;
  for (int step = 0; step < steps; ++step) {
    if (live.size() < 60 && random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (4 + random() % 15));
      auto* data = static_cast<unsigned char*>(pool.take(bytes));
      ASSERT_NE(data, nullptr);
      data[0] = static_cast<unsigned char>(seed + bytes);
      data[bytes - 1] = data[0];
      live.emplace_back(data, bytes);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const auto [data, bytes] = live.back();
      live.pop_back();
      ASSERT_EQ(data[0], static_cast<unsigned char>(seed + bytes));
      ASSERT_EQ(data[bytes - 1], data[0]);
      ASSERT_EQ(pool.give(data, bytes), Return::done);
    }
  }
  for (const auto& [data, bytes] : live) ASSERT_EQ(pool.give(data, bytes), Return::done);
}

void expect_empty(const Pool& pool) {
  const KinaResourceInfo info = pool.info();
  EXPECT_EQ(info.live_bytes, 0U);
  EXPECT_EQ(info.live_blocks, 0U);
  EXPECT_EQ(info.allocations, info.deallocations);
  EXPECT_EQ(pool.resource->trim(0), info.reserved_bytes);
  EXPECT_EQ(pool.info().reserved_bytes, 0U);
  EXPECT_EQ(pool.upstream_bytes(), 0U);
}

// Blocks of slabs and of the arena are counted in different places.
TEST(Pool, KnowsTheExactPeakOfOneThread) {
  const Pool pool;
  std::mt19937_64 random(5);
  std::vector<std::pair<void*, uint64_t>> blocks;
  uint64_t live = 0;
  uint64_t peak = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (blocks.size() < 40 && random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (8 + random() % 15));
      blocks.emplace_back(pool.take(bytes), bytes);
      live += bytes;
      peak = std::max(peak, live);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_EQ(pool.give(blocks.back().first, blocks.back().second), Return::done);
      live -= blocks.back().second;
      blocks.pop_back();
    }
    const KinaResourceInfo info = pool.info();
    ASSERT_EQ(info.live_bytes, live);
    ASSERT_EQ(info.peak_bytes, peak);
    ASSERT_EQ(info.live_blocks, blocks.size());
  }
  for (const auto& [data, bytes] : blocks) pool.give(data, bytes);
  expect_empty(pool);
}

TEST(Pool, GivesEverythingBackAfterOneThread) {
  const Pool pool;
  churn(pool, 1, 40'000);
  expect_empty(pool);
}

// P01: four threads, one stream.
TEST(Pool, ServesFourThreadsOnOneStream) {
  const Pool pool;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([&pool, i] { churn(pool, i, 30'000); });
  for (std::thread& thread : threads) thread.join();
  expect_empty(pool);
}

// A report takes no lock that the thread takes for each block.
TEST(Pool, TellsOthersWhatItHoldsWhileAThreadWorks) {
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.maximum_bytes = 64 * kMebibyte;
  const Pool pool(params);
  std::atomic<bool> is_over{false};
  std::thread monitor([&] {
    while (!is_over) {
      const KinaResourceInfo info = pool.info();
      ASSERT_LE(info.reserved_bytes, params.maximum_bytes);
      ASSERT_LE(info.peak_bytes, params.maximum_bytes);
    }
  });
  for (uint64_t round = 0; round < 20; ++round) {
    churn(pool, round, 2'000);
    pool.resource->trim(0);
  }
  is_over = true;
  monitor.join();
  EXPECT_EQ(pool.info().reserved_bytes, pool.upstream_bytes());
  expect_empty(pool);
}

TEST(Pool, CountsExactlyOnOneThread) {
  const Pool pool;
  std::mt19937_64 random(3);
  std::vector<std::pair<void*, uint64_t>> live;
  uint64_t live_bytes = 0;
  uint64_t peak = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (live.empty() || random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (4 + random() % 17));
      live.emplace_back(pool.take(bytes), bytes);
      live_bytes += bytes;
      peak = std::max(peak, live_bytes);
    } else {
      ASSERT_EQ(pool.give(live.back().first, live.back().second + 1), Return::different);
      ASSERT_EQ(pool.give(static_cast<std::byte*>(live.back().first) + 128, 1), Return::unknown);
      ASSERT_EQ(pool.give(live.back().first, live.back().second), Return::done);
      ASSERT_EQ(pool.give(live.back().first, live.back().second), Return::unknown);
      live_bytes -= live.back().second;
      live.pop_back();
    }
    if (step % 97 != 0) continue;
    const KinaResourceInfo info = pool.info();
    ASSERT_EQ(info.live_bytes, live_bytes);
    ASSERT_EQ(info.live_blocks, live.size());
    ASSERT_EQ(info.peak_bytes, peak);
  }
  for (const auto& [data, bytes] : live) ASSERT_EQ(pool.give(data, bytes), Return::done);
  expect_empty(pool);
}

// What the thread had before at once is no part of what it has with the block that the pool grows for.
TEST(Pool, KnowsTheExactPeakOfOneThreadWhenItGrows) {
  const Pool pool;
  std::vector<void*> small(20);
  for (void*& data : small) data = pool.take(1000);
  for (void* data : small) pool.give(data, 1000);
  void* large = pool.take(8 * kMebibyte);
  EXPECT_EQ(pool.info().peak_bytes, 8 * kMebibyte);
  pool.give(large, 8 * kMebibyte);
  expect_empty(pool);
}

// Free pieces everywhere, each with room for one block and for no slab.
uint64_t upstream_calls_among_holes(KinaPoolParams params) {
  params.initial_bytes = 8 * kMebibyte;
  const Pool pool(params);
  constexpr uint64_t kHole = 70'000;
  std::vector<void*> large(params.initial_bytes / (kHole + 255));
  for (void*& data : large) data = pool.take(kHole);
  for (size_t i = 0; i < large.size(); i += 2) EXPECT_EQ(pool.give(large[i], kHole), Return::done);
  const uint64_t before = pool.info().upstream_calls;
  std::vector<void*> small(30);
  for (void*& data : small) data = pool.take(SizeClasses::kLargest);
  const uint64_t calls = pool.info().upstream_calls - before;
  for (void* data : small) EXPECT_EQ(pool.give(data, SizeClasses::kLargest), Return::done);
  for (size_t i = 1; i < large.size(); i += 2) EXPECT_EQ(pool.give(large[i], kHole), Return::done);
  return calls;
}

TEST(Pool, GrowsForASizeThatItAlwaysHasToSearchFor) {
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  EXPECT_EQ(upstream_calls_among_holes(params), 1U);
  params.maximum_bytes = 64 * kMebibyte;
  EXPECT_EQ(upstream_calls_among_holes(params), 0U) << "what is bounded is packed";
}

TEST(Pool, ReusesWhatAnotherThreadGaveUp) {
  const Pool pool;
  std::vector<void*> blocks(2000);
  for (void*& block : blocks) block = pool.take(1000);
  const uint64_t reserved = pool.info().reserved_bytes;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      for (void* block : blocks) ASSERT_EQ(pool.give(block, 1000), Return::done);
    }).join();
    for (void*& block : blocks) block = pool.take(1000);
  }
  EXPECT_EQ(pool.info().reserved_bytes, reserved);
  for (void* block : blocks) ASSERT_EQ(pool.give(block, 1000), Return::done);
  expect_empty(pool);
}

TEST(Pool, BringsTogetherWhatOtherThreadsHaveAtHand) {
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.growth = KINA_GROWTH_NONE;
  params.initial_bytes = 4 * kMebibyte;
  const Pool pool(params);
  std::barrier meeting(2);
  std::thread holder([&] {
    std::vector<void*> blocks(300);
    for (void*& block : blocks) block = pool.take(4096);
    for (void* block : blocks) ASSERT_EQ(pool.give(block, 4096), Return::done);
    meeting.arrive_and_wait();  // its magazines are full
    meeting.arrive_and_wait();
  });
  meeting.arrive_and_wait();
  void* whole = pool.take(4 * kMebibyte);
  EXPECT_NE(whole, nullptr);
  EXPECT_EQ(pool.info().failures, 0U);
  EXPECT_EQ(pool.give(whole, 4 * kMebibyte), Return::done);
  meeting.arrive_and_wait();
  holder.join();
  expect_empty(pool);
}

TEST(Pool, TrimsWhileOthersWork) {
  const Pool pool;
  std::atomic<bool> is_over{false};
  std::thread trimmer([&] {
    while (!is_over) pool.resource->trim(0);
  });
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 2; ++i) threads.emplace_back([&pool, i] { churn(pool, i, 20'000); });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  trimmer.join();
  expect_empty(pool);
}

TEST(Pool, EndsWhileAThreadThatUsedItLivesOn) {
  std::barrier meeting(2);
  Ref<Resource> upstream = make_device_resource(host_device());
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  Ref<Resource> resource = make_pool(upstream, plan_of(params, true));
  std::thread user([&, shared = resource]() mutable {
    for (int i = 0; i < 100; ++i) {
      void* data = shared->take({1000, 0, BlockUse::raw}, Pool::stream()).data;
      ASSERT_EQ(shared->give(data, {1000, 0, BlockUse::raw}, Pool::stream()), Return::done);
    }
    shared = nullptr;
    meeting.arrive_and_wait();
    meeting.arrive_and_wait();
    const Pool other;  // the cache of the one that ended serves it
    churn(other, 5, 1000);
  });
  meeting.arrive_and_wait();
  resource = nullptr;
  KinaResourceInfo info{};
  upstream->describe(info);
  EXPECT_EQ(info.live_bytes, 0U) << "the pool is gone and gave its spans back";
  meeting.arrive_and_wait();
  user.join();
}

TEST(Pool, ServesAThreadThatTakesTurns) {
  KinaResource host = nullptr;
  ASSERT_EQ(runtime_resource_host(&host), KINA_SUCCESS);
  std::vector<KinaResource> pools(3);
  for (KinaResource& pool : pools) ASSERT_EQ(runtime_resource_pool(&pool, host, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_release(host), KINA_SUCCESS);
  constexpr uint64_t kBytes = 1000;
  const auto pair = [](KinaResource pool) {
    void* data = nullptr;
    EXPECT_EQ(runtime_memory_allocate(&data, pool, kBytes, 0, nullptr), KINA_SUCCESS);
    std::memset(data, 1, kBytes);
    EXPECT_EQ(runtime_memory_deallocate(pool, data, kBytes, 0, nullptr), KINA_SUCCESS);
    EXPECT_NE(runtime_memory_deallocate(pool, data, kBytes, 0, nullptr), KINA_SUCCESS);
  };
  constexpr uint64_t kTurns = 100;
  for (uint64_t turn = 0; turn < kTurns; ++turn)
    for (KinaResource pool : pools) pair(pool);
  for (size_t left = pools.size(); left != 0; --left) {
    for (size_t i = 0; i < left; ++i) {
      KinaResourceInfo info{};
      info.struct_size = sizeof info;
      ASSERT_EQ(runtime_resource_info(&info, pools[i]), KINA_SUCCESS);
      EXPECT_EQ(info.allocations, kTurns + pools.size() - left);
      EXPECT_EQ(info.live_bytes, 0U);
      EXPECT_EQ(info.peak_bytes, kBytes);
    }
    ASSERT_EQ(runtime_resource_release(pools[left - 1]), KINA_SUCCESS);
    void* data = nullptr;
    EXPECT_EQ(runtime_memory_allocate(&data, pools[left - 1], kBytes, 0, nullptr), KINA_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i + 1 < left; ++i) pair(pools[i]);
  }
}

TEST(Pool, LivesAsLongAsARawBlock) {
  Ref<Resource> upstream = make_device_resource(host_device());
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  Ref<Resource> resource = make_pool(upstream, plan_of(params, true));
  Resource* pool = resource.get();
  std::vector<void*> blocks;
  blocks.reserve(50);
  for (int i = 0; i < 50; ++i) blocks.push_back(pool->take({1000, 0, BlockUse::raw}, Pool::stream()).data);
  resource = nullptr;
  KinaResourceInfo info{};
  for (void* block : blocks) {
    upstream->describe(info);
    ASSERT_NE(info.live_bytes, 0U);
    const Ref<Resource> named = Ref<Resource>::share(pool);  // as a call by its borrowed name
    ASSERT_EQ(named->give(block, {1000, 0, BlockUse::raw}, Pool::stream()), Return::done);
  }
  upstream->describe(info);
  EXPECT_EQ(info.live_bytes, 0U);
}

TEST(Pool, WorksOnInAForkedChildBesideThreadsThatAreNotThere) {
  const Pool pool;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      while (!is_over) churn(pool, i, 500);
    });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      churn(pool, 9, 3000);
      pool.resource->trim(0);
      churn(pool, 10, 3000);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  expect_empty(pool);
}

}  // namespace
}  // namespace kina
