// Parsing of the KINA_SIM_* variables. A word that the grammar does not have is never passed over: a test that asked
// for a fault and misspelled it would pass without one.
#include "impl/sim/configuration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace kina::sim {
namespace {

struct FaultName {
  std::string_view word;
  Fault fault;
};
constexpr std::array<FaultName, 6> kFaults{{{"allocate", Fault::allocate},
                                            {"launch", Fault::launch},
                                            {"copy", Fault::copy},
                                            {"event", Fault::event},
                                            {"wait", Fault::wait},
                                            {"lost", Fault::lost}}};

// What is wrong where.
struct Trouble {
  std::string text;
};

// Goes through the text of one variable.
class Reader {
 public:
  Reader(const char* variable, const char* text) : variable_(variable), text_(text == nullptr ? "" : text) {}

  bool is_at_end() const { return at_ == text_.size(); }

  uint64_t number(uint64_t least, uint64_t most) {
    uint64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < least || value > most)
      refuse("a number from " + std::to_string(least) + " to " + std::to_string(most));
    at_ += static_cast<size_t>(end - first);
    return value;
  }

  Fault fault() {
    const std::string_view rest = text_.substr(at_);
    for (const FaultName& name : kFaults) {
      if (rest.substr(0, rest.find(':')) != name.word) continue;
      at_ += name.word.size();
      return name.fault;
    }
    refuse("allocate, launch, copy, event, wait or lost");
  }

  void separator(char wanted) {
    if (is_at_end() || text_[at_] != wanted) refuse(std::string("'") + wanted + "'");
    ++at_;
  }

  // True when another item follows a comma.
  bool has_more() {
    if (is_at_end()) return false;
    separator(',');
    return true;
  }

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw Trouble{std::string(variable_) + " is bad at character " + std::to_string(at_ + 1) + ": " + wanted +
                  " is expected there"};
  }

 private:
  const char* variable_;
  std::string_view text_;
  size_t at_ = 0;
};

uint64_t single(const char* variable, const char* text, uint64_t least, uint64_t most, uint64_t otherwise) {
  Reader reader(variable, text);
  if (reader.is_at_end()) return otherwise;
  const uint64_t value = reader.number(least, most);
  if (!reader.is_at_end()) reader.refuse("the end");
  return value;
}

void read_denied(Configuration& result, const char* text) {
  Reader reader("KINA_SIM_DENY", text);
  const auto last = static_cast<uint64_t>(std::max(result.devices, 1) - 1);
  if (reader.is_at_end()) return;
  do {
    const auto from = static_cast<int32_t>(reader.number(0, last));
    reader.separator('-');
    result.denied.emplace(from, static_cast<int32_t>(reader.number(0, last)));
  } while (reader.has_more());
}

void read_faults(Configuration& result, const char* text) {
  Reader reader("KINA_SIM_FAULT", text);
  if (reader.is_at_end()) return;
  do {
    const Fault fault = reader.fault();
    if (result.faults.contains(fault)) reader.refuse("a fault that was not named before");
    reader.separator(':');
    result.faults[fault] = reader.number(1, UINT64_MAX);
  } while (reader.has_more());
}

}  // namespace

Configuration parse(const char* devices, const char* seed, const char* memory, const char* deny, const char* fault) {
  Configuration result;
  try {
    result.devices = static_cast<int32_t>(single("KINA_SIM_DEVICES", devices, 0, kMostDevices, 0));
    result.seed = single("KINA_SIM_SEED", seed, 0, UINT64_MAX, 0);
    result.memory_bytes = single("KINA_SIM_MEMORY", memory, 1, uint64_t{1} << 40, result.memory_bytes);
    read_denied(result, deny);
    read_faults(result, fault);
  } catch (const Trouble& trouble) {
    result.devices = 0;
    result.why_absent = trouble.text;
    return result;
  }
  if (result.devices == 0) result.why_absent = "KINA_SIM_DEVICES=2 in the environment adds two simulated ones";
  return result;
}

const Configuration& configuration() {
  static const Configuration& read = *new Configuration(
      parse(std::getenv("KINA_SIM_DEVICES"), std::getenv("KINA_SIM_SEED"), std::getenv("KINA_SIM_MEMORY"),
            std::getenv("KINA_SIM_DENY"), std::getenv("KINA_SIM_FAULT")));
  return read;
}

}  // namespace kina::sim
