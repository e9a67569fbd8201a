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

TEST(Format, PutsPartsInOrder) {
  char text[64];
  const Part parts[] = {Part("shape"), Part(int64_t{-3}), Part(~uint64_t{0})};
  format(text, sizeof text, "{} has {} and {}", parts, 3);
  EXPECT_STREQ(text, "shape has -3 and 18446744073709551615");
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
