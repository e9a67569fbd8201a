// The map of failed bytes against a model that keeps one failure per byte, and the chain of skipped functions.
#include "impl/core/failure.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "impl/tests/heap.h"

namespace kina {
namespace {

constexpr int64_t kBytes = 96;
std::byte g_storage[kBytes];

Ref<Claim> new_claim() { return make_counted<Claim>(Failure::make(KINA_ERROR_DEVICE, "f", "m")); }

View bytes_view(int64_t first, int64_t count, int64_t stride) {
  View view;
  view.data = g_storage + first;
  view.dtype = KINA_DTYPE_U8;
  view.geometry.ndim = 1;
  view.geometry.extents[0] = count;
  view.geometry.strides[0] = stride;
  return view;
}

// Rows and columns with strides of any sign inside the storage.
View random_view(std::mt19937& random) {
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  View view = bytes_view(0, 0, 0);
  view.geometry.ndim = 2;
  int64_t low = 0;
  int64_t high = 0;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t extent = below(7);
    const int64_t stride = below(13) - 6;
    view.geometry.extents[axis] = extent;
    view.geometry.strides[axis] = stride;
    (stride < 0 ? low : high) += stride * std::max<int64_t>(extent - 1, 0);
  }
  view.data = g_storage - low + below(kBytes - high + low);
  return view;
}

std::vector<size_t> bytes_of_elements(const View& view) {
  std::vector<size_t> bytes;
  const Geometry& g = view.geometry;
  for (int64_t i = 0; i < g.extents[0]; ++i)
    for (int64_t j = 0; j < g.extents[1]; ++j)
      bytes.push_back(static_cast<size_t>(view.data - g_storage + i * g.strides[0] + j * g.strides[1]));
  return bytes;
}

uint64_t failure_at(const FailureMap& map, int64_t byte) {
  const FailedRange range = map.lowest(Runs(bytes_view(byte, 1, 1), g_storage));
  return range.claim ? range.claim->root->id : 0;
}

// What another thread clears while memory is out takes none of the room: its bytes stay failed instead.
TEST(FailureMap, KeepsTheRoomOfAMarkFromThoseWhoClear) {
  FailureMap map;
  const Ref<Claim> before = new_claim(), after = new_claim();
  map.mark(Runs(0, 64), before);
  const size_t room = map.promise_room(Runs(70, 80));
  tests::heap_left = 0;
  for (uint64_t byte = 2; byte < 60; byte += 4) map.clear_what_can_be(Runs(byte, byte + 1));
  map.mark(Runs(70, 80), after, room);
  tests::heap_left = -1;

  EXPECT_EQ(failure_at(map, 75), after->root->id);
  EXPECT_EQ(failure_at(map, 1), before->root->id);
}

TEST(FailureMap, ClearsExactlyBesidePromises) {
  FailureMap map;
  const Ref<Claim> before = new_claim();
  map.mark(Runs(0, 64), before);
  static_cast<void>(map.promise_room(Runs(70, 80)));
  for (uint64_t byte = 1; byte < 63; byte += 2) {  // some of the promises fill the room that there is to the last
    static_cast<void>(map.promise_room(Runs(70, 80)));
    map.make_room_to_clear(Runs(byte, byte + 1));
    tests::heap_left = 0;
    map.clear(Runs(byte, byte + 1));
    tests::heap_left = -1;
    ASSERT_EQ(failure_at(map, static_cast<int64_t>(byte)), 0U);
    ASSERT_EQ(failure_at(map, static_cast<int64_t>(byte) + 1), before->root->id);
  }
}

// Nobody's mark takes place in another one's room, and who gives a room back gives no other one.
TEST(FailureMap, KeepsARoomForEachWhoWasPromisedOne) {
  FailureMap map;
  const Ref<Claim> before = new_claim();
  map.mark(Runs(0, 64), before);
  std::vector<std::pair<Ref<Claim>, size_t>> promised;
  for (uint64_t i = 0; i < 8; ++i) promised.emplace_back(new_claim(), map.promise_room(Runs(8 * i, 8 * i + 1)));
  const size_t unused = map.promise_room(Runs(0, 1));
  tests::heap_left = 0;
  map.take_back(unused);
  for (uint64_t byte = 4; byte < 64; byte += 8) map.clear_what_can_be(Runs(byte, byte + 1));
  for (uint64_t i = 0; i < 8; ++i) map.mark(Runs(8 * i, 8 * i + 1), promised[i].first, promised[i].second);
  tests::heap_left = -1;

  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(failure_at(map, 8 * i), promised[static_cast<size_t>(i)].first->root->id);
    EXPECT_EQ(failure_at(map, 8 * i + 1), before->root->id);
  }
}

TEST(FailureMap, IsTheSameAsOneFailurePerByte) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    FailureMap map;
    std::vector<uint64_t> model(kBytes, 0);
    for (int step = 0; step < 60; ++step) {
      const View view = random_view(random);
      const Runs runs(view, g_storage);
      const std::vector<size_t> bytes = bytes_of_elements(view);
      size_t lowest = kBytes;
      for (const size_t byte : bytes)
        if (model[byte] != 0) lowest = std::min(lowest, byte);
      const FailedRange found = map.lowest(runs);
      ASSERT_EQ(bool(found.claim), lowest < kBytes);
      if (found.claim) {
        ASSERT_EQ(found.start, lowest);
        ASSERT_EQ(found.claim->root->id, model[lowest]);
      }
      if (random() % 2 == 0) {
        const Ref<Claim> claim = new_claim();
        map.mark(runs, claim);
        for (const size_t byte : bytes) model[byte] = claim->root->id;
      } else {
        map.make_room_to_clear(runs);
        EXPECT_EQ(map.clear(runs), lowest < kBytes);
        for (const size_t byte : bytes) model[byte] = 0;
      }
      for (int64_t byte = 0; byte < kBytes; ++byte)
        ASSERT_EQ(failure_at(map, byte), model[static_cast<size_t>(byte)]) << "byte " << byte << " in round " << round;
    }
  }
}

TEST(FailureMap, TouchingMarksOfOneFailureAreOneRun) {
  FailureMap map;
  const Ref<Failure> root = Failure::make(KINA_ERROR_DEVICE, "f", nullptr);
  map.mark(Runs(bytes_view(8, 8, 1), g_storage), make_counted<Claim>(root));
  map.mark(Runs(bytes_view(16, 8, 1), g_storage), make_counted<Claim>(root)->after("skipped"));
  const FailedRange run = map.lowest(Runs(bytes_view(4, 40, 1), g_storage));
  EXPECT_EQ(run.start, 8u);
  EXPECT_EQ(run.end, 24u);
}

TEST(FailureMap, WithoutRoomWrittenBytesStayFailedAndNoOtherIsRepaired) {
  FailureMap map;
  map.mark(Runs(bytes_view(0, 90, 1), g_storage), new_claim());
  const Runs holes(bytes_view(1, 30, 3), g_storage);
  EXPECT_TRUE(map.clear(holes));  // no make_room before
  for (int64_t byte = 0; byte < 90; ++byte) {
    if (byte % 3 == 1) continue;
    EXPECT_NE(failure_at(map, byte), 0u) << byte;
  }
}

TEST(Failure, IsFoundByItsIdAsLongAsSomebodyRefersToIt) {
  Ref<Failure> first = Failure::make(KINA_ERROR_DEVICE, "f", "one");
  const Ref<Failure> second = Failure::make(KINA_ERROR_DEVICE, "f", "two");
  const uint64_t id = first->id;
  EXPECT_EQ(Failure::find(id).get(), first.get());
  first = nullptr;
  EXPECT_FALSE(bool(Failure::find(id)));
  EXPECT_STREQ(Failure::find(second->id)->message(), "two");
}

TEST(Claim, KeepsTheRootAndTheNewestSixteenOfALongChain) {
  static const char* const names[] = {"f0", "f1", "f2", "f3"};
  Ref<Claim> claim = new_claim();
  for (uint32_t i = 0; i < 40; ++i) claim = claim->after(names[i % 4]);
  EXPECT_EQ(claim->skipped.total, 40u);
  EXPECT_STREQ(claim->root->function, "f");
  for (size_t i = 0; i < 16; ++i) EXPECT_STREQ(claim->skipped.names[i], names[(39 - i) % 4]);
}

TEST(Runs, MergeAxesThatLeaveNoGap) {
  View view = bytes_view(0, 4, 1);
  view.geometry.ndim = 3;
  const int64_t extents[] = {4, 3, 5};
  const int64_t strides[] = {1, 4, 0};  // a transposed matrix, broadcast
  std::copy_n(extents, 3, view.geometry.extents);
  std::copy_n(strides, 3, view.geometry.strides);
  const Runs runs(view, g_storage);
  EXPECT_EQ(runs.count(), 1u);
  EXPECT_EQ(runs.bytes, 12u);
}

}  // namespace
}  // namespace kina
