// A fork among threads that hold mutexes leaves a child in which all of them are free.
#include "impl/core/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
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
    const uint64_t seen = first;
    for (int i = 0; i < 30; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    first = seen + 1;
    ++second;
  }
};

// A thread that is inside almost always, as the resident, and one that comes by the mutex: with a new mutex each time,
// because each eviction makes the next resident wait longer.
void meet(const std::function<void(Guarded&)>& come) {
  constexpr uint64_t kResidents = 40;
  constexpr uint64_t kTimes = 20;
  for (uint64_t round = 0; round < kResidents; ++round) {
    Guarded guarded;
    std::atomic<bool> is_resident{false}, is_over{false};
    uint64_t times = 0;
    std::thread resident([&] {
      Residence residence(thread_block());
      for (; !is_over || times < 100; ++times) {
        {
          const ResidentLock lock(guarded.mutex, residence);
          guarded.change();
        }
        if (times == 100) is_resident = true;
      }
      guarded.mutex.end(residence);
    });
    while (!is_resident) std::this_thread::yield();
    for (uint64_t time = 0; time < kTimes; ++time) come(guarded);
    is_over = true;
    resident.join();
    ASSERT_EQ(guarded.first, times + kTimes);
    ASSERT_EQ(guarded.second, times + kTimes);
  }
}

TEST(ResidentMutex, LetsOneThreadInAtATime) {
  meet([](Guarded& guarded) {
    const std::lock_guard lock(guarded.mutex);
    guarded.change();
  });
}

TEST(ResidentMutex, LetsOneThreadInAtATimeByItsOwnedLock) {
  meet([](Guarded& guarded) {
    const auto lock = guarded.mutex.own();
    guarded.change();
  });
}

// While it waits another thread may become the resident.
TEST(ResidentMutex, LetsOneThreadInAtATimeWhoWaited) {
  for (int round = 0; round < 20; ++round) {
    Guarded guarded;
    std::condition_variable changed;
    std::atomic<bool> waits{false}, is_resident{false}, is_over{false};
    uint64_t times = 0;
    std::thread resident([&] {
      Residence residence(thread_block());
      while (!waits) std::this_thread::yield();
      for (; !is_over || times < 100; ++times) {
        {
          const ResidentLock lock(guarded.mutex, residence);
          guarded.change();
        }
        if (times == 100) is_resident = true;
        if (times >= 100) changed.notify_all();
      }
      guarded.mutex.end(residence);
    });
    {
      auto lock = guarded.mutex.own();
      waits = true;
      while (!is_resident) guarded.mutex.wait(changed, lock);
      const uint64_t seen = guarded.first;
      for (int time = 0; time < 10; ++time) std::this_thread::yield();
      EXPECT_EQ(guarded.first, seen);
    }
    is_over = true;
    resident.join();
    ASSERT_EQ(guarded.first, times);
    ASSERT_EQ(guarded.second, times);
  }
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
