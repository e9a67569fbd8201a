// The built-in defaults that the environment variable KINA_RESOURCE asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "impl/core/resource.h"

namespace kina {

// One resource of the string, from the outermost adaptor to the base.
struct ResourcePlan {
  enum class Word : uint8_t { host, cuda, cuda_async, sim, pool, logging, limit } word;
  uint64_t maximum_bytes = 0;  // of a limit
};

struct DevicePlan {
  int32_t device_type = 0;
  std::vector<ResourcePlan> chain;
};

// What a string says, or where and why it is no configuration.
struct Configuration {
  std::vector<DevicePlan> devices;
  const char* problem = nullptr;  // NULL: the string is good
  uint64_t position = 0;          // of the problem, characters from 1

  const DevicePlan* find(int32_t device_type) const noexcept;
};
Configuration parse_configuration(std::string_view text);

// The environment's, read once; throws INVALID_ARGUMENT when it is bad.
const Configuration& environment_configuration();

// Makes what a plan says on `device`.
Ref<Resource> make_planned(const DevicePlan& plan, Device& device);

}  // namespace kina
