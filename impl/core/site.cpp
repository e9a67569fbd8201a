// Making one ordering site go wrong, for the test that every one of them is needed.
#include "impl/core/site.h"

#if defined(KINA_DROP_SITES)

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// The rows that Site::here left.
extern "C" __attribute__((visibility("hidden"))) const kina::Site __start_kina_sites[], __stop_kina_sites[];

namespace kina {
namespace {

const char* word_of_kind(SiteKind kind) {
  constexpr const char* words[] = {"wait", "pin", "known"};
  return words[static_cast<size_t>(kind)];
}

const char* path_of(Site site) {
  const char* path = std::strstr(site.file, "impl/");
  return path == nullptr ? site.file : path;
}

// What the environment asks of this process. KINA_SITE_LOG: a file for the sites that exist and those that were
// reached. KINA_DROP_SITE: "impl/core/uses.cpp:12" leaves that site out, "impl/core/order.cpp:70+" makes it remember
// too much. Takes no memory once it is made: sites are reached when there is none.
class Experiment {
 public:
  static Experiment& instance() {
    static Experiment made;
    return made;
  }

  bool is_wrong(Site site, bool is_excess) const noexcept {
    return line_ == site.line && is_excess_ == is_excess && file_ == path_of(site);
  }

  void note(Site site, SiteKind kind) noexcept {
    if (log_ < 0) return;
    const Site* row = __start_kina_sites;
    while (row != __stop_kina_sites && (row->line != site.line || std::strcmp(row->file, site.file) != 0)) ++row;
    const auto index = static_cast<size_t>(row - __start_kina_sites);
    if (index >= reached_.size() || reached_[index].exchange(true)) return;
    say(word_of_kind(kind), site);
  }

 private:
  Experiment() {
    if (const char* wrong = std::getenv("KINA_DROP_SITE")) {
      const char* colon = std::strrchr(wrong, ':');
      file_.assign(wrong, colon);
      char* end = nullptr;
      line_ = std::strtoul(colon + 1, &end, 10);
      is_excess_ = *end == '+';
    }
    const char* path = std::getenv("KINA_SITE_LOG");
    if (path == nullptr || (log_ = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0) return;
    for (const Site* site = __start_kina_sites; site != __stop_kina_sites; ++site) say("exists", *site);
  }

  // One write for each row: several processes append to the file.
  void say(const char* word, Site site) const noexcept {
    char row[300];
    const int bytes =
        std::snprintf(row, sizeof row, "%s %s:%zu\n", word, path_of(site), static_cast<size_t>(site.line));
    if (write(log_, row, static_cast<size_t>(bytes)) != bytes) std::abort();
  }

  std::string file_;
  uint64_t line_ = 0;
  bool is_excess_ = false;
  int log_ = -1;
  std::array<std::atomic<bool>, 4096> reached_{};
};

}  // namespace

bool is_dropped(Site site, SiteKind kind) noexcept {
  Experiment::instance().note(site, kind);
  return Experiment::instance().is_wrong(site, false);
}

uint64_t learned(uint64_t position, Site site) noexcept {
  if (is_dropped(site, SiteKind::known)) return 0;
  return Experiment::instance().is_wrong(site, true) ? ~uint64_t{0} : position;
}

}  // namespace kina

#endif
