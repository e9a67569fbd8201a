// Leaving out one ordering site, for the test that every one of them is needed.
#include "impl/core/site.h"

#if defined(KINA_DROP_SITES)

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace kina {
namespace {

std::string name_of(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash == nullptr ? site.file : slash + 1) + ":" + std::to_string(site.line);
}

// Appends each site once to the file that KINA_SITE_LOG names.
void note(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string>& seen = *new std::set<std::string>;
  const char* path = std::getenv("KINA_SITE_LOG");
  const std::lock_guard lock(mutex);
  if (path == nullptr || !seen.insert(name).second) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", name.c_str());
    std::fclose(file);
  }
}

}  // namespace

bool is_dropped(Site site) noexcept {
  const std::string name = name_of(site);
  note(name);
  static const char* dropped = std::getenv("KINA_DROP_SITE");
  return dropped != nullptr && name == dropped;
}

}  // namespace kina

#endif
