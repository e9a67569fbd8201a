// What the environment asks of the simulated devices.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace kina::sim {

// The kinds of driver calls that can be made to fail.
enum class Fault : uint8_t { allocate, launch, copy, event, wait, lost };

inline constexpr int32_t kMostDevices = 64;

struct Configuration {
  int32_t devices = 0;                           // KINA_SIM_DEVICES
  uint64_t seed = 0;                             // KINA_SIM_SEED
  uint64_t memory_bytes = uint64_t{256} << 20;   // KINA_SIM_MEMORY, for each device
  std::set<std::pair<int32_t, int32_t>> denied;  // KINA_SIM_DENY="0-1,1-0": the first cannot reach the second
  std::map<Fault, uint64_t> faults;  // KINA_SIM_FAULT="launch:3,lost:10": the n-th such call fails, counted from 1
  std::string why_absent;            // where there are no devices: what is wrong with the variables, or which to set
};

// Read once.
const Configuration& configuration();

// Parsed from these strings; NULL and "" stand for an unset variable.
Configuration parse(const char* devices, const char* seed, const char* memory, const char* deny, const char* fault);

}  // namespace kina::sim
