// The catalogue of messages, and the formatting that never allocates.
#include "impl/core/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kina {
namespace {

TEST(Messages, NoTwoRowsAreAlike) {
  std::set<std::string> names, texts;
  for (const MessageRow& row : kMessages) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(texts.insert(row.text).second) << row.text;
  }
}

TEST(Messages, EveryRowIsAFailureOfTheTable) {
  for (const MessageRow& row : kMessages) {
    EXPECT_NE(row.status, KINA_SUCCESS) << row.name;
    EXPECT_NE(find_status(row.status), nullptr) << row.name;
  }
}

TEST(Messages, OutOfMemoryNamesTheLimitInTheWay) {
  KinaResource host = nullptr, limit = nullptr, outer = nullptr;
  ASSERT_EQ(runtime_resource_host(&host), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_limit(&limit, host, 1000), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_limit(&outer, limit, 10'000), KINA_SUCCESS);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(runtime_memory_allocate(&first, outer, 600, 0, nullptr), KINA_SUCCESS);

  EXPECT_EQ(runtime_memory_allocate(&second, outer, 401, 0, nullptr), KINA_ERROR_OUT_OF_MEMORY);
  EXPECT_STREQ(runtime_last_error_message(), "401 bytes cannot be had: 600 of at most 1000 are in use in limit(host)");

  EXPECT_EQ(runtime_memory_deallocate(outer, first, 600, 0, nullptr), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(outer), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(limit), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(host), KINA_SUCCESS);
}

TEST(Format, PutsPartsInOrder) {
  char text[64];
  const Part parts[] = {Part("shape"), Part(int64_t{-3}), Part(~uint64_t{0})};
  format(text, sizeof text, "{} has {} and {}", parts, 3);
  EXPECT_STREQ(text, "shape has -3 and 18446744073709551615");
}

TEST(Format, NamesDevicesAndTheirTypes) {
  char text[64];
  const Part parts[] = {Part(device_of(kDLExtDev, 1)), Part(kDLCUDA), Part(device_of(77, -1)),
                        Part(device_of(77, 0).device_type)};
  format(text, sizeof text, "{}, {}, {}, {}", parts, 4);
  EXPECT_STREQ(text, "sim:1, 2 (cuda), 77:-1, 77");
}

TEST(Format, CutsWhereTheRoomEnds) {
  for (size_t room = 1; room < 20; ++room) {
    std::string text(room + 4, '#');
    const Part parts[] = {Part("0123456789")};
    format(text.data(), room, "a{}b", parts, 1);
    const size_t length = std::char_traits<char>::length(text.c_str());
    EXPECT_LT(length, room);
    EXPECT_EQ(text.substr(0, length), std::string("a0123456789b").substr(0, length));
    EXPECT_EQ(text.substr(room), "####") << "wrote behind " << room;
  }
}

}  // namespace
}  // namespace kina
