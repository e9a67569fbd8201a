// Parsing of the KINA_SIM_* variables.
#include "impl/sim/configuration.h"

#include <cstdlib>
#include <string_view>

namespace kina::sim {
namespace {

uint64_t number(const char* text, uint64_t otherwise) {
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

// Calls f(left, right) for each "left<separator>right" of a comma-separated list.
template <class F>
void for_each_pair(const char* text, char separator, F&& f) {
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
    const size_t middle = item.find(separator);
    if (middle != std::string_view::npos) f(std::string(item.substr(0, middle)), std::string(item.substr(middle + 1)));
  }
}

constexpr std::pair<const char*, Fault> kFaults[] = {
    {"allocate", Fault::allocate}, {"launch", Fault::launch}, {"copy", Fault::copy},
    {"event", Fault::event},       {"wait", Fault::wait},     {"lost", Fault::lost},
};

}  // namespace

Configuration parse(const char* devices, const char* seed, const char* memory, const char* deny, const char* fault) {
  Configuration result;
  result.devices = static_cast<int32_t>(std::min<uint64_t>(number(devices, 0), 64));
  result.seed = number(seed, 0);
  result.memory_bytes = number(memory, result.memory_bytes);
  for_each_pair(deny, '-', [&](const std::string& from, const std::string& to) {
    result.denied.emplace(std::atoi(from.c_str()), std::atoi(to.c_str()));
  });
  for_each_pair(fault, ':', [&](const std::string& word, const std::string& count) {
    for (const auto& [name, kind] : kFaults)
      if (word == name) result.faults[kind] = number(count.c_str(), 1);
  });
  return result;
}

const Configuration& configuration() {
  static const Configuration& read = *new Configuration(
      parse(std::getenv("KINA_SIM_DEVICES"), std::getenv("KINA_SIM_SEED"), std::getenv("KINA_SIM_MEMORY"),
            std::getenv("KINA_SIM_DENY"), std::getenv("KINA_SIM_FAULT")));
  return read;
}

}  // namespace kina::sim
