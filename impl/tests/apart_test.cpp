// Blocks that threads give back for others, and those of threads that end, go on in whole pairs of lines of records.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "impl/core/device.h"
#include "impl/memory/host.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr size_t kThreads = 8;

struct Taken {
  void* data;
  uint64_t bytes;
};

struct Pool {
  explicit Pool(const KinaPoolParams& params = KINA_POOL_PARAMS_INIT)
      : resource(make_pool(make_device_resource(host_device()), plan_of(params, true))) {}
  Taken take(uint64_t bytes) const { return {resource->take({bytes, 0, BlockUse::raw}, stream()).data, bytes}; }
  void give(const Taken& block) const {
    ASSERT_EQ(resource->give(block.data, {block.bytes, 0, BlockUse::raw}, stream()), Return::done);
  }
  void give(const std::vector<Taken>& blocks) const {
    for (const Taken& block : blocks) give(block);
  }
  uint64_t reserved_bytes() const {
    KinaResourceInfo info{};
    resource->describe(info);
    return info.reserved_bytes;
  }
  void expect_empty() const {
    EXPECT_EQ(resource->trim(0), reserved_bytes());
    EXPECT_EQ(reserved_bytes(), 0U);
  }
  static Stream& stream() { return host_device().main(); }

  Ref<Resource> resource;
};

KinaPoolParams fixed_size(uint64_t bytes) {
  KinaPoolParams params = KINA_POOL_PARAMS_INIT;
  params.growth = KINA_GROWTH_NONE;
  params.initial_bytes = bytes;
  return params;
}

void run_threads(const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t index = 0; index < kThreads; ++index) threads.emplace_back(body, index);
  for (std::thread& thread : threads) thread.join();
}

// The pairs of lines of the records that the calling thread writes: of its live blocks, and of those in its magazines.
// Others' blocks, which it has yet to pass on, it writes no more.
using Lines = std::set<uint64_t>;
Lines lines_of(const std::vector<Taken>& live) {
  Lines lines;
  const auto add = [&](const Block* block) { lines.insert(reinterpret_cast<uint64_t>(block) / alignof(Slab)); };
  for (const Taken& each : live)
    if (Slab* slab = Slab::find(each.data)) add(slab->block_at(each.data));
  for (const PoolCache* cache = first_cache(*thread_block()); cache != nullptr; cache = cache->next_of_thread)
    for (const StreamCache* stream = cache->streams; stream != nullptr; stream = stream->next)
      for (const Magazine& magazine : stream->magazines)
        for (const Block* block : {magazine.loaded, magazine.spare})
          for (; block != nullptr; block = block->next) add(block);
  return lines;
}

// How many of them more than one thread writes, in thousandths.
size_t shared_lines(const std::vector<Lines>& of_threads) {
  std::map<uint64_t, int> owners;
  for (const Lines& lines : of_threads)
    for (const uint64_t line : lines) ++owners[line];
  size_t shared = 0;
  for (const auto& [line, count] : owners) shared += count > 1 ? 1 : 0;
  EXPECT_GT(owners.size(), 0U);
  return shared * 1000 / std::max(owners.size(), size_t{1});
}

// Each thread gives back the blocks that lie kThreads apart.
TEST(Apart, BlocksOfOneThreadThatOthersGaveBackShareNoLines) {
  const Pool pool;
  constexpr size_t kEach = 512;
  std::vector<Taken> blocks;
  for (size_t i = 0; i < kThreads * kEach; ++i) blocks.push_back(pool.take(4096));
  const uint64_t reserved = pool.reserved_bytes();
  std::vector<Lines> lines(kThreads);
  std::barrier meeting(static_cast<std::ptrdiff_t>(kThreads));
  run_threads([&](size_t thread) {
    for (size_t i = thread; i < blocks.size(); i += kThreads) pool.give(blocks[i]);
    meeting.arrive_and_wait();
    std::vector<Taken> live;
    for (size_t i = 0; i < kEach * 3 / 4; ++i) live.push_back(pool.take(4096));
    lines[thread] = lines_of(live);
    meeting.arrive_and_wait();
    pool.give(live);
  });
  EXPECT_EQ(shared_lines(lines), 0U);
  EXPECT_EQ(pool.reserved_bytes(), reserved) << "the same blocks";
  pool.expect_empty();
}

// Threads that replace what was taken for them, while the pool grows, collects and is trimmed. What a thread has too
// much of by itself may still go to another one: a few in a thousand.
TEST(Apart, ThreadsThatReplaceBlocksEndUpWithLinesOfTheirOwn) {
  const Pool pool;
  const auto take = [&](std::mt19937_64& random) { return pool.take(256 + (random() % 65281 >> random() % 8)); };
  std::mt19937_64 random(1);
  std::vector<std::vector<Taken>> live(kThreads);
  for (std::vector<Taken>& blocks : live)
    for (int i = 0; i < 64; ++i) blocks.push_back(take(random));
  std::vector<Lines> lines(kThreads);
  std::barrier meeting(static_cast<std::ptrdiff_t>(kThreads));
  run_threads([&](size_t thread) {
    std::mt19937_64 own(thread);
    for (int step = 0; step < 4000; ++step) {
      Taken& block = live[thread][own() % live[thread].size()];
      pool.give(block);
      block = take(own);
      if (step % 8 == 0) std::this_thread::yield();
      if (step % 200 == 0) meeting.arrive_and_wait();  // else some are done before others have begun
      if (step == 1000 && thread == 0) pool.resource->trim(0);
    }
    lines[thread] = lines_of(live[thread]);
    meeting.arrive_and_wait();
  });
  EXPECT_LE(shared_lines(lines), 10U);
  for (const std::vector<Taken>& blocks : live) pool.give(blocks);
  pool.expect_empty();
}

// Where one of four is live the others are of use as soon as nothing else is left.
TEST(Apart, NoBlockIsOutOfReach) {
  for (const uint64_t bytes : {uint64_t{256}, uint64_t{4096}, uint64_t{12288}, uint64_t{65536}}) {
    const Pool pool(fixed_size(8 * kMebibyte));
    std::vector<Taken> blocks;
    for (Taken block = pool.take(bytes); block.data != nullptr; block = pool.take(bytes)) blocks.push_back(block);
    ASSERT_GE(blocks.size() * bytes, 8 * kMebibyte * 3 / 4);
    std::vector<Taken> kept;
    std::thread([&] {
      for (size_t i = 0; i < blocks.size(); ++i) i % 4 == 1 ? kept.push_back(blocks[i]) : pool.give(blocks[i]);
    }).join();
    for (int round = 0; round < 3; ++round) {
      std::vector<Taken> again;
      while (kept.size() + again.size() < blocks.size()) {
        again.push_back(pool.take(bytes));
        ASSERT_NE(again.back().data, nullptr) << again.size() << " of " << blocks.size() - kept.size();
      }
      EXPECT_EQ(pool.take(bytes).data, nullptr);
      std::thread([&] { pool.give(again); }).join();
    }
    pool.give(kept);
    const Taken whole = pool.take(8 * kMebibyte);
    ASSERT_NE(whole.data, nullptr) << "no block is in use";
    pool.give(whole);
    pool.expect_empty();
  }
}

// A thread that gives back for others at random makes the pool little larger.
TEST(Apart, WhatLiesApartIsBounded) {
  const Pool pool;
  std::mt19937_64 random(1);
  std::vector<Taken> live;
  live.reserve(20'000);
  for (int i = 0; i < 20'000; ++i) live.push_back(pool.take(4096));
  const uint64_t reserved = pool.reserved_bytes();
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      for (int i = 0; i < 2000; ++i) {
        std::swap(live[random() % live.size()], live.back());
        pool.give(live.back());
        live.pop_back();
      }
    }).join();
    for (int i = 0; i < 2000; ++i) live.push_back(pool.take(4096));
  }
  EXPECT_LE(pool.reserved_bytes(), reserved * 5 / 4);
  pool.give(live);
  pool.expect_empty();
}

// Blocks go from hand to hand, and nobody finds another one's mark in his own, while slabs end and come.
TEST(Apart, BlocksThatChangeHandsAreDistinctWhileOthersTrim) {
  struct Slot {
    std::mutex mutex;
    Taken block{nullptr, 0};
  };
  const Pool pool;
  std::vector<Slot> slots(256);
  std::atomic<bool> is_over{false};
  std::thread trimmer([&] {
    while (!is_over) {
      pool.resource->trim(0);
      std::this_thread::yield();
    }
  });
  run_threads([&](size_t thread) {
    std::mt19937_64 random(thread);
    for (int step = 0; step < 3000; ++step) {
      Taken block{nullptr, 0};
      if (step % 16 != 0) {
        block = pool.take(random() % 2 == 0 ? 256 : 16384);
        ASSERT_NE(block.data, nullptr);
        std::memcpy(block.data, &block.data, sizeof block.data);
      }
      Slot& slot = slots[random() % slots.size()];
      {
        const std::lock_guard lock(slot.mutex);
        std::swap(slot.block, block);
      }
      if (block.data == nullptr) continue;
      ASSERT_EQ(std::memcmp(block.data, &block.data, sizeof block.data), 0);
      *static_cast<void**>(block.data) = nullptr;
      pool.give(block);
    }
  });
  is_over = true;
  trimmer.join();
  for (const Slot& slot : slots)
    if (slot.block.data != nullptr) pool.give(slot.block);
  pool.expect_empty();
}

TEST(Apart, TheLastFourOfASlabMayBeShort) {
  const SizeClasses sizes(256);
  constexpr uint32_t kClass = 20;
  for (uint32_t blocks : {5U, 6U, 7U, 8U, 63U, 64U, 65U, 67U, 250U}) {
    Slab* slab = Slab::make(7, reinterpret_cast<void*>(uint64_t{0x7123} << 32), kClass, blocks, sizes);
    ASSERT_NE(slab, nullptr);
    std::vector<Block*> all;
    for (uint32_t i = 0; i < blocks; ++i) all.push_back(slab->blocks() + i);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(blocks));
    Apart apart;
    Lane lane(nullptr, Stamp::kNothing);
    size_t whole = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      all[i]->next = nullptr;
      apart.put(kClass, all[i], 1);
      ASSERT_TRUE(apart.lay_next(lane, kClass, 4));
      ASSERT_FALSE(apart.lay_next(lane, kClass, 4));
      uint32_t count = 0;
      Block* batch = lane.take(kClass, count);
      if (batch == nullptr) continue;
      whole += count;
      const auto first = static_cast<uint32_t>(batch - slab->blocks());
      ASSERT_EQ(first % Slab::kFour, 0U);
      ASSERT_EQ(count, std::min(Slab::kFour, blocks - first));
      for (; batch != nullptr; batch = batch->next) --count;
      ASSERT_EQ(count, 0U);
      ASSERT_EQ(apart.count(kClass), i + 1 - whole);
      ASSERT_EQ(slab->count_apart(), i + 1 - whole);
    }
    ASSERT_EQ(whole, blocks);
    slab->end();
  }
}

// What another thread did to them last comes before all that is done by who has counted them. ThreadSanitizer looks.
TEST(Apart, BlocksAreCountedBehindThoseWhoLaidThem) {
  const SizeClasses sizes(256);
  constexpr uint32_t kClass = 20;
  void* const base = reinterpret_cast<void*>(uint64_t{0x7123} << 32);
  for (int round = 0; round < 20; ++round) {
    Slab* slab = Slab::make(7, base, kClass, 8, sizes);
    std::thread other([&] {
      Block* list = slab->blocks() + 1;
      list->next->next = nullptr;
      uint32_t count = 0;
      slab->lay_apart(list, count);
    });
    while (slab->count_apart() != 2) std::this_thread::yield();
    slab->end();
    EXPECT_EQ(Slab::make(8, base, kClass, 8, sizes), slab);
    other.join();
    slab->end();
  }
}

// Its records are used again, for a slab of any pool.
TEST(Apart, ForgetsASlabThatEnds) {
  const SizeClasses sizes(256);
  constexpr uint32_t kClass = 20;
  constexpr uint64_t kBase = uint64_t{0x7123} << 32;
  Lane lane(nullptr, Stamp::kNothing);
  const auto make = [&](uint64_t pool, uint64_t base) {
    return Slab::make(pool, reinterpret_cast<void*>(base), kClass, 8, sizes);
  };
  const auto lay = [&](Apart& apart, Slab& slab, uint32_t index) {
    slab.blocks()[index].next = nullptr;
    apart.put(kClass, slab.blocks() + index, 1);
    ASSERT_TRUE(apart.lay_next(lane, kClass, 4));
  };
  Apart mine, others;
  Slab* first = make(7, kBase);
  uint32_t count = 0;
  lay(mine, *first, 1);
  lay(mine, *first, 2);
  ASSERT_EQ(mine.take(first, kClass, 1, count), first->blocks() + 2);

  mine.forget(*first);
  first->end();

  EXPECT_EQ(mine.count(kClass), 0U);
  Slab* other = make(8, kBase);
  ASSERT_EQ(other, first);
  lay(others, *other, 5);
  Slab* second = make(7, kBase + (uint64_t{1} << 30));
  lay(mine, *second, 3);
  EXPECT_EQ(mine.take(second, kClass, 4, count), second->blocks() + 3);
  EXPECT_EQ(count, 1U);
  other->end();
  second->end();
}

}  // namespace
}  // namespace kina
