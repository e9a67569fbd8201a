// Runs random programs over simulated devices: all must be right, and none may stay right when a place of the runtime
// that establishes order is made wrong.
//
// sim_orders --seeds N [--from S] [--jobs J]      N programs from seed S on, each in a process of its own: all right
// sim_orders --drop-each N [--jobs J]             makes each site wrong in turn (a build with KINA_DROP_SITES): one of
// N
//                                                 programs must find it; prints which one did, and by what
// sim_orders --program SEED                       one program, in this process

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ci/programs/orders/program.h"

namespace {

constexpr uint64_t kSurveySeeds = 100;  // programs that show which sites are reached
constexpr unsigned kPatienceSeconds = 20;

struct Options {
  uint64_t count = 200, first = 1, jobs = 1;
};

// What one program is started with.
struct Start {
  uint64_t seed;
  std::string wrong_site;  // empty: the unchanged runtime
  std::string site_log;
};

[[noreturn]] void run_here(uint64_t seed) {
  setenv("KINA_SIM_DEVICES", std::to_string(orders::kDevices).c_str(), 1);
  setenv("KINA_SIM_SEED", std::to_string(seed).c_str(), 1);
  orders::Program(seed).run();
  std::_Exit(orders::kRight);
}

// The program in a child process, which says on `words` what went wrong.
pid_t launch(const Start& start, std::FILE* words) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(fileno(words), STDOUT_FILENO);
  dup2(fileno(words), STDERR_FILENO);
  if (!start.wrong_site.empty()) setenv("KINA_DROP_SITE", start.wrong_site.c_str(), 1);
  if (!start.site_log.empty()) setenv("KINA_SITE_LOG", start.site_log.c_str(), 1);
  alarm(kPatienceSeconds);
  run_here(start.seed);
}

std::string cause_of(int state, std::FILE* words) {
  char line[400] = "";
  std::rewind(words);
  if (std::fgets(line, sizeof line, words) != nullptr) line[std::strcspn(line, "\n")] = 0;
  if (WIFSIGNALED(state)) return std::string("ended by ") + strsignal(WTERMSIG(state));
  return line[0] == 0 ? "ended with code " + std::to_string(WEXITSTATUS(state)) : line;
}

// Runs the programs of seeds `first` to `last`, `jobs` at a time, and calls failed(seed, cause) for each that goes
// wrong; stops starting new ones when that answers false.
template <class Failed>
void run_programs(uint64_t first, uint64_t last, uint64_t jobs, const Start& like, Failed failed) {
  struct Running {
    uint64_t seed;
    std::FILE* words;
  };
  std::map<pid_t, Running> running;
  bool goes_on = true;
  while ((goes_on && first <= last) || !running.empty()) {
    if (goes_on && first <= last && running.size() < jobs) {
      std::FILE* words = std::tmpfile();
      const Start start{first, like.wrong_site, like.site_log};
      running[launch(start, words)] = {first++, words};
      continue;
    }
    int state = 0;
    const auto ended = running.find(waitpid(-1, &state, 0));
    if (ended == running.end()) continue;
    const bool is_right = WIFEXITED(state) && WEXITSTATUS(state) == orders::kRight;
    if (!is_right) goes_on = failed(ended->second.seed, cause_of(state, ended->second.words)) && goes_on;
    std::fclose(ended->second.words);
    running.erase(ended);
  }
}

unsigned long long number(uint64_t value) { return value; }

int run_seeds(const Options& options) {
  uint64_t alarms = 0;
  run_programs(options.first, options.first + options.count - 1, options.jobs, {},
               [&](uint64_t seed, const std::string& cause) {
                 std::printf("seed %llu went wrong: %s\n", number(seed), cause.c_str());
                 ++alarms;
                 return true;
               });
  std::printf("%llu programs, %llu went wrong\n", number(options.count), number(alarms));
  return alarms == 0 ? 0 : 1;
}

// Each place of the library that establishes order, and its kind: empty for one that no program came to.
using Sites = std::map<std::string, std::string>;

// The library tells which sites it has been built with, and which it comes to.
Sites survey(const Options& options) {
  const std::string path = std::filesystem::temp_directory_path() / ("kina-sites-" + std::to_string(getpid()));
  run_programs(1, std::min(kSurveySeeds, options.count), options.jobs, {0, "", path},
               [](uint64_t, const std::string&) { return true; });
  Sites sites;
  std::ifstream rows(path);
  for (std::string word, name; rows >> word >> name;) {
    std::string& kind = sites[name];
    if (word != "exists") kind = word;
  }
  std::filesystem::remove(path);
  return sites;
}

// The line of the source that a site's name points at.
std::string source_of(const std::string& name) {
  const size_t colon = name.rfind(':');
  std::ifstream file(name.substr(0, colon));
  std::string line;
  for (unsigned long number = std::stoul(name.substr(colon + 1)); number > 0; --number) std::getline(file, line);
  line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

// Whether one of the programs notices that the site is wrong in this way; prints the row.
bool is_found(const std::string& site, const std::string& kind, bool is_excess, const Options& options) {
  uint64_t lowest = 0;
  std::string why = "by no program";
  run_programs(1, options.count, options.jobs, {0, site + (is_excess ? "+" : ""), ""},
               [&](uint64_t seed, const std::string& cause) {
                 if (lowest != 0 && lowest < seed) return false;
                 lowest = seed;
                 why = cause;
                 return false;
               });
  std::printf("%-5s %-8s %5s  %-30s %.48s\n", kind.c_str(), is_excess ? "excess" : "omission",
              lowest == 0 ? "none" : std::to_string(lowest).c_str(), site.c_str(), source_of(site).c_str());
  std::printf("%22s%.140s\n", "", why.c_str());
  std::fflush(stdout);
  return lowest != 0;
}

int drop_each(const Options& options) {
  const Sites sites = survey(options);
  size_t found = 0;
  std::printf("%-5s %-8s %5s  %s\n", "kind", "wrong by", "seed", "site, and what the program saw");
  for (const auto& [site, kind] : sites) {
    if (kind.empty()) {
      std::printf("no program comes to %s %s\n", site.c_str(), source_of(site).c_str());
      continue;
    }
    bool is_noticed = is_found(site, kind, false, options);
    if (kind == "known") is_noticed = is_found(site, kind, true, options) && is_noticed;
    found += is_noticed ? 1 : 0;
  }
  std::printf("sites = %zu, found = %zu\n", sites.size(), found);
  return sites.empty() || found != sites.size() ? 1 : 0;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  std::string mode;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string word = words[i];
    const uint64_t value = std::strtoull(words[i + 1], nullptr, 10);
    if (word == "--from")
      options.first = value;
    else if (word == "--jobs")
      options.jobs = std::max<uint64_t>(value, 1);
    else
      mode = word, options.count = value;
  }
  if (count % 2 == 1 && mode == "--seeds") return run_seeds(options);
  if (count % 2 == 1 && mode == "--drop-each") return drop_each(options);
  if (count % 2 == 1 && mode == "--program") run_here(options.count);
  std::fprintf(stderr,
               "usage: sim_orders --seeds N [--from S] [--jobs J] | --drop-each N [--jobs J] | --program SEED\n");
  return 64;
}
