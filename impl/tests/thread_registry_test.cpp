// Entries of threads in one list: who is found there, and what of it a forked child has.
#include "impl/core/thread_registry.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace kina {
namespace {

struct Guest : ThreadEntry {
  Guest();
  ~Guest();
};

thread_local Guest* t_guest = nullptr;

class GuestRegistry : public ThreadRegistry<GuestRegistry, Guest> {
 public:
  static Guest* own() noexcept { return t_guest; }
  int count() noexcept {
    const std::lock_guard lock(mutex());
    int all = 0;
    find([&](const Guest&) { return ++all < 0; });
    return all;
  }
  bool has(const Guest& guest) noexcept {
    const std::lock_guard lock(mutex());
    return find([&](const Guest& each) { return &each == &guest; }) == &guest;
  }
  bool are_ends(const Guest& first, const Guest& last) noexcept {
    const std::lock_guard lock(mutex());
    return oldest() == &first && newest() == &last;
  }
};

GuestRegistry& guests() { return GuestRegistry::instance(); }
Guest::Guest() { guests().add(*this); }
Guest::~Guest() { guests().remove(*this); }

TEST(ThreadRegistry, AnEntryIsFoundUntilItGoes) {
  const Guest first;
  {
    const Guest second, third;
    EXPECT_EQ(guests().count(), 3);
    EXPECT_TRUE(guests().has(second));
    EXPECT_TRUE(guests().are_ends(first, third));
  }
  EXPECT_EQ(guests().count(), 1);
  EXPECT_TRUE(guests().are_ends(first, first));
}

TEST(ThreadRegistry, AnEntryMayGoTwice) {
  const Guest kept;
  Guest gone;
  guests().remove(gone);
  EXPECT_FALSE(guests().has(gone));
  EXPECT_TRUE(guests().has(kept));
}

// What others registered is forgotten there, and may still go, as where a callback forks while a thread is ended.
TEST(ThreadRegistry, AForkedChildHasTheEntryOfItsOwnThreadAlone) {
  Guest mine;
  t_guest = &mine;
  std::atomic<bool> is_over{false};
  std::atomic<Guest*> other{nullptr};
  std::thread thread([&] {
    Guest theirs;
    other = &theirs;
    while (!is_over) std::this_thread::yield();
  });
  while (other == nullptr) std::this_thread::yield();
  const Guest unowned;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool has_one = guests().count() == 1 && guests().has(mine);
    guests().remove(*other);
    _exit(has_one && guests().count() == 1 && guests().has(mine) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(guests().count(), 3);
  is_over = true;
  thread.join();
  t_guest = nullptr;
}

}  // namespace
}  // namespace kina
