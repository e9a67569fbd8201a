// Names of objects: never used twice, retired when used up, safe against a concurrent end.
#include "impl/core/handle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <unordered_set>
#include <vector>

namespace kina {
namespace {

struct Thing final : Counted {
  std::atomic<int>* ended;
  explicit Thing(std::atomic<int>* counter) : ended(counter) {}
  ~Thing() override { ++*ended; }
};

TEST(Handles, ASlotGivesEachNameOnce) {
  HandleTable<int> table(Kind::weak);
  int object = 0;
  std::unordered_set<uint64_t> seen;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t handle = table.insert(&object);
    ASSERT_TRUE(seen.insert(handle).second);
    ASSERT_TRUE(table.remove(handle));
    ASSERT_EQ(table.find(handle), nullptr);
    ASSERT_FALSE(table.remove(handle));
  }
}

TEST(Handles, ASlotWhoseGenerationsAreUsedUpIsRetired) {
  HandleTable<int> table(Kind::weak);
  int object = 0;
  const uint64_t first = table.insert(&object);
  const uint64_t slot = HandleParts::slot(first);
  ASSERT_TRUE(table.remove(first));
  for (uint64_t generation = 1; generation <= HandleParts::kGenerationMask; ++generation) {
    const uint64_t handle = table.insert(&object);
    ASSERT_EQ(HandleParts::slot(handle), slot);
    ASSERT_EQ(HandleParts::generation(handle), generation);
    ASSERT_TRUE(table.remove(handle));
  }
  EXPECT_NE(HandleParts::slot(table.insert(&object)), slot);
  EXPECT_EQ(table.find(first), nullptr);
}

TEST(Handles, KindsNeverShareAName) {
  HandleTable<int> weak(Kind::weak), peer(Kind::peer);
  int object = 0;
  const uint64_t a = weak.insert(&object), b = peer.insert(&object);
  EXPECT_NE(a, b);
  EXPECT_EQ(peer.find(a), nullptr);
  EXPECT_EQ(weak.find(b), nullptr);
}

TEST(Handles, NoBytesAreANameByChance) {
  HandleTable<int> table(Kind::tensor);
  int object = 0;
  const uint64_t handle = table.insert(&object);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(~uint64_t{0}), nullptr);
  for (int bit = 0; bit < 64; ++bit) EXPECT_EQ(table.find(handle ^ uint64_t{1} << bit), nullptr) << bit;
}

TEST(Handles, OfSeveralEndersExactlyOneWins) {
  HandleTable<int> table(Kind::tensor);
  int object = 0;
  for (int round = 0; round < 200; ++round) {
    const uint64_t handle = table.insert(&object);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { winners += table.remove(handle) != nullptr; });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners, 1);
  }
  EXPECT_EQ(table.live(), 0U);
}

TEST(Handles, ThreadsWithCachesNeverShareAName) {
  HandleTable<int> table(Kind::tensor);
  int objects[4] = {};
  std::vector<std::vector<uint64_t>> names(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int* object = objects; object != objects + 4; ++object)
    threads.emplace_back([&table, object, &seen = names[static_cast<size_t>(object - objects)]] {
      SlotCache cache;
      std::vector<uint64_t> live;
      for (int i = 0; i < 20000; ++i) {
        live.push_back(table.insert(object, &cache));
        seen.push_back(live.back());
        ASSERT_EQ(table.find(live.back()), object);
        if (i % 3 == 0) continue;
        const size_t ended = static_cast<size_t>(i) * 7919 % live.size();
        ASSERT_EQ(table.remove(live[ended], &cache), object);
        ASSERT_EQ(table.find(live[ended]), nullptr);
        live[ended] = live.back();
        live.pop_back();
      }
      for (const uint64_t handle : live) ASSERT_EQ(table.remove(handle, &cache), object);
    });
  for (std::thread& thread : threads) thread.join();
  std::unordered_set<uint64_t> all;
  for (const std::vector<uint64_t>& seen : names) all.insert(seen.begin(), seen.end());
  EXPECT_EQ(all.size(), 80000U);
  EXPECT_EQ(table.live(), 0U);
}

TEST(Handles, ANameMayEndOnAnotherThreadThanItsOwn) {
  HandleTable<int> table(Kind::tensor);
  int object = 0;
  std::array<std::atomic<uint64_t>, 256> mailbox{};
  constexpr int kRounds = 50000;
  std::thread maker([&] {
    SlotCache cache;
    for (int i = 0; i < kRounds; ++i) {
      std::atomic<uint64_t>& place = mailbox[static_cast<size_t>(i) % mailbox.size()];
      while (place.load(std::memory_order_acquire) != 0) std::this_thread::yield();
      place.store(table.insert(&object, &cache), std::memory_order_release);
    }
  });
  std::thread ender([&] {
    SlotCache cache;
    for (int i = 0; i < kRounds; ++i) {
      std::atomic<uint64_t>& place = mailbox[static_cast<size_t>(i) % mailbox.size()];
      uint64_t handle = 0;
      while ((handle = place.load(std::memory_order_acquire)) == 0) std::this_thread::yield();
      ASSERT_EQ(table.remove(handle, &cache), &object);
      place.store(0, std::memory_order_release);
    }
  });
  maker.join();
  ender.join();
  EXPECT_EQ(table.live(), 0U);
}

TEST(Handles, SlotsOfAThreadThatEndedAreGivenOutAgain) {
  HandleTable<int> table(Kind::tensor);
  int object = 0;
  uint64_t highest = 0;
  for (int round = 0; round < 100; ++round)
    std::thread([&] {
      SlotCache cache;
      const uint64_t handle = table.insert(&object, &cache);
      highest = std::max(highest, HandleParts::slot(handle));
      table.remove(handle, &cache);
    }).join();
  EXPECT_LT(highest, 2 * SlotCache::kRoom);
}

TEST(Handles, AnAcquiredObjectOutlivesItsName) {
  HandleTable<Thing> table(Kind::resource);
  std::atomic<int> ended{0};
  Ref<Thing> owner = make_counted<Thing>(&ended);
  const uint64_t handle = table.insert(owner.get());
  Ref<Thing> held = table.acquire(handle);
  ASSERT_TRUE(table.remove(handle));
  owner = nullptr;
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(table.acquire(handle));
  held = nullptr;
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace kina
