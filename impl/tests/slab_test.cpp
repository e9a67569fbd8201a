// Size classes, slabs and their records. No memory is touched: the slabs are numbers.
#include "impl/memory/slab.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "impl/memory/cache.h"

namespace kina {
namespace {

constexpr uint64_t kBase = uint64_t{0x7123} << 32;

void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

TEST(SizeClasses, HoldEverySizeWithAnEighthLostAtMost) {
  for (uint64_t granule : {uint64_t{256}, uint64_t{4096}, uint64_t{65536}}) {
    const SizeClasses sizes(granule);
    for (uint64_t bytes = 1; bytes <= SizeClasses::kLargest; bytes += bytes < 5000 ? 1 : 13) {
      ASSERT_TRUE(sizes.serves(bytes));
      const uint32_t size_class = sizes.class_of(bytes);
      ASSERT_LT(size_class, SizeClasses::kCount);
      const uint64_t given = sizes.bytes_of(size_class);
      ASSERT_GE(given, bytes);
      ASSERT_EQ(given % granule, 0U);
      const uint64_t least = (bytes + granule - 1) / granule * granule;
      ASSERT_LE(given - least, least / 8) << bytes;
      ASSERT_EQ(sizes.class_of(given), size_class);
    }
    EXPECT_FALSE(sizes.serves(0));
    EXPECT_FALSE(sizes.serves(SizeClasses::kLargest + 1));
  }
  EXPECT_FALSE(SizeClasses(2 * SizeClasses::kPage).serves(1));
}

TEST(SizeClasses, ArePlainNumbersForEveryGranule) {
  for (uint64_t granule = 256; granule != 0; granule <<= 1)
    for (uint32_t i = 0; i < SizeClasses::kCount; ++i) ASSERT_GE(SizeClasses(granule).batch_of(i), 4U) << granule;
}

TEST(Slab, FindsTheRecordOfEveryBlockAndOfNothingElse) {
  const SizeClasses sizes(256);
  for (uint32_t size_class = 0; size_class < SizeClasses::kCount; ++size_class) {
    const uint32_t blocks = sizes.most_blocks_of_slab(size_class);
    Slab* slab = Slab::make(7, at(kBase), size_class, blocks, sizes);
    ASSERT_NE(slab, nullptr);
    const uint64_t bytes = sizes.bytes_of(size_class);
    ASSERT_EQ(slab->bytes(), blocks * bytes);
    ASSERT_LE(slab->metadata_bytes(), slab->bytes() / 6);
    std::set<Block*> seen;
    for (uint64_t offset = 0; offset < slab->bytes(); offset += 256) {
      ASSERT_EQ(Slab::find(at(kBase + offset)), slab);
      ASSERT_EQ(Slab::find(at(kBase + offset + 128)), nullptr);
      Block* block = slab->block_at(at(kBase + offset));
      ASSERT_EQ(block != nullptr, offset % bytes == 0);
      if (block != nullptr) {
        ASSERT_EQ(block->address(), at(kBase + offset));
        ASSERT_EQ(Slab::find_record(at(kBase + offset), size_class, sizes), block);
        ASSERT_TRUE(seen.insert(block).second);
      }
    }
    EXPECT_EQ(seen.size(), slab->count());
    EXPECT_EQ(slab->block_at(at(kBase + slab->bytes())), nullptr);
    EXPECT_EQ(slab->block_at(at(kBase - bytes)), nullptr);
    slab->end();
    ASSERT_EQ(Slab::find(at(kBase)), nullptr);
  }
}

// Behind a slab its last page is others', whatever the same records said of it before.
TEST(Slab, RemembersNothingOfAnEarlierOne) {
  const SizeClasses sizes(256);
  constexpr uint64_t kBytes = 12288;
  Slab* slab = Slab::make(7, at(kBase), sizes.class_of(kBytes), 8, sizes);
  ASSERT_NE(slab, nullptr);
  slab->end();
  ASSERT_EQ(Slab::make(7, at(kBase), sizes.class_of(kBytes), 5, sizes), slab);

  EXPECT_NE(slab->block_at(at(kBase + 4 * kBytes)), nullptr);
  EXPECT_EQ(slab->block_at(at(kBase + 5 * kBytes)), nullptr);
  slab->end();
}

// A caller may name any size at any address: no record is looked at that the slab does not have.
TEST(Slab, HasRecordsForItsOwnSizeAlone) {
  const SizeClasses sizes(256);
  constexpr uint32_t kClass = 40;
  Slab* slab = Slab::make(7, at(kBase), kClass, 5, sizes);
  ASSERT_NE(slab, nullptr);
  for (uint64_t offset = 0; offset < slab->bytes() + 2 * SizeClasses::kPage; offset += 256)
    for (uint32_t size_class = 0; size_class < SizeClasses::kCount; ++size_class) {
      const Block* block = Slab::find_record(at(kBase + offset), size_class, sizes);
      ASSERT_EQ(block != nullptr, size_class == kClass && offset < slab->bytes());
      if (block == nullptr) continue;
      ASSERT_EQ(block->is_of(at(kBase + offset), pool_tag(7)), block->address() == at(kBase + offset));
      ASSERT_FALSE(block->is_of(at(kBase + offset), pool_tag(8)));
    }
  // Nor where a tag would make up for it.
  for (uint64_t offset = 1; offset < 256; ++offset)
    EXPECT_EQ(Slab::find_record(at(kBase + offset), kClass, sizes), nullptr);
  EXPECT_EQ(Slab::find_record(at(~uint64_t{0}), kClass, sizes), nullptr);
  slab->end();
  EXPECT_EQ(Slab::find_record(at(kBase), kClass, sizes), nullptr);
}

TEST(Slab, TellsPoolsApartByTheBitsThatAddressesLeave) {
  constexpr uint64_t kMost = (uint64_t{1} << 24) - 1;
  EXPECT_EQ(pool_tag(kMost + 1), 0U);  // such a pool goes the ordinary way
  for (uint64_t serial = 1; serial <= kMost; serial = 2 * serial + 1) {
    EXPECT_NE(pool_tag(serial), 0U);
    EXPECT_EQ(pool_tag(serial) & Block::kAddressMask, 0U);
    EXPECT_NE(pool_tag(serial), pool_tag(serial + 1));
  }
  EXPECT_EQ(no_block.address(), nullptr);
}

// The record that was taken last may have gone to another pool since.
TEST(Slab, KeepsWhatACacheTookLastFromStandingInForAnotherAddress) {
  const SizeClasses sizes(256);
  Slab* slab = Slab::make(8, at(kBase), 0, 256, sizes);
  ASSERT_NE(slab, nullptr);
  PoolCache cache(nullptr, 1);
  cache.newest = slab->blocks();
  cache.tag = pool_tag(8);
  EXPECT_EQ(cache.find(at(kBase), 0), slab->blocks());

  cache.tag = pool_tag(7);
  EXPECT_EQ(cache.find(at(kBase), 0), nullptr);
  EXPECT_EQ(cache.find(at(kBase | (pool_tag(8) ^ pool_tag(7))), 0), nullptr);
  slab->end();
}

TEST(Slab, IsNotMadeOnPagesOfAnother) {
  const SizeClasses sizes(256);
  Slab* slab = Slab::make(7, at(kBase), 40, 16, sizes);
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(Slab::make(8, at(kBase + SizeClasses::kPage), 0, 256, sizes), nullptr);
  slab->end();
  Slab* other = Slab::make(8, at(kBase + SizeClasses::kPage), 0, 256, sizes);
  ASSERT_NE(other, nullptr);
  other->end();
}

TEST(Slab, IsNoneForAddressesThatNoProcessHas) {
  EXPECT_EQ(Slab::find(at(~uint64_t{0})), nullptr);
  EXPECT_EQ(Slab::find(nullptr), nullptr);
  EXPECT_EQ(Slab::make(1, at(uint64_t{1} << 50), 0, 256, SizeClasses(256)), nullptr);
}

TEST(Block, EndsOnceAndOnlyWithItsOwnNumbers) {
  Block block;
  uint32_t cache = 0;
  const Request request{1000, 256, BlockUse::raw};
  EXPECT_EQ(block.give(request, cache), Return::unknown);
  block.take(request, 7, 77);
  EXPECT_EQ(block.shelf(), 7U);
  EXPECT_EQ(block.give({1001, 256, BlockUse::raw}, cache), Return::different);
  EXPECT_EQ(block.give({1000, 256, BlockUse::internal}, cache), Return::unknown);
  for (int bit = 17; bit < 64; ++bit) {  // other bits of the word are no bytes
    EXPECT_EQ(block.give({1000 | uint64_t{1} << bit, 256, BlockUse::raw}, cache), Return::different);
    EXPECT_EQ(block.give({1000 | uint64_t{1} << bit, 256, BlockUse::internal}, cache), Return::unknown);
  }
  const Request adaptors{1000, 256, static_cast<BlockUse>(kLastUse)};
  EXPECT_EQ(block.change_use({1001, 256, BlockUse::raw}, adaptors.use), Return::different);
  EXPECT_EQ(block.change_use(request, adaptors.use), Return::done);
  EXPECT_EQ(block.give(request, cache), Return::unknown);
  EXPECT_EQ(block.change_use(adaptors, BlockUse::raw), Return::done);
  EXPECT_EQ(block.shelf(), 7U);
  EXPECT_EQ(block.refuse(BlockUse::raw), Return::different);
  EXPECT_EQ(block.refuse(BlockUse::internal), Return::unknown);
  std::atomic<int> wins{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      uint32_t from = 0;
      if (block.give(request, from) == Return::done) wins += from == 77 ? 1 : 100;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wins, 1);
  block.start_batch(32, 77);
  EXPECT_EQ(block.give(request, cache), Return::unknown);
  EXPECT_EQ(block.batch_count(), 32U);
  EXPECT_EQ(block.batch_position(), 77U);
}

TEST(Magazine, HoldsTwiceItsLimitAndGivesBackTheNewestFirst) {
  Magazine magazine;
  magazine.limit = 3;
  std::vector<Block> blocks(7);
  for (size_t i = 0; i < 6; ++i) ASSERT_TRUE(magazine.push(blocks[i]));
  EXPECT_FALSE(magazine.push(blocks[6]));
  for (size_t i = 6; i-- > 0;) ASSERT_EQ(magazine.pop(), &blocks[i]);
  EXPECT_EQ(magazine.pop(), nullptr);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(magazine.push_foreign(blocks[i]));
  EXPECT_FALSE(magazine.push_foreign(blocks[3]));
  EXPECT_EQ(magazine.pop(), nullptr);
}

TEST(Lane, GivesBatchesBackWholeAndSplitsThemForOne) {
  Lane lane(nullptr, Stamp::kNothing);
  std::vector<Block> blocks(3);
  blocks[0].next = &blocks[1];
  blocks[1].next = &blocks[2];
  lane.put(5, &blocks[0], 3, 9);
  const auto always = [](const Point&) { return true; };
  EXPECT_EQ(lane.take_one(4, always), nullptr);
  EXPECT_EQ(lane.take_one(5, always), &blocks[0]);
  uint32_t count = 0;
  EXPECT_EQ(lane.take(5, count), &blocks[1]);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(blocks[1].batch_position(), 9U);
  EXPECT_EQ(lane.take(5, count), nullptr);
}

}  // namespace
}  // namespace kina
