// The grammar of the KINA_SIM_* variables, and what is said about a text outside it.
#include <gtest/gtest.h>

#include "impl/sim/configuration.h"

namespace kina::sim {
namespace {

TEST(SimConfiguration, ReadsTheGrammar) {
  const Configuration read = parse("2", "7", "4096", "0-1,1-0", "launch:3,lost:10");
  EXPECT_EQ(read.why_absent, "");
  EXPECT_EQ(read.devices, 2);
  EXPECT_EQ(read.seed, 7U);
  EXPECT_EQ(read.memory_bytes, 4096U);
  EXPECT_EQ(read.denied.size(), 2U);
  EXPECT_EQ(read.faults.at(Fault::launch), 3U);
  EXPECT_EQ(read.faults.at(Fault::lost), 10U);
  EXPECT_EQ(read.faults.size(), 2U);
}

TEST(SimConfiguration, UnsetAndEmptyAreDefaultsAndSayHowToGetADevice) {
  for (const char* nothing : {static_cast<const char*>(nullptr), ""}) {
    const Configuration read = parse(nothing, nothing, nothing, nothing, nothing);
    EXPECT_EQ(read.why_absent, "KINA_SIM_DEVICES=2 in the environment adds two simulated ones");
    EXPECT_EQ(read.devices, 0);
    EXPECT_EQ(read.memory_bytes, uint64_t{256} << 20);
  }
}

struct Bad {
  const char *devices, *seed, *memory, *deny, *fault, *place;
};

TEST(SimConfiguration, RefusesEveryOtherText) {
  const Bad all[] = {
      {"two", "", "", "", "", "KINA_SIM_DEVICES is bad at character 1:"},
      {"65", "", "", "", "", "KINA_SIM_DEVICES is bad at character 1:"},
      {"-1", "", "", "", "", "KINA_SIM_DEVICES is bad at character 1:"},
      {"2 ", "", "", "", "", "KINA_SIM_DEVICES is bad at character 2:"},
      {"2", "0x7", "", "", "", "KINA_SIM_SEED is bad at character 2:"},
      {"2", "18446744073709551616", "", "", "", "KINA_SIM_SEED is bad at character 1:"},
      {"2", "", "0", "", "", "KINA_SIM_MEMORY is bad at character 1:"},
      {"2", "", "1G", "", "", "KINA_SIM_MEMORY is bad at character 2:"},
      {"2", "", "", "0", "", "KINA_SIM_DENY is bad at character 2:"},
      {"2", "", "", "0-2", "", "KINA_SIM_DENY is bad at character 3:"},
      {"2", "", "", "0-1,", "", "KINA_SIM_DENY is bad at character 5:"},
      {"2", "", "", "0-1;1-0", "", "KINA_SIM_DENY is bad at character 4:"},
      {"2", "", "", "", "lunch:3", "KINA_SIM_FAULT is bad at character 1:"},
      {"2", "", "", "", "launch", "KINA_SIM_FAULT is bad at character 7:"},
      {"2", "", "", "", "launch:0", "KINA_SIM_FAULT is bad at character 8:"},
      {"2", "", "", "", "launch:3,launch:4", "KINA_SIM_FAULT is bad at character 16:"},
      {"2", "", "", "", "copy:1,", "KINA_SIM_FAULT is bad at character 8:"},
  };
  for (const Bad& bad : all) {
    const Configuration read = parse(bad.devices, bad.seed, bad.memory, bad.deny, bad.fault);
    EXPECT_EQ(read.devices, 0) << bad.place;
    EXPECT_EQ(read.why_absent.rfind(bad.place, 0), 0U) << read.why_absent;
  }
}

}  // namespace
}  // namespace kina::sim
