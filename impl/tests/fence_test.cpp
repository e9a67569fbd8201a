// How often calls fence all threads of the process: a fence costs some microseconds where many threads run.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <thread>
#include <vector>

#include "impl/core/lease.h"
#include "kina_runtime.h"

#if defined(__linux__)
#include <sys/syscall.h>

namespace {

std::atomic<int> fences{0};
std::atomic<bool> are_refused{false};

}  // namespace

// In front of the C library's: what it is asked for passes here.
extern "C" long syscall(long number, ...) noexcept {
  if (number == SYS_membarrier) {
    ++fences;
    if (are_refused) {
      errno = EPERM;
      return -1;
    }
  }
  va_list given;
  va_start(given, number);
  long values[6];
  for (long& value : values) value = va_arg(given, long);
  va_end(given);
  static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

namespace kina {
namespace {

// How many fences `call` makes.
template <class Call>
int fences_of(Call&& call) {
  const int before = fences;
  call();
  return fences - before;
}
int fences_of_release(KinaResource resource) {
  return fences_of([=] { EXPECT_EQ(runtime_resource_release(resource), KINA_SUCCESS); });
}

class Fences : public testing::Test {
 protected:
  void SetUp() override {
    if (!fences_are_remote) GTEST_SKIP() << "each thread fences itself here";
    ASSERT_EQ(runtime_resource_host(&host), KINA_SUCCESS);
  }
  void TearDown() override { runtime_resource_release(host); }

  KinaResource make_pool() const {
    KinaPoolParams params{};
    params.struct_size = sizeof params;
    KinaResource pool = nullptr;
    EXPECT_EQ(runtime_resource_pool(&pool, host, &params), KINA_SUCCESS);
    return pool;
  }
  // So often that the thread is the resident of the pool's arena as well.
  static void use(KinaResource pool) {
    for (uint64_t bytes : {uint64_t{1000}, uint64_t{1} << 20})
      for (int i = 0; i < 200; ++i) {
        void* data = nullptr;
        ASSERT_EQ(runtime_memory_allocate(&data, pool, bytes, 64, nullptr), KINA_SUCCESS);
        ASSERT_EQ(runtime_memory_deallocate(pool, data, bytes, 64, nullptr), KINA_SUCCESS);
      }
  }

  KinaResource host = nullptr;
};

// One for what may have installed it, one for what may look at it.
TEST_F(Fences, AReleaseMakesTwo) {
  KinaResource limit = nullptr;
  ASSERT_EQ(runtime_resource_limit(&limit, host, 1 << 20), KINA_SUCCESS);
  EXPECT_LE(fences_of_release(limit), 2);
  EXPECT_LE(fences_of_release(make_pool()), 2);
}

TEST_F(Fences, ThePoolOfOneThreadMakesNoMore) {
  KinaResource pool = make_pool();
  use(pool);
  uint64_t released = 0;
  EXPECT_EQ(fences_of([&] { EXPECT_EQ(runtime_resource_trim(&released, pool, 0), KINA_SUCCESS); }), 0);
  use(pool);
  EXPECT_LE(fences_of_release(pool), 2);
}

TEST_F(Fences, ThePoolOfManyThreadsMakesOneMoreForAll) {
  KinaResource pool = make_pool();
  std::atomic<int> inside{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  threads.reserve(5);
  for (int i = 0; i < 5; ++i)
    threads.emplace_back([&] {
      use(pool);
      ++inside;
      while (!is_over) std::this_thread::yield();
    });
  while (inside != 5) std::this_thread::yield();
  use(pool);
  EXPECT_LE(fences_of_release(pool), 3);
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

// As behind a filter of system calls that a program puts up once it has started.
TEST_F(Fences, WhereTheKernelTakesThemAwayResourcesEndAllTheSame) {
  KinaResource pool = make_pool();
  use(pool);
  are_refused = true;
  EXPECT_EQ(runtime_resource_release(pool), KINA_SUCCESS);
  are_refused = false;
  KinaResourceInfo info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(runtime_resource_info(&info, host), KINA_SUCCESS);
  EXPECT_EQ(info.live_blocks, 0U);
}

TEST_F(Fences, TheEndOfAThreadThatUsedPoolsMakesNone) {
  KinaResource first = make_pool(), second = make_pool();
  const int before = fences;
  std::thread([&] {
    use(first);
    use(second);
  }).join();
  EXPECT_EQ(fences, before);
  EXPECT_EQ(runtime_resource_release(first), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(second), KINA_SUCCESS);
}

TEST_F(Fences, ACheckinAndAnUnmadeReleaseMakeOne) {
  KinaStream stream = nullptr;
  ASSERT_EQ(runtime_stream_checkout(&stream, kDLCPU, 0), KINA_SUCCESS);
  EXPECT_LE(fences_of([=] { EXPECT_EQ(runtime_stream_checkin(stream), KINA_SUCCESS); }), 1);
  KinaResource pool = make_pool();
  KinaScope scope = nullptr;
  ASSERT_EQ(runtime_resource_push(&scope, pool), KINA_SUCCESS);
  EXPECT_LE(fences_of([=] { EXPECT_EQ(runtime_resource_release(pool), KINA_ERROR_BUSY); }), 1);
  ASSERT_EQ(runtime_scope_pop(scope), KINA_SUCCESS);
  EXPECT_EQ(runtime_resource_release(pool), KINA_SUCCESS);
}

}  // namespace
}  // namespace kina

#endif
