// Logging above a pool: blocks that come and go in threads' caches, counted and kept like any others.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "impl/core/device.h"
#include "impl/memory/logging.h"
#include "impl/memory/pool.h"
#include "kina_runtime.h"

namespace {

constexpr uint64_t kBytes = 1000;

// logging(pool(host)) whose rows are counted by what they tell of.
struct Logged {
  Logged() {
    KinaResource host = nullptr, pool = nullptr;
    EXPECT_EQ(runtime_resource_host(&host), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_pool(&pool, host, nullptr), KINA_SUCCESS);
    KinaLoggingParams params = KINA_LOGGING_PARAMS_INIT;
    params.callback = [](void* seen, const KinaLogRow* row) {
      auto& self = *static_cast<Logged*>(seen);
      ++(row->status != KINA_SUCCESS ? self.refused : row->event == KINA_LOG_EVENT_ALLOCATE ? self.taken : self.given);
    };
    params.context = this;
    EXPECT_EQ(runtime_resource_logging(&handle, pool, &params), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_release(pool), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_release(host), KINA_SUCCESS);
    KinaScope scope = nullptr;
    EXPECT_EQ(runtime_resource_push(&scope, handle), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_current(&name, kDLCPU, 0), KINA_SUCCESS);
    EXPECT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
  }
  KinaResourceInfo info() const {
    KinaResourceInfo told{};
    told.struct_size = sizeof told;
    EXPECT_EQ(runtime_resource_info(&told, name), KINA_SUCCESS);
    return told;
  }
  bool has_ended() const {
    KinaResourceInfo told{};
    told.struct_size = sizeof told;
    return runtime_resource_info(&told, name) == KINA_ERROR_INVALID_HANDLE;
  }
  static void* take(KinaResource by) {
    void* data = nullptr;
    EXPECT_EQ(runtime_memory_allocate(&data, by, kBytes, 0, nullptr), KINA_SUCCESS);
    return data;
  }
  static void give(KinaResource by, void* data) {
    EXPECT_EQ(runtime_memory_deallocate(by, data, kBytes, 0, nullptr), KINA_SUCCESS);
  }

  KinaResource handle = nullptr, name = nullptr;
  std::atomic<uint64_t> taken{0}, given{0}, refused{0};
};

void in_thread(const auto& work) { std::thread(work).join(); }

TEST(Logging, BlocksAtHandKeepTheirResourceAndGoBackAnywhere) {
  Logged logged;
  std::vector<void*> blocks(40);
  for (size_t i = 0; i < 20; ++i) blocks[i] = Logged::take(logged.handle);
  in_thread([&] {
    for (size_t i = 20; i < 40; ++i) blocks[i] = Logged::take(logged.handle);
    for (size_t i = 0; i < 5; ++i) Logged::give(logged.handle, blocks[i]);  // of the other thread
  });
  EXPECT_EQ(logged.info().live_blocks, 35U);

  EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);

  EXPECT_EQ(logged.info().live_bytes, 35 * kBytes);
  for (size_t i = 5; i < 20; ++i) Logged::give(logged.name, blocks[i]);
  in_thread([&] {
    for (size_t i = 20; i < 39; ++i) Logged::give(logged.name, blocks[i]);
  });
  EXPECT_EQ(logged.info().live_blocks, 1U) << "the last one keeps the resource";
  Logged::give(logged.name, blocks[39]);
  EXPECT_TRUE(logged.has_ended());
  EXPECT_EQ(logged.taken, 40U);
  EXPECT_EQ(logged.given, 40U);
}

TEST(Logging, AResourceWhoseBlocksWereTakenTheOrdinaryWayEndsWhenTheyAreGivenAtHand) {
  Logged logged;
  void* ordinary = nullptr;
  in_thread([&] { ordinary = Logged::take(logged.handle); });  // a thread's first is
  Logged::give(logged.handle, Logged::take(logged.handle));
  Logged::give(logged.handle, ordinary);
  EXPECT_EQ(logged.info().live_blocks, 0U);

  EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);

  EXPECT_TRUE(logged.has_ended());
  EXPECT_EQ(logged.given, 2U);
}

TEST(Logging, ThePeakOfOneThreadIsExactWhicheverWayItsBlocksGo) {
  Logged logged;
  Logged::give(logged.handle, Logged::take(logged.handle));
  std::vector<void*> blocks(10);
  for (void*& block : blocks) block = Logged::take(logged.handle);
  void* large = nullptr;
  EXPECT_EQ(runtime_memory_allocate(&large, logged.handle, 1 << 24, 0, nullptr), KINA_SUCCESS);
  EXPECT_EQ(runtime_memory_deallocate(logged.handle, large, 1 << 24, 0, nullptr), KINA_SUCCESS);
  for (void* block : blocks) Logged::give(logged.handle, block);

  const KinaResourceInfo info = logged.info();
  EXPECT_EQ(info.peak_bytes, (1 << 24) + 10 * kBytes);
  EXPECT_EQ(info.live_bytes, 0U);
  EXPECT_EQ(info.allocations, 12U);
  EXPECT_EQ(info.upstream_calls, 24U);
  EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);
}

TEST(Logging, ThePeakStaysWhenBlocksGoBackTheOrdinaryWay) {
  Logged logged, other;
  std::vector<void*> blocks(50);
  for (void*& block : blocks) block = Logged::take(logged.handle);
  for (void* block : blocks) Logged::give(logged.handle, block);
  blocks.resize(10);
  void* large = nullptr;
  EXPECT_EQ(runtime_memory_allocate(&large, logged.handle, 1 << 24, 0, nullptr), KINA_SUCCESS);
  for (void*& block : blocks) block = Logged::take(logged.handle);
  Logged::give(other.handle, Logged::take(other.handle));  // the thread turns to another pool
  EXPECT_EQ(runtime_memory_deallocate(logged.handle, large, 1 << 24, 0, nullptr), KINA_SUCCESS);

  EXPECT_EQ(logged.info().peak_bytes, (1 << 24) + 10 * kBytes);
  for (void* block : blocks) Logged::give(logged.handle, block);
  EXPECT_EQ(logged.info().peak_bytes, (1 << 24) + 10 * kBytes);
  EXPECT_EQ(logged.info().live_bytes, 0U);
  EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(other.handle), KINA_SUCCESS);
}

// The release comes while threads take and give at hand; what it leaves goes back by the name that stays.
TEST(Logging, AReleaseRacesWithCallsAtHand) {
  for (int round = 0; round < 20; ++round) {
    Logged logged;
    std::atomic<uint64_t> served{0};
    std::barrier start(4);
    const auto work = [&] {
      start.arrive_and_wait();
      std::vector<void*> mine;
      void* data = nullptr;
      while (runtime_memory_allocate(&data, logged.handle, kBytes, 0, nullptr) == KINA_SUCCESS) {
        ++served;
        mine.push_back(data);
        if (mine.size() < 8) continue;
        for (int i = 0; i < 4; ++i) {
          const bool is_given = runtime_memory_deallocate(logged.handle, mine.back(), kBytes, 0, nullptr) == 0;
          if (!is_given) Logged::give(logged.name, mine.back());
          mine.pop_back();
        }
      }
      for (void* block : mine) Logged::give(logged.name, block);
    };
    {
      std::vector<std::jthread> threads;
      threads.reserve(3);
      for (int i = 0; i < 3; ++i) threads.emplace_back(work);
      start.arrive_and_wait();
      while (served < 100) std::this_thread::yield();
      EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);
    }
    EXPECT_TRUE(logged.has_ended());
    EXPECT_LE(logged.taken + logged.given, 2 * served) << "a full ring drops rows, but makes up none";
    EXPECT_EQ(logged.refused, 0U);
  }
}

// The same with the moment held open: a cache has seen that the handle keeps the resource, and has not begun yet.
TEST(Logging, AHandleThatEndsWaitsForACacheThatIsAboutToBegin) {
  using namespace kina;
  Logged logged;
  const auto hold_open = [&] {
    const Ref<Resource> found = resources().acquire(value_of(logged.handle));
    auto& pool = static_cast<PoolResource&>(*found->upstream());
    void* block = pool.allocate(kBytes, kStorageAlignment, host_device().main());
    pool.deallocate(block, kBytes, kStorageAlignment, host_device().main());
    PoolCache* cache = static_cast<ThreadBlock*>(t_cache)->newest_pool_cache;
    ASSERT_TRUE(cache != nullptr && cache->is_open && cache->pool == &pool);
    std::atomic<bool> is_released{false};
    std::jthread release;
    {
      const std::lock_guard all(caches_mutex());
      ASSERT_TRUE(found->is_kept);
      release = std::jthread([&] {
        EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);
        is_released = true;
      });
      while (found->is_kept) std::this_thread::yield();
      for (int i = 0; i < 200 && !is_released; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_FALSE(is_released);
      const std::lock_guard lock(cache->lock);
      cache->logged.resource = found->as_logging();
      cache->logged.resource->begin_cache(pool);
    }
    release.join();
    EXPECT_EQ(cache->logged.resource, nullptr);
  };
  in_thread(hold_open);
  EXPECT_TRUE(logged.has_ended());
}

// What a cache is about to be told while the handle ends would keep the resource for ever.
TEST(Logging, AReleaseRacesWithTheFirstCallsOfAThreadThatLivesOn) {
  constexpr int kRounds = 200;
  std::barrier turn(2);
  std::atomic<const Logged*> current{nullptr};
  std::jthread thread([&] {
    for (int round = 0; round < kRounds; ++round) {
      turn.arrive_and_wait();
      const Logged& logged = *current;
      void* data = nullptr;
      while (runtime_memory_allocate(&data, logged.handle, kBytes, 0, nullptr) == KINA_SUCCESS)
        Logged::give(logged.name, data);
      turn.arrive_and_wait();
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    Logged logged;
    current = &logged;
    turn.arrive_and_wait();
    for (std::atomic<int> pause = round; pause > 0; --pause) {
    }
    EXPECT_EQ(runtime_resource_release(logged.handle), KINA_SUCCESS);
    turn.arrive_and_wait();
    EXPECT_TRUE(logged.has_ended()) << "round " << round;
  }
}

}  // namespace
