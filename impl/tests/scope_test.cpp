// Scopes that nobody counts against the end of what they use: exactly one side gets its way, and tokens are never
// alike.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "kina_runtime.h"

namespace {

constexpr int kRounds = 40;  // a loaded machine may take a time slice for each

KinaStream check_out() {
  KinaStream stream = nullptr;
  EXPECT_EQ(runtime_stream_checkout(&stream, kDLCPU, 0), KINA_SUCCESS);
  return stream;
}

KinaResource make_pool() {
  KinaResource host = nullptr, made = nullptr;
  EXPECT_EQ(runtime_resource_host(&host), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_pool(&made, host, nullptr), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(host), KINA_SUCCESS);
  return made;
}

// As long as a scope or a device uses them their names stay.
bool is_live(KinaStream stream) {
  int32_t is_idle = 0;
  return runtime_stream_query(&is_idle, stream) == KINA_SUCCESS;
}
bool is_live(KinaResource resource) {
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  return runtime_resource_info(&info, resource) == KINA_SUCCESS;
}

bool is_in(KinaStatus pushed) {
  if (pushed == KINA_SUCCESS) return true;
  EXPECT_EQ(pushed, KINA_ERROR_INVALID_HANDLE);
  return false;
}

bool is_over(KinaStatus ended) {
  if (ended == KINA_SUCCESS) return true;
  EXPECT_EQ(ended, KINA_ERROR_BUSY);
  return false;
}

// One thread ends an object as soon as it can while another one uses it in scopes: `end` says whether that came about,
// `use` whether a scope did. Afterwards none can be entered any more.
template <class Use, class End>
void race(Use use, End end) {
  std::atomic<bool> has_ended{false};
  std::thread ending([&] {
    while (!end()) std::this_thread::yield();
    has_ended = true;
  });
  bool is_usable = true;
  while (is_usable) {
    const bool had_ended = has_ended;
    is_usable = use();
    ASSERT_FALSE(had_ended && is_usable) << "a scope of what has ended";
  }
  ending.join();
}

TEST(Scopes, AStreamIsCheckedInOnlyWhileNoScopeBindsIt) {
  for (int round = 0; round < kRounds; ++round) {
    KinaStream stream = check_out();
    race(
        [&] {
          KinaScope scope = nullptr;
          if (!is_in(runtime_stream_push(&scope, stream))) return false;
          KinaStream current = nullptr;
          EXPECT_EQ(runtime_stream_current(&current, kDLCPU, 0), KINA_SUCCESS);
          EXPECT_EQ(current, stream);
          EXPECT_TRUE(is_live(stream));
          EXPECT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
          return true;
        },
        [&] { return is_over(runtime_stream_checkin(stream)); });
  }
}

TEST(Scopes, AResourceIsReleasedOnlyWhileNoScopeInstallsIt) {
  for (int round = 0; round < kRounds; ++round) {
    KinaResource resource = make_pool();
    race(
        [&] {
          KinaScope scope = nullptr;
          if (!is_in(runtime_resource_push(&scope, resource))) return false;
          void* data = nullptr;
          KinaResource current = nullptr;
          EXPECT_EQ(runtime_resource_current(&current, kDLCPU, 0), KINA_SUCCESS);
          EXPECT_EQ(runtime_memory_allocate(&data, current, 100, 0, nullptr), KINA_SUCCESS);
          EXPECT_EQ(runtime_memory_deallocate(current, data, 100, 0, nullptr), KINA_SUCCESS);
          EXPECT_TRUE(is_live(resource));
          EXPECT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
          return true;
        },
        [&] { return is_over(runtime_resource_release(resource)); });
  }
}

TEST(Scopes, AResourceIsReleasedOnlyWhileItIsNoDefault) {
  for (int round = 0; round < kRounds; ++round) {
    KinaResource resource = make_pool();
    std::atomic<bool> is_done{false};
    std::thread reading([&] {
      while (!is_done) {
        int64_t extent = 64;
        KinaTensor tensor = KINA_TENSOR_INIT;
        ASSERT_EQ(runtime_alloc(&tensor, &extent, 1, KINA_DTYPE_F32, kDLCPU, 0, nullptr), KINA_SUCCESS);
        ASSERT_EQ(runtime_free(&tensor), KINA_SUCCESS);
      }
    });
    race(
        [&] {
          KinaResource previous = nullptr;
          if (!is_in(runtime_resource_set_default(&previous, kDLCPU, 0, resource))) return false;
          EXPECT_TRUE(is_live(resource));
          EXPECT_EQ(runtime_resource_set_default(nullptr, kDLCPU, 0, previous), KINA_SUCCESS);
          return true;
        },
        [&] { return is_over(runtime_resource_release(resource)); });
    is_done = true;
    reading.join();
  }
}

// One thread goes in to the defaults without a lock once it has come often enough, until others come as well.
TEST(Scopes, ADefaultThatManyThreadsExchangeIsLostByNone) {
  constexpr int kThreads = 4, kChanges = 400'000;
  std::vector<KinaResource> made(kThreads), names(kThreads);
  KinaResource first = nullptr, last = nullptr;
  for (size_t at = 0; at < made.size(); ++at) {
    KinaScope scope = nullptr;
    made[at] = make_pool();
    ASSERT_EQ(runtime_resource_push(&scope, made[at]), KINA_SUCCESS);
    ASSERT_EQ(runtime_resource_current(&names[at], kDLCPU, 0), KINA_SUCCESS);
    ASSERT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
  }
  ASSERT_EQ(runtime_resource_current(&first, kDLCPU, 0), KINA_SUCCESS);

  std::vector<std::map<KinaResource, int>> replaced(kThreads);
  std::barrier start(kThreads);  // else some are done before others have begun
  std::vector<std::thread> running;
  for (size_t at = 0; at < made.size(); ++at)
    running.emplace_back([&, at] {
      start.arrive_and_wait();
      for (int change = 0; change < kChanges; ++change) {
        KinaResource previous = nullptr;
        ASSERT_EQ(runtime_resource_set_default(&previous, kDLCPU, 0, made[at]), KINA_SUCCESS);
        ++replaced[at][previous];
        if (change % 1000 == 999) std::this_thread::yield();
      }
    });
  for (std::thread& each : running) each.join();
  ASSERT_EQ(runtime_resource_set_default(&last, kDLCPU, 0, first), KINA_SUCCESS);

  // Each was replaced as often as it was installed, whoever did.
  std::map<KinaResource, int> times;
  for (const auto& mine : replaced)
    for (const auto& [name, count] : mine) times[name] += count;
  ++times[last];
  EXPECT_EQ(times[first], 1);
  for (const KinaResource name : names) EXPECT_EQ(times[name], kChanges);
  for (const KinaResource resource : made) EXPECT_EQ(runtime_resource_release(resource), KINA_SUCCESS);
}

// By then the thread that changes it needs no lock for that.
TEST(Scopes, AResourceIsReleasedOnlyBetweenManyChangesOfTheDefault) {
  for (int round = 0; round < kRounds; ++round) {
    KinaResource resource = make_pool();
    std::atomic<bool> is_at_it{false};
    std::thread changing([&] {
      for (int change = 0;; ++change) {
        KinaResource previous = nullptr, current = nullptr;
        if (!is_in(runtime_resource_set_default(&previous, kDLCPU, 0, resource))) break;
        EXPECT_TRUE(is_live(resource));
        EXPECT_EQ(runtime_resource_current(&current, kDLCPU, 0), KINA_SUCCESS);
        EXPECT_NE(current, previous);
        EXPECT_EQ(runtime_resource_set_default(nullptr, kDLCPU, 0, previous), KINA_SUCCESS);
        is_at_it = change > 200;
      }
      is_at_it = true;
    });
    while (!is_at_it) std::this_thread::yield();
    while (!is_over(runtime_resource_release(resource))) std::this_thread::yield();
    changing.join();
  }
}

TEST(Scopes, BindWhatTheInnermostOfEachKindSays) {
  KinaResource pools[2] = {make_pool(), make_pool()}, current[2] = {};
  KinaStream phase = nullptr, main = nullptr, seen = nullptr;
  KinaScope scopes[5] = {};
  ASSERT_EQ(runtime_stream_phase(&phase, kDLCPU, 0, 3), KINA_SUCCESS);
  ASSERT_EQ(runtime_stream_main(&main, kDLCPU, 0), KINA_SUCCESS);
  for (int again = 0; again < 2; ++again) {  // the second time all records are there
    ASSERT_EQ(runtime_resource_push(&scopes[0], pools[0]), KINA_SUCCESS);
    ASSERT_EQ(runtime_resource_current(&current[0], kDLCPU, 0), KINA_SUCCESS);
    ASSERT_EQ(runtime_device_push(&scopes[1], kDLCPU, 0), KINA_SUCCESS);
    ASSERT_EQ(runtime_phase_push(&scopes[2], 3), KINA_SUCCESS);
    ASSERT_EQ(runtime_stream_current(&seen, kDLCPU, 0), KINA_SUCCESS);
    EXPECT_EQ(seen, main) << "a phase acts on device scopes entered after it alone";
    ASSERT_EQ(runtime_device_push(&scopes[3], kDLCPU, 0), KINA_SUCCESS);
    ASSERT_EQ(runtime_stream_current(&seen, kDLCPU, 0), KINA_SUCCESS);
    EXPECT_EQ(seen, phase);
    ASSERT_EQ(runtime_resource_push(&scopes[4], pools[1]), KINA_SUCCESS);
    ASSERT_EQ(runtime_resource_current(&current[1], kDLCPU, 0), KINA_SUCCESS);
    EXPECT_NE(current[1], current[0]);
    EXPECT_EQ(runtime_scope_pop(scopes[3]), KINA_ERROR_INVALID_ARGUMENT);
    for (int at = 4; at >= 1; --at) ASSERT_EQ(runtime_scope_pop(scopes[at]), KINA_SUCCESS);
    ASSERT_EQ(runtime_resource_current(&current[1], kDLCPU, 0), KINA_SUCCESS);
    EXPECT_EQ(current[1], current[0]);
    ASSERT_EQ(runtime_scope_pop(scopes[0]), KINA_SUCCESS);
    EXPECT_EQ(runtime_scope_pop(scopes[0]), KINA_ERROR_INVALID_HANDLE);
  }
  for (const KinaResource pool : pools) EXPECT_EQ(runtime_resource_release(pool), KINA_SUCCESS);
}

// Its counted handle is gone: the default alone keeps it, by its borrowed name.
TEST(Scopes, ADefaultKeepsWhatNothingElseKeeps) {
  KinaResource resource = make_pool(), previous = nullptr;
  KinaResource name = nullptr;
  KinaScope scope = nullptr;
  void* data = nullptr;
  ASSERT_EQ(runtime_resource_push(&scope, resource), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_current(&name, kDLCPU, 0), KINA_SUCCESS);
  ASSERT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
  ASSERT_EQ(runtime_memory_allocate(&data, name, 100, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_release(resource), KINA_SUCCESS);

  ASSERT_EQ(runtime_resource_set_default(&previous, kDLCPU, 0, name), KINA_SUCCESS);
  ASSERT_EQ(runtime_memory_deallocate(name, data, 100, 0, nullptr), KINA_SUCCESS);
  ASSERT_EQ(runtime_resource_push(&scope, name), KINA_SUCCESS);
  KinaResource was = nullptr;
  ASSERT_EQ(runtime_resource_set_default(&was, kDLCPU, 0, previous), KINA_SUCCESS);

  EXPECT_EQ(was, name);
  EXPECT_EQ(runtime_resource_trim(nullptr, name, 0), KINA_SUCCESS) << "the scope keeps it";
  EXPECT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_trim(nullptr, name, 0), KINA_ERROR_INVALID_HANDLE);
}

TEST(Scopes, TokensOfManyThreadsAreNeverAlike) {
  constexpr int kThreads = 8, kTokens = 2000;
  std::vector<std::vector<KinaScope>> tokens(kThreads);
  std::vector<std::thread> running;
  running.reserve(kThreads);
  for (std::vector<KinaScope>& mine : tokens)
    running.emplace_back([&mine] {
      for (int i = 0; i < kTokens; ++i) {
        KinaScope scope = nullptr;
        ASSERT_EQ(runtime_phase_push(&scope, i), KINA_SUCCESS);
        mine.push_back(scope);
        if (i % 2 == 0) {
          ASSERT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
        }
      }
    });
  for (std::thread& thread : running) thread.join();

  std::set<KinaScope> all;
  for (const std::vector<KinaScope>& mine : tokens) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), size_t{kThreads} * kTokens);
  for (KinaScope token : all) ASSERT_EQ(runtime_scope_pop(token), KINA_ERROR_INVALID_HANDLE);
}

}  // namespace
