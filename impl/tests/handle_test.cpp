// Names of objects: never used twice, retired when used up, safe against a concurrent end.
#include "impl/core/handle.h"

#include <gtest/gtest.h>

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
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { winners += table.remove(handle); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners, 1);
  }
  EXPECT_EQ(table.live(), 0U);
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
