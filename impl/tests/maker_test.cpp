// Counts that their maker changes by plain stores: nothing is lost when other threads come in between.
#include "impl/core/maker.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "impl/core/handle.h"
#include "impl/core/thread.h"

namespace kina {
namespace {

// A count as objects have it.
struct Count {
  std::atomic<uint64_t> value{0};
  std::atomic<Maker::Number> maker{0};

  // True where the calling thread did it alone.
  bool add() {
    const bool is_alone = change_alone(own_maker(), maker, [this] {
      value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    });
    if (!is_alone) value.fetch_add(1, std::memory_order_relaxed);
    return is_alone;
  }
};

// With the threads of the test as makers of their own.
template <class Body>
void on_new_thread(Body&& body) {
  std::thread([&] {
    ASSERT_NE(thread_block(), nullptr);
    body();
  }).join();
}

bool can_be_alone() { return fences_are_remote.load(); }

TEST(Makers, AThreadChangesAloneWhatItMade) {
  on_new_thread([] {
    Count own{{0}, {own_maker()->number()}}, other{{0}, {own_maker()->number()}};
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(own.add(), can_be_alone());
    EXPECT_EQ(own.value, 1000U);
    on_new_thread([&] { EXPECT_FALSE(own.add()); });
    EXPECT_EQ(own.maker, 0U);
    EXPECT_FALSE(own.add());
    EXPECT_FALSE(other.add());             // neither what else it made before
    EXPECT_EQ(own_maker()->number(), 0U);  // nor what it makes from then on
    EXPECT_EQ(own.value, 1002U);
  });
}

TEST(Makers, AMakerCanAdmitAllToOneObjectAndStaysAlone) {
  on_new_thread([] {
    Count shared{{0}, {own_maker()->number()}}, own{{0}, {own_maker()->number()}};
    admit_all(shared.maker);
    EXPECT_FALSE(shared.add());
    on_new_thread([&] { EXPECT_FALSE(shared.add()); });
    EXPECT_EQ(own.add(), can_be_alone());
  });
}

TEST(Makers, WhatAThreadThatEndedMadeIsEverybodys) {
  Count left;
  on_new_thread([&] {
    left.maker = own_maker()->number();
    left.add();
  });
  on_new_thread([&] { EXPECT_FALSE(left.add()); });
  EXPECT_EQ(left.maker, 0U);
  EXPECT_EQ(left.value, 2U);
}

TEST(Makers, AForkedChildHasItsOwnThreadAloneAsAMaker) {
  Count left;
  std::atomic<bool> is_made{false}, is_over{false};
  std::thread maker([&] {
    ASSERT_NE(thread_block(), nullptr);
    left.maker = own_maker()->number();
    is_made = true;
    while (!is_over) left.add();
  });
  while (!is_made) std::this_thread::yield();
  on_new_thread([&] {
    Count own{{0}, {own_maker()->number()}};
    for (int times = 0; times < 30; ++times) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);  // it would hang where it waited for the thread that it does not have
        const bool is_right = !left.add() && left.maker == 0 && own.add() == can_be_alone();
        _exit(is_right ? 0 : 1);
      }
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_EQ(status, 0);
    }
  });
  is_over = true;
  maker.join();
}

// The maker is in the middle of its changes when three others come, again and again: by new makers.
TEST(Makers, NoChangeIsLostWhenOthersCome) {
  for (int round = 0; round < 100; ++round) {
    Count count;
    std::atomic<bool> is_started{false};
    std::atomic<int> others{3};
    uint64_t own = 0;
    std::vector<std::thread> threads;
    threads.reserve(4);
    threads.emplace_back([&] {
      ASSERT_NE(thread_block(), nullptr);
      count.maker = own_maker()->number();
      for (; others != 0; ++own) {
        if (own == 100) is_started = true;
        count.add();
      }
    });
    for (int other = 0; other < 3; ++other)
      threads.emplace_back([&] {
        while (!is_started) std::this_thread::yield();
        for (int i = 0; i < 100; ++i) count.add();
        --others;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(count.value, own + 300);
  }
}

// One that was not seen would find the storage again after its end.
TEST(Makers, AWeakReferenceThatAnotherThreadMakesMeanwhileIsSeen) {
  for (int round = 0; round < 60; ++round) {
    KinaTensor tensor = KINA_TENSOR_INIT, upgraded = KINA_TENSOR_INIT;
    std::atomic<bool> is_made{false}, is_over{false};
    std::thread maker([&] {
      const int64_t extent = 4;
      EXPECT_EQ(runtime_alloc(&tensor, &extent, 1, KINA_DTYPE_F32, kDLCPU, 0, nullptr), KINA_SUCCESS);
      for (int i = 0; i < 100 || !is_over; ++i) {
        if (i == 100) is_made = true;
        KinaTensor alias = KINA_TENSOR_INIT;
        EXPECT_EQ(runtime_alias(&alias, &tensor), KINA_SUCCESS);
        EXPECT_EQ(runtime_free(&alias), KINA_SUCCESS);
      }
      EXPECT_EQ(runtime_free(&tensor), KINA_SUCCESS);
    });
    while (!is_made) std::this_thread::yield();
    KinaWeak weak = nullptr;
    EXPECT_EQ(runtime_weak_create(&weak, &tensor), KINA_SUCCESS);
    is_over = true;
    maker.join();
    ASSERT_EQ(runtime_weak_upgrade(&upgraded, weak), KINA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(runtime_weak_release(weak), KINA_SUCCESS);
  }
}

// The thread that made the names is among those that end them.
TEST(Makers, OfSeveralEndersOfANameExactlyOneWins) {
  HandleTable<int> table(Kind::tensor);
  int object = 0;
  constexpr size_t kNames = 64;
  for (int round = 0; round < 100; ++round) {
    std::array<std::atomic<uint64_t>, kNames> names{};
    std::atomic<int> winners{0};
    const auto end_all = [&](SlotCache& cache, size_t first) {
      for (size_t i = 0; i < kNames; ++i) {
        const std::atomic<uint64_t>& name = names[(first + i) % kNames];
        while (name == 0) std::this_thread::yield();
        winners += table.remove(name, &cache) != nullptr;
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(3);
    threads.emplace_back([&] {
      ASSERT_NE(thread_block(), nullptr);
      SlotCache cache(own_maker());
      for (std::atomic<uint64_t>& name : names) name = table.insert(&object, &cache);
      end_all(cache, 0);
    });
    for (size_t other = 1; other < 3; ++other)
      threads.emplace_back([&, other] {
        ASSERT_NE(thread_block(), nullptr);
        SlotCache cache(own_maker());
        end_all(cache, other * 20);
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners, static_cast<int>(kNames));
  }
  EXPECT_EQ(table.live(), 0U);
}

}  // namespace
}  // namespace kina
