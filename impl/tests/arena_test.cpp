// The pool's arena and its address table, against simple models. No memory is touched: the spans are numbers.
#include "impl/memory/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "impl/memory/address_table.h"

namespace kina {
namespace {

constexpr uint64_t kGranule = 256;

void* at(uint64_t address) { return reinterpret_cast<void*>(address); }
uint64_t number(const void* data) { return reinterpret_cast<uint64_t>(data); }

bool remove_free_span(Arena& arena, uint64_t keep_bytes, ArenaSpan& removed) {
  auto* span = arena.find_free_span(keep_bytes);
  if (span == nullptr) return false;
  removed = span->memory;
  arena.detach(*span);
  arena.end(*span);
  return true;
}

TEST(Arena, TakesASpanBackAsItWas) {
  Arena arena(kGranule);
  for (uint64_t base : {uint64_t{1} << 20, uint64_t{1} << 30}) ASSERT_TRUE(arena.add({at(base), 4096, kGranule}));
  const uint64_t metadata = arena.metadata_bytes();
  auto* first = arena.find_free_span(0, 5);
  ASSERT_NE(first, nullptr);
  arena.detach(*first);
  EXPECT_EQ(arena.free_bytes(), 4096U);
  arena.come_back(*first, 5);
  EXPECT_EQ(arena.free_bytes(), 8192U);
  EXPECT_EQ(arena.metadata_bytes(), metadata);

  auto* second = arena.find_free_span(0, 5);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  arena.detach(*second);
  arena.come_back(*second, 6);
  EXPECT_EQ(arena.find_free_span(0, 5), nullptr);
  EXPECT_EQ(arena.find_free_span(0, 6), first);
  EXPECT_NE(arena.take({4096, kGranule, BlockUse::internal}), nullptr);
  EXPECT_NE(arena.take({4096, kGranule, BlockUse::internal}), nullptr);
}

TEST(AddressTable, AnswersAsAMapDoes) {
  AddressTable<uint64_t> table;
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(1);
  for (int step = 0; step < 200'000; ++step) {
    const uint64_t key = (random() % 3000 + 1) * kGranule;
    uint64_t* found = table.find(key);
    ASSERT_EQ(found != nullptr, model.count(key) == 1);
    if (found != nullptr) {
      ASSERT_EQ(*found, model[key]);
    }
    if (found != nullptr && random() % 2 == 0) {
      table.remove(found);
      model.erase(key);
    } else if (found == nullptr) {
      ASSERT_TRUE(table.reserve_one());
      ASSERT_TRUE(table.insert(key, key + 1));
      ASSERT_FALSE(table.insert(key, key + 2));
      model[key] = key + 1;
    }
    ASSERT_EQ(table.count(), model.size());
  }
}

TEST(Arena, RefusesWhatItDoesNotKnow) {
  Arena arena(kGranule);
  ASSERT_TRUE(arena.add({at(1 << 20), 1 << 16, kGranule}));
  const Request request{1000, kGranule, BlockUse::raw};
  void* data = arena.take(request);
  EXPECT_EQ(arena.give(at(number(data) + kGranule), request), Return::unknown);
  EXPECT_EQ(arena.give(data, {1000, kGranule, BlockUse::internal}), Return::unknown);
  EXPECT_EQ(arena.give(data, {1001, kGranule, BlockUse::raw}), Return::different);
  EXPECT_EQ(arena.give(data, {1000, 512, BlockUse::raw}), Return::different);
  EXPECT_EQ(arena.give(data, request), Return::done);
  EXPECT_EQ(arena.give(data, request), Return::unknown);
}

TEST(Arena, RefusesSizesThatOverflow) {
  Arena arena(kGranule);
  EXPECT_EQ(arena.needed(~uint64_t{0}), 0U);
  EXPECT_EQ(arena.take({~uint64_t{0}, kGranule, BlockUse::raw}), nullptr);
  ASSERT_TRUE(arena.add({at(1 << 20), 1 << 16, kGranule}));
  EXPECT_EQ(arena.take({~uint64_t{0} - 255, kGranule, BlockUse::raw}), nullptr);
  EXPECT_EQ(arena.take({1, uint64_t{1} << 63, BlockUse::raw}), nullptr);
  for (const uint64_t bytes : {~uint64_t{0} - 255, ~uint64_t{0} - (1 << 20) + 1, uint64_t{1} << 63})
    EXPECT_FALSE(arena.find_run({bytes, kGranule, BlockUse::raw}));
  EXPECT_FALSE(arena.find_run({uint64_t{1} << 63, uint64_t{1} << 63, BlockUse::raw}));
}

TEST(Arena, ServesAWholeSpanAgainOnceItsPiecesAreBack) {
  Arena arena(kGranule);
  const uint64_t whole = 1000 * kGranule;
  ASSERT_TRUE(arena.add({at(1 << 20), whole + 77, kGranule}));
  const Request small{3 * kGranule, kGranule, BlockUse::raw};
  std::vector<void*> blocks;
  while (void* data = arena.take(small)) blocks.push_back(data);
  EXPECT_EQ(blocks.size(), 333U);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  for (void* data : blocks) ASSERT_EQ(arena.give(data, small), Return::done);
  EXPECT_EQ(arena.free_bytes(), whole);
  EXPECT_NE(arena.take({whole, kGranule, BlockUse::raw}), nullptr);
}

TEST(Arena, GivesBackOnlySpansThatAreWhollyFree) {
  Arena arena(kGranule);
  const ArenaSpan spans[] = {
      {at(1 << 20), 4096, kGranule}, {at(1 << 24), 8192, kGranule}, {at(1 << 25), 100, kGranule}};
  for (const ArenaSpan& span : spans) ASSERT_TRUE(arena.add(span));
  const Request request{8192, kGranule, BlockUse::raw};
  void* data = arena.take(request);
  ASSERT_EQ(number(data), uint64_t{1} << 24);
  ArenaSpan removed;
  EXPECT_TRUE(remove_free_span(arena, 0, removed));
  EXPECT_TRUE(remove_free_span(arena, 0, removed));
  EXPECT_FALSE(remove_free_span(arena, 0, removed));
  ASSERT_EQ(arena.give(data, request), Return::done);
  EXPECT_FALSE(remove_free_span(arena, 1, removed));
  EXPECT_TRUE(remove_free_span(arena, 0, removed));
  EXPECT_EQ(number(removed.base), uint64_t{1} << 24);
  EXPECT_EQ(arena.free_bytes(), 0U);
}

TEST(Arena, KeepsBytesOfDifferentStreamsApartUntilTheyAreJoined) {
  Arena arena(kGranule);
  ASSERT_TRUE(arena.add_shelf(nullptr));
  ASSERT_TRUE(arena.add_shelf(nullptr));
  ASSERT_TRUE(arena.add({at(1 << 20), 8 * kGranule, kGranule}));
  const Request quarter{2 * kGranule, kGranule, BlockUse::raw};
  void* blocks[] = {arena.take(quarter), arena.take(quarter), arena.take(quarter), arena.take(quarter)};
  const uint32_t shelves[] = {2, 3, 3, 2};
  for (size_t i = 0; i < 4; ++i)
    ASSERT_EQ(arena.give(blocks[i], quarter, {shelves[i], i + 1, nullptr, nullptr}), Return::done);

  const Request half{4 * kGranule, kGranule, BlockUse::raw};
  const Request whole{8 * kGranule, kGranule, BlockUse::raw};
  EXPECT_EQ(arena.take(quarter, Stamp::kNothing), nullptr);
  EXPECT_EQ(arena.take(half, 2), nullptr);
  Arena::Run middle = arena.find_run(half);
  ASSERT_TRUE(middle);
  const Stamp stamp = arena.next_stamp(middle);
  EXPECT_EQ(stamp.shelf, 3U);
  EXPECT_EQ(stamp.position, 3U) << "the later of both moments";
  EXPECT_FALSE(arena.find_run({9 * kGranule, kGranule, BlockUse::raw}));
  const Arena::Run run = arena.find_run(whole);
  ASSERT_TRUE(run);
  arena.join(run, {2, 9, nullptr, nullptr});
  Arena::Run joined = arena.find_run(whole);
  EXPECT_EQ(arena.next_stamp(joined).position, 9U);
  EXPECT_EQ(arena.take(whole, 2), at(1 << 20));
}

TEST(Arena, TakesBehindABlockOnlyWhatIsFreeThereAtOnce) {
  Arena arena(kGranule);
  ASSERT_TRUE(arena.add_shelf(nullptr));
  ASSERT_TRUE(arena.add_shelf(nullptr));
  ASSERT_TRUE(arena.add({at(1 << 20), 8 * kGranule, kGranule}));
  const Request one{kGranule, kGranule, BlockUse::internal};
  void* first = arena.take(one);
  EXPECT_EQ(arena.take(one, Stamp::kNothing, Stamp::kNothing, 8 * kGranule), nullptr) << "less than the room is left";
  void* second = arena.take_behind(first, one, 2);
  ASSERT_EQ(number(second), number(first) + kGranule) << "what follows nothing is anybody's";
  EXPECT_EQ(arena.taker_of(second), 2U);
  EXPECT_EQ(arena.take_behind(first, one, 2), nullptr) << "a live block lies there";
  void* third = arena.take_behind(second, one, 2);
  ASSERT_EQ(arena.give(second, one, {3, 1, nullptr, nullptr}), Return::done);
  EXPECT_EQ(arena.take_behind(first, one, 2), nullptr) << "another stream gave it back";
  EXPECT_EQ(arena.take_behind(first, one, 3), second);
  EXPECT_EQ(arena.take_behind(third, {6 * kGranule, kGranule, BlockUse::internal}, 2), nullptr) << "too small";
  EXPECT_EQ(arena.take_behind(at(4096), one, 2), nullptr) << "no block";
}

TEST(Arena, GivesSpansBackWhoseFreePiecesFollowDifferentStreams) {
  Arena arena(kGranule);
  ASSERT_TRUE(arena.add_shelf(nullptr));
  ASSERT_TRUE(arena.add({at(1 << 20), 4 * kGranule, kGranule}));
  const Request half{2 * kGranule, kGranule, BlockUse::raw};
  void* block = arena.take(half);
  ArenaSpan removed;
  EXPECT_FALSE(remove_free_span(arena, 0, removed));
  ASSERT_EQ(arena.give(block, half, {2, 5, nullptr, nullptr}), Return::done);
  EXPECT_TRUE(remove_free_span(arena, 0, removed));
  EXPECT_EQ(arena.free_bytes(), 0U);
}

TEST(Arena, NeverServesAnAbandonedBlockAgain) {
  Arena arena(kGranule);
  ASSERT_TRUE(arena.add({at(1 << 20), 2 * kGranule, kGranule}));
  const Request whole{2 * kGranule, kGranule, BlockUse::raw};
  void* block = arena.take(whole);
  EXPECT_EQ(arena.abandon(block, whole), Return::done);
  EXPECT_EQ(arena.take(whole), nullptr);
  EXPECT_EQ(arena.give(block, whole), Return::unknown);
}

// Random takes and gives of all sizes and alignments: what is live never overlaps, and free bytes are what is left.
TEST(Arena, KeepsItsAccountsOverRandomSequences) {
  for (uint64_t granule : {uint64_t{256}, uint64_t{4096}}) {
    Arena arena(granule);
    std::mt19937_64 random(granule);
    std::map<uint64_t, Request> live;
    uint64_t next_span = uint64_t{1} << 30;
    uint64_t capacity = 0;
    uint64_t used = 0;
    for (int step = 0; step < 60'000; ++step) {
      if (random() % 5 < 3) {
        const Request request{1 + (random() % (uint64_t{1} << (random() % 22))), granule << (random() % 4),
                              BlockUse::raw};
        void* data = arena.take(request);
        if (data == nullptr) {
          const uint64_t bytes = arena.needed(request.bytes) + (granule << 4) + (random() % 3) * (uint64_t{1} << 20);
          ASSERT_TRUE(arena.add({at(next_span), bytes, granule}));
          next_span += (bytes / (uint64_t{1} << 24) + 2) << 24;
          capacity += bytes / granule * granule;
          data = arena.take(request);
          ASSERT_NE(data, nullptr);
        }
        const uint64_t address = number(data);
        ASSERT_EQ(address % request.alignment, 0U);
        const auto above = live.lower_bound(address);
        if (above != live.end()) {
          ASSERT_LE(address + request.bytes, above->first);
        }
        if (above != live.begin()) {
          ASSERT_LE(std::prev(above)->first + std::prev(above)->second.bytes, address);
        }
        live[address] = request;
        used += arena.needed(request.bytes);
      } else if (!live.empty()) {
        auto chosen = live.lower_bound((uint64_t{1} << 30) + random() % (next_span - (uint64_t{1} << 30)));
        if (chosen == live.end()) chosen = live.begin();
        ASSERT_EQ(arena.give(at(chosen->first), chosen->second), Return::done);
        used -= arena.needed(chosen->second.bytes);
        live.erase(chosen);
      } else {
        ArenaSpan removed;
        while (remove_free_span(arena, capacity / 2, removed)) capacity -= removed.bytes / granule * granule;
      }
      ASSERT_EQ(arena.free_bytes(), capacity - used);
    }
    for (const auto& [address, request] : live) ASSERT_EQ(arena.give(at(address), request), Return::done);
    ArenaSpan removed;
    while (remove_free_span(arena, 0, removed)) capacity -= removed.bytes / granule * granule;
    EXPECT_EQ(capacity, 0U) << "a span whose blocks are all back is not one piece";
  }
}

}  // namespace
}  // namespace kina
