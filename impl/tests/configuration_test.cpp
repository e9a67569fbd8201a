// The grammar of KINA_RESOURCE, and where a bad string is said to be bad.
#include "impl/memory/configuration.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kina {
namespace {

using Word = ResourcePlan::Word;

TEST(Configuration, ReadsChainsFromTheOutside) {
  const Configuration found = parse_configuration("cpu=logging(limit(pool(host), 4096)); cuda=pool(cuda_async)");
  ASSERT_EQ(found.problem, nullptr);
  ASSERT_EQ(found.devices.size(), 2U);
  const DevicePlan* cpu = found.find(kDLCPU);
  ASSERT_NE(cpu, nullptr);
  ASSERT_EQ(cpu->chain.size(), 4U);
  EXPECT_EQ(cpu->chain[0].word, Word::logging);
  EXPECT_EQ(cpu->chain[1].word, Word::limit);
  EXPECT_EQ(cpu->chain[1].maximum_bytes, 4096U);
  EXPECT_EQ(cpu->chain[2].word, Word::pool);
  EXPECT_EQ(cpu->chain[3].word, Word::host);
  EXPECT_EQ(found.find(kDLCUDA)->chain[1].word, Word::cuda_async);
  EXPECT_EQ(found.find(kDLExtDev), nullptr);
}

TEST(Configuration, TakesEmptyStringsAndEntries) {
  for (const char* text : {"", "  ", ";", " ; ;", "cpu=host;"})
    EXPECT_EQ(parse_configuration(text).problem, nullptr) << text;
}

struct Bad {
  const char* text;
  uint64_t position;
};

TEST(Configuration, SaysWhereAStringIsBad) {
  constexpr Bad kBad[] = {
      {"host", 1},
      {"gpu=host", 1},
      {"cpu", 4},
      {"cpu=", 5},
      {"cpu=hst", 5},
      {"cpu=pool", 9},
      {"cpu=pool(host", 14},
      {"cpu=pool(host))", 15},
      {"cpu=pool()", 10},
      {"cpu=host(host)", 9},
      {"cpu=limit(host)", 15},
      {"cpu=limit(host,)", 16},
      {"cpu=limit(host,1 000)", 18},
      {"cpu=ho st", 5},
      {"cpu=limit(host,-5)", 16},
      {"cpu=cuda", 5},
      {"cpu=pool(cuda_async)", 10},
      {"cpu=host;cpu=host", 10},
      {"cpu=host cuda=cuda", 10},
      {"cpu=host;cuda=host", 15},
      {"cpu=host;cuda=pool(cuda", 24},
  };
  for (const Bad& bad : kBad) {
    const Configuration found = parse_configuration(bad.text);
    ASSERT_NE(found.problem, nullptr) << bad.text;
    EXPECT_EQ(found.position, bad.position) << bad.text << ": " << found.problem;
  }
}

TEST(Configuration, RefusesNumbersThatOverflow) {
  EXPECT_EQ(parse_configuration("cpu=limit(host,0)").problem, nullptr);
  EXPECT_EQ(parse_configuration("cpu=limit(host,18446744073709551615)").problem, nullptr);
  EXPECT_NE(parse_configuration("cpu=limit(host,18446744073709551616)").problem, nullptr);
  EXPECT_NE(parse_configuration("cpu=limit(host,99999999999999999999999)").problem, nullptr);
}

TEST(Configuration, SurvivesRandomStrings) {
  const std::string parts[] = {"cpu",  "cuda",    "=",     "(", ")", ";",    ",", "host",
                               "pool", "logging", "limit", "1", " ", "\xff", "_"};
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto count = random() % 12; count > 0; --count) text += parts[random() % std::size(parts)];
    const Configuration found = parse_configuration(text);
    if (found.problem != nullptr) {
      ASSERT_LE(found.position, text.size() + 1);
    }
  }
}

TEST(Configuration, BoundsTheNesting) {
  std::string deep = "cpu=";
  for (int i = 0; i < 100'000; ++i) deep += "pool(";
  EXPECT_NE(parse_configuration(deep).problem, nullptr);
}

}  // namespace
}  // namespace kina
