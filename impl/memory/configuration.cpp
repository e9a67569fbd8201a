// configuration := entry (';' entry)* ; entry := device '=' resource ; resource := base | adaptor '(' resource [','
// bytes] ')'
#include "impl/memory/configuration.h"

#include <cstdlib>
#include <optional>

#include "impl/core/device.h"
#include "impl/memory/host.h"
#include "impl/memory/limit.h"
#include "impl/memory/logging.h"
#include "impl/memory/pool.h"

namespace kina {
namespace {

using Word = ResourcePlan::Word;

struct WordRow {
  std::string_view text;
  Word word;
  int32_t device_type;  // of a base; 0 for adaptors
};
constexpr WordRow kWords[] = {
    {"host", Word::host, kDLCPU},  {"cuda", Word::cuda, kDLCUDA}, {"cuda_async", Word::cuda_async, kDLCUDA},
    {"sim", Word::sim, kDLExtDev}, {"pool", Word::pool, 0},       {"logging", Word::logging, 0},
    {"limit", Word::limit, 0},
};

constexpr DLDeviceType kDeviceTypes[] = {kDLCPU, kDLCUDA, kDLExtDev};

bool is_word_letter(char letter) noexcept { return (letter >= 'a' && letter <= 'z') || letter == '_'; }
bool is_digit(char letter) noexcept { return letter >= '0' && letter <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { skip_spaces(); }

  Configuration parse() {
    while (at_ < text_.size()) {
      entry();
      if (found_.problem != nullptr) break;
      if (at_ < text_.size() && !accept(';')) fail("; or the end is expected");
      if (found_.problem != nullptr) break;
    }
    return std::move(found_);
  }

 private:
  void entry() {
    if (at_ < text_.size() && text_[at_] == ';') return;  // an empty entry
    const size_t start = at_;
    const std::string_view name = word();
    for (const DLDeviceType type : kDeviceTypes) {
      if (word_of(type) != name) continue;
      if (found_.find(type) != nullptr) return fail_at(start, "the device is named twice");
      if (!accept('=')) return fail("= is expected");
      DevicePlan plan;
      plan.device_type = type;
      resource(plan);
      found_.devices.push_back(std::move(plan));
      return;
    }
    fail_at(start, "a device is expected: cpu, cuda or sim");
  }

  void resource(DevicePlan& plan) {
    const size_t start = at_;
    const std::string_view name = word();
    for (const WordRow& row : kWords) {
      if (row.text != name) continue;
      plan.chain.push_back({row.word});
      if (row.device_type == 0) return adaptor(plan);
      if (row.device_type != plan.device_type) fail_at(start, "the resource is not of this device");
      return;
    }
    fail_at(start, "a resource is expected: host, cuda, cuda_async, sim, pool(r), logging(r) or limit(r,bytes)");
  }

  void adaptor(DevicePlan& plan) {
    const size_t place = plan.chain.size() - 1;
    if (place >= kMostAdaptors) return fail("too many adaptors");
    if (!accept('(')) return fail("( is expected");
    resource(plan);
    if (found_.problem != nullptr) return;
    if (plan.chain[place].word == Word::limit) {
      if (!accept(',')) return fail(", and a number of bytes are expected");
      const std::optional<uint64_t> bytes = number();
      if (!bytes) return fail("a number of bytes is expected");
      plan.chain[place].maximum_bytes = *bytes;
    }
    if (!accept(')')) fail(") is expected");
  }

  std::string_view word() {
    const size_t start = at_;
    while (at_ < text_.size() && is_word_letter(text_[at_])) ++at_;
    const std::string_view found = text_.substr(start, at_ - start);
    skip_spaces();
    return found;
  }

  std::optional<uint64_t> number() {
    const size_t start = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value))
        return std::nullopt;
    if (at_ == start) return std::nullopt;
    skip_spaces();
    return value;
  }

  bool accept(char letter) {
    if (at_ >= text_.size() || text_[at_] != letter) return false;
    ++at_;
    skip_spaces();
    return true;
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  void fail(const char* problem) { fail_at(at_, problem); }
  void fail_at(size_t position, const char* problem) {
    if (found_.problem != nullptr) return;
    found_.problem = problem;
    found_.position = position + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  Configuration found_;
};

Ref<Resource> make_base(Word word, Device& device) {
  if (word == Word::host || word == Word::sim) return make_device_resource(device);
  refuse<Message::feature_absent>("KINA-VERSION-5", {}, "cuda");
}

Ref<Resource> make_adaptor(const ResourcePlan& plan, const Ref<Resource>& upstream) {
  if (plan.word == Word::limit) return make_counted<LimitResource>(upstream, plan.maximum_bytes);
  if (plan.word == Word::logging) return make_counted<LoggingResource>(upstream, KinaLoggingParams{}, Descriptor());
  const bool is_host = upstream->device().type() == kDLCPU;
  return make_pool(upstream, plan_of(KinaPoolParams{}, is_host));
}

}  // namespace

const DevicePlan* Configuration::find(int32_t device_type) const noexcept {
  for (const DevicePlan& plan : devices)
    if (plan.device_type == device_type) return &plan;
  return nullptr;
}

Configuration parse_configuration(std::string_view text) { return Parser(text).parse(); }

const Configuration& environment_configuration() {
  static const Configuration& found = *[] {
    const char* text = std::getenv("KINA_RESOURCE");
    return new Configuration(parse_configuration(text == nullptr ? "" : text));
  }();
  require<Message::configuration_bad>(found.problem == nullptr, "KINA-RESOURCE-69", {}, found.position, found.problem);
  return found;
}

Ref<Resource> make_planned(const DevicePlan& plan, Device& device) {
  Ref<Resource> made;
  for (auto part = plan.chain.rbegin(); part != plan.chain.rend(); ++part)
    made = made ? make_adaptor(*part, made) : make_base(part->word, device);
  return made;
}

}  // namespace kina
