// A fork among threads that hold mutexes leaves a child in which all of them are free.
#include "impl/core/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "impl/core/resident_mutex.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

struct Locks {
  std::array<Mutex, 2> outer;
  Mutex inner{Mutex::Place::inner};
};

// One inside the other, and a new one made inside both.
void use(Locks& locks, size_t first) {
  const std::lock_guard outer(locks.outer[first]);
  const std::lock_guard inner(locks.inner);
  const auto made = std::make_unique<Mutex>(Mutex::Place::inner);
  const std::lock_guard own(*made);
}

int forked(Locks& locks) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    for (size_t i = 0; i < 2; ++i) use(locks, i);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Mutex, IsFreeInAForkedChildWhateverOtherThreadsHold) {
  Locks locks;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      while (!stop.load()) {
        use(locks, i % 2);
        for (int spin = 0; spin < 2000 && !stop.load(); ++spin) continue;
      }
    });

  int bad = 0;
  for (int i = 0; i < 30 && bad == 0; ++i) bad = forked(locks);

  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

TEST(Mutex, LocksLikeAnyOther) {
  Mutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  bool taken = true;
  std::thread([&] { taken = mutex.try_lock(); }).join();
  EXPECT_FALSE(taken);
  mutex.unlock();
  const std::lock_guard again(mutex);
}

// What a resident guards: two numbers that are alike whenever nobody is inside.
struct Guarded {
  ResidentMutex mutex;
  uint64_t first = 0;
  uint64_t second = 0;

  void change() {
    ++first;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  }
};

TEST(ResidentMutex, LetsOneThreadInAtATime) {
  constexpr uint64_t kRounds = 30;
  constexpr uint64_t kTimes = 3000;  // enough to become the resident, again and again at first
  Guarded guarded;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      Residence residence(thread_block());
      for (uint64_t round = 0; round < kRounds; ++round) {
        for (uint64_t time = 0; time < kTimes; ++time) {
          const ResidentLock lock(guarded.mutex, residence);
          guarded.change();
        }
        const std::lock_guard lock(guarded.mutex);
        ASSERT_EQ(guarded.first, guarded.second);
      }
      guarded.mutex.end(residence);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guarded.first, 3 * kRounds * kTimes);
  EXPECT_EQ(guarded.second, 3 * kRounds * kTimes);
}

TEST(ResidentMutex, IsFreeInAForkedChildAndWhatItGuardsIsWhole) {
  Guarded guarded;
  std::atomic<bool> stop{false};
  std::thread resident([&] {
    Residence residence(thread_block());
    while (!stop.load()) {
      const ResidentLock lock(guarded.mutex, residence);
      guarded.change();
    }
    guarded.mutex.end(residence);
  });
  int bad = 0;
  for (int i = 0; i < 30 && bad == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      const std::lock_guard lock(guarded.mutex);
      _exit(guarded.first == guarded.second ? 0 : 1);
    }
    waitpid(child, &bad, 0);
  }
  stop.store(true);
  resident.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace kina
