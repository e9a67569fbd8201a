// Who stores and looks by plain instructions while others fence all threads: in every order, with and without the
// fence. The steps are those of impl/core and impl/memory.
#include "impl/tests/fence_model.h"

#include <gtest/gtest.h>

namespace kina::tests {
namespace {

using At = FenceModel::At;
using State = FenceModel::State;

enum class Fence : uint8_t { made, missing };
void fence(At& at, Fence is) {
  if (is == Fence::made) at.fence();
}

// ---- a lock of its owner, and a visitor: OwnersLock. The same are who is inside and who evicts: Residence, the rows
// of one thread.

enum : size_t { kHeld, kVisitor, kData };
enum : size_t { kInside, kCollisions };

void change_data(At& at) {
  if (at.fact(kInside, 1) != 0) at.fact(kCollisions, 1);
  at.store(kData, at.load(kData) + 1);
  at.fact(kInside, -1);
}

void own(At& at) {
  for (int round = 0; round < 2; ++round) {
    at.store(kHeld, 1);
    while (at.load(kVisitor) != 0) {
      at.release(kHeld, 0);
      at.await(kVisitor, 0);
      at.store(kHeld, 1);
    }
    change_data(at);
    at.release(kHeld, 0);
  }
}

void visit(At& at, Fence is) {
  at.store(kVisitor, 1);
  fence(at, is);
  at.await(kHeld, 0);
  change_data(at);
  at.release(kVisitor, 0);
}

bool visit_goes_wrong(Fence is) {
  return FenceModel::has_wrong_order({own, [=](At& at) { visit(at, is); }}, {}, [](const State& state, bool is_over) {
    return state.facts[kCollisions] != 0 || (is_over && state.words[kData] != 3);
  });
}

TEST(FenceModel, AVisitorAndTheOwnerAreNeverInsideAtOnce) {
  EXPECT_FALSE(visit_goes_wrong(Fence::made));
  EXPECT_TRUE(visit_goes_wrong(Fence::missing)) << "the machine does not find what the fence is for";
}

// ---- a maker, and two others that change what it made: Maker

enum : size_t { kChanging, kCompany, kMaker, kCount, kMakersMutex };

void change_as_maker(At& at) {
  for (int change = 0; change < 2; ++change) {
    if (at.load(kMaker) != 0) {
      at.store(kChanging, 1);
      const bool is_alone = at.load(kCompany) == 0;
      if (is_alone) at.store(kCount, at.load(kCount) + 1);
      at.release(kChanging, 0);
      if (is_alone) continue;
      at.exchange(kMaker, 0);
    }
    at.add(kCount, 1);
  }
}

void change_as_other(At& at, Fence is) {
  if (at.load(kMaker) != 0) {
    at.lock(kMakersMutex);
    if (at.load(kCompany) == 0) {
      at.store(kCompany, 1);
      fence(at, is);
      at.await(kChanging, 0);
    }
    at.unlock(kMakersMutex);
    at.exchange(kMaker, 0);
  }
  at.add(kCount, 1);
}

bool count_goes_wrong(Fence is) {
  State start;
  start.words[kMaker] = 1;
  const auto other = [=](At& at) { change_as_other(at, is); };
  return FenceModel::has_wrong_order({change_as_maker, other, other}, start, [](const State& state, bool is_over) {
    return is_over && state.words[kCount] != 4;
  });
}

TEST(FenceModel, NoChangeIsLostWhenOthersComeToAMaker) {
  EXPECT_FALSE(count_goes_wrong(Fence::made));
  EXPECT_TRUE(count_goes_wrong(Fence::missing));
}

// ---- an object that threads look at while its last reference goes: LeaseRegistry

enum : size_t { kName, kObjectsWait, kWaiting, kUnfenced, kListMutex, kFirstPlace };
enum : size_t { kEnded, kLooksAtEnded };
constexpr size_t kLookers = 2;

void end_waiting(At& at, Fence is) {
  at.lock(kListMutex);
  if (at.load(kWaiting) != 0) {
    if (at.load(kUnfenced) != 0) fence(at, is);
    at.store(kUnfenced, 0);
    bool is_leased = false;
    for (size_t thread = 0; thread <= kLookers; ++thread) is_leased = is_leased || at.load(kFirstPlace + thread) != 0;
    if (!is_leased) {
      at.store(kWaiting, 0);
      at.store(kObjectsWait, 0);
      at.fact(kEnded, 1);
    }
  }
  at.unlock(kListMutex);
}

void end_lease(At& at, size_t thread, Fence is) {
  at.release(kFirstPlace + thread, 0);
  if (at.load(kObjectsWait) != 0) end_waiting(at, is);
}

void look(At& at, size_t thread, Fence is) {
  if (at.load(kName) == 0) return;
  at.store(kFirstPlace + thread, 1);
  if (at.load(kName) != 0 && at.fact(kEnded, 0) != 0) at.fact(kLooksAtEnded, 1);
  end_lease(at, thread, is);
}

// As a call that gives the last reference to an object back which it looks at itself.
void give_back(At& at, Fence is) {
  at.store(kFirstPlace + kLookers, 1);
  at.exchange(kName, 0);
  at.lock(kListMutex);
  at.store(kWaiting, 1);
  at.store(kUnfenced, 1);
  at.store(kObjectsWait, 1);
  at.unlock(kListMutex);
  end_waiting(at, is);
  end_lease(at, kLookers, is);
}

bool end_goes_wrong(Fence is) {
  State start;
  start.words[kName] = 1;
  std::vector<FenceModel::Program> programs{[=](At& at) { give_back(at, is); }};
  for (size_t thread = 0; thread < kLookers; ++thread) programs.emplace_back([=](At& at) { look(at, thread, is); });
  return FenceModel::has_wrong_order(programs, start, [](const State& state, bool is_over) {
    return state.facts[kLooksAtEnded] != 0 || (is_over && state.facts[kEnded] != 1);
  });
}

TEST(FenceModel, AnObjectEndsOnceBehindTheLastLookByOneFence) {
  EXPECT_FALSE(end_goes_wrong(Fence::made));
  EXPECT_TRUE(end_goes_wrong(Fence::missing));
}

// ---- a caller that enters a row, and the thread that is about to sleep: RowDrain

enum : size_t { kTaken, kEntered, kWakeAt, kSleepMutex, kWoken };

void enter_row(At& at) {
  at.store(kTaken, 1);
  at.release(kEntered, 1);
  if (at.load(kWakeAt) == 0) return;
  at.lock(kSleepMutex);
  at.store(kWakeAt, 0);
  at.store(kWoken, 1);
  at.unlock(kSleepMutex);
}

void doze(At& at, Fence is) {
  at.lock(kSleepMutex);
  at.store(kWakeAt, 1);
  fence(at, is);
  const bool is_row_on_its_way = at.load(kTaken) != 0;
  at.unlock(kSleepMutex);
  if (!is_row_on_its_way) at.await(kWoken, 1);
}

bool sleeps_over_a_row(Fence is) {
  return FenceModel::has_wrong_order({enter_row, [=](At& at) { doze(at, is); }}, {},
                                     [](const State&, bool) { return false; });
}

TEST(FenceModel, NoThreadSleepsOverARow) {
  EXPECT_FALSE(sleeps_over_a_row(Fence::made));
  EXPECT_TRUE(sleeps_over_a_row(Fence::missing));
}

// ---- a scope that installs what is about to be released: install_resource, try_release

enum : size_t { kPlace, kReleasing, kEndsMutex, kEndedName };
enum : size_t { kInstalled, kReleased };

void install(At& at) {
  at.store(kPlace, 1);
  bool is_live = at.load(kReleasing) == 0;
  if (!is_live) {
    at.lock(kEndsMutex);
    is_live = at.load(kEndedName) == 0;
    if (!is_live) at.release(kPlace, 0);
    at.unlock(kEndsMutex);
  }
  if (is_live) at.fact(kInstalled, 1);
}

void end_name(At& at, Fence is) {
  at.lock(kEndsMutex);
  at.store(kReleasing, 1);
  fence(at, is);
  const bool is_installed = at.load(kPlace) != 0;
  if (!is_installed) at.store(kEndedName, 1);
  at.release(kReleasing, is_installed ? 0 : 1);  // `is_kept` has gone
  at.unlock(kEndsMutex);
  if (!is_installed) at.fact(kReleased, 1);
}

bool releases_installed(Fence is) {
  return FenceModel::has_wrong_order({install, [=](At& at) { end_name(at, is); }}, {}, [](const State& state, bool) {
    return state.facts[kInstalled] != 0 && state.facts[kReleased] != 0;
  });
}

TEST(FenceModel, NothingIsReleasedThatAScopeInstalls) {
  EXPECT_FALSE(releases_installed(Fence::made));
  EXPECT_TRUE(releases_installed(Fence::missing));
}

}  // namespace
}  // namespace kina::tests
