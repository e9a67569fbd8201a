// The rows there are, and one run over all of them: timed by Google Benchmark, or checked.
#include <cstdio>

#include "impl/bench/harness.h"

namespace kina::bench {
namespace {

struct Row {
  std::string name;
  std::function<void(Run&)> body;
  uint64_t batches;
};
std::vector<Row>& rows() {
  static std::vector<Row> all;
  return all;
}

}  // namespace

Settings& settings() {
  static Settings all;
  return all;
}

void add_row(const std::string& name, std::function<void(Run&)> body, uint64_t batches) {
  rows().push_back({name, std::move(body), batches == 0 ? settings().batches : batches});
}

namespace {

// The first fault of a checked run is reported by the shadow map, which ends the process.
int check_all() {
  for (const Row& row : rows()) {
    Run run(nullptr);
    row.body(run);
    std::printf("checked %s\n", row.name.c_str());
  }
  return 0;
}

bool take_setting(const std::string& argument) {
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
  if (name == "--batches") settings().batches = std::stoull(value);
  if (name == "--threads") settings().threads = std::stoi(value);
  return name == "--batches" || name == "--threads";
}

}  // namespace
}  // namespace kina::bench

int main(int count, char** arguments) {
  using namespace kina::bench;
  core_count();
  bool is_check = false;
  std::vector<char*> rest;
  for (char* argument : std::vector<char*>(arguments, arguments + count)) {
    if (argument == std::string("--check"))
      is_check = true;
    else if (!take_setting(argument))
      rest.push_back(argument);
  }
  add_rows();
  if (is_check) return check_all();

  // Programs have several threads, and the C library's locks and malloc are cheaper while there is only one.
  Team* sleeper = team_make(1);
  for (const Row& row : rows())
    benchmark::RegisterBenchmark(row.name.c_str(),
                                 [&row](benchmark::State& state) {
                                   pin_to(quietest_core());
                                   Run run(&state);
                                   row.body(run);
                                 })
        ->Iterations(static_cast<benchmark::IterationCount>(row.batches))
        ->UseManualTime();
  int rest_count = static_cast<int>(rest.size());
  benchmark::Initialize(&rest_count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(rest_count, rest.data())) return 64;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  team_end(sleeper);
  return 0;
}
