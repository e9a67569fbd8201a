// Objects that calls look at without counting: none ends under a look, and each ends once the last look has.
#include "impl/core/lease.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "impl/core/thread.h"

namespace kina {
namespace {

constexpr uint64_t kAlive = 0x600DF00D, kDead = 0xDEAD;

struct Thing final : Leasable {
  std::atomic<int>* ended;
  HandleTable<Thing>* table;
  uint64_t handle = 0;
  std::atomic<uint64_t> word{kAlive};

  Thing(std::atomic<int>* counter, HandleTable<Thing>* names) : ended(counter), table(names) {}

 private:
  ~Thing() override {
    word = kDead;
    ++*ended;
  }
  void last_reference_gone() const noexcept override {
    table->end_name(handle);
    Leasable::last_reference_gone();
  }
};

class Leases : public testing::Test {
 protected:
  Lease<Thing> look(uint64_t handle) {
    return lease<Thing>(
        &thread_block()->leases, [&] { return table.find(handle); }, [&] { return table.acquire(handle); });
  }
  Ref<Thing> make() {
    Ref<Thing> thing = make_counted<Thing>(&ended, &table);
    thing->handle = table.insert(thing.get());
    return thing;
  }

  HandleTable<Thing> table{Kind::resource};
  std::atomic<int> ended{0};
};

TEST_F(Leases, AnObjectEndsWithItsLastReferenceWhenNobodyLooks) {
  Ref<Thing> thing = make();
  const uint64_t handle = thing->handle;
  EXPECT_TRUE(look(handle));
  thing = nullptr;
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(look(handle));
}

TEST_F(Leases, AnObjectThatIsLookedAtEndsAfterwards) {
  Ref<Thing> thing = make();
  const uint64_t handle = thing->handle;
  {
    const Lease<Thing> first = look(handle);
    const Lease<Thing> second = look(handle);
    thing = nullptr;
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(first->word, kAlive);
    EXPECT_FALSE(look(handle)) << "its name has ended";
    EXPECT_FALSE(Ref<Thing>::try_share(second.get())) << "and it cannot be kept";
  }
  EXPECT_EQ(ended, 1);
}

TEST_F(Leases, MoreLooksThanThereArePlacesCount) {
  Ref<Thing> thing = make();
  std::vector<Lease<Thing>> looks;
  looks.reserve(40);
  for (int i = 0; i < 40; ++i) looks.push_back(look(thing->handle));
  thing = nullptr;
  EXPECT_EQ(ended, 0);
  looks.clear();
  EXPECT_EQ(ended, 1);
}

TEST_F(Leases, ALookOnAnotherThreadIsWaitedFor) {
  Ref<Thing> thing = make();
  std::atomic<int> step{0};
  std::thread other([&] {
    const Lease<Thing> held = look(thing->handle);
    step = 1;
    while (step != 2) std::this_thread::yield();
    EXPECT_EQ(held->word, kAlive);
  });
  while (step != 1) std::this_thread::yield();
  thing = nullptr;
  EXPECT_EQ(ended, 0);
  step = 2;
  other.join();
  EXPECT_EQ(ended, 1);
}

TEST_F(Leases, NoObjectEndsUnderALook) {
  constexpr int kRounds = 2000;
  std::atomic<uint64_t> name{0};
  std::atomic<bool> is_over{false};
  std::atomic<int> seen{0};
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!is_over)
        if (const Lease<Thing> held = look(name)) {
          ASSERT_EQ(held->word, kAlive);
          if (const Ref<Thing> kept = Ref<Thing>::try_share(held.get())) ++seen;
          ASSERT_EQ(held->word, kAlive);
        }
    });
  for (int i = 0; i < kRounds; ++i) {
    const Ref<Thing> thing = make();
    name = thing->handle;
    if (i % 16 == 0) std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(ended, kRounds);
}

TEST_F(Leases, AChildWaitsForNoThreadOfItsParent) {
  Ref<Thing> thing = make();
  std::atomic<int> step{0};
  std::thread other([&] {
    const Lease<Thing> held = look(thing->handle);
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    const bool can_look = static_cast<bool>(look(thing->handle));
    thing = nullptr;
    _exit(can_look && ended == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  step = 2;
  other.join();
}

}  // namespace
}  // namespace kina
