// Threads that use the library for the last time while they end, from destructors of thread-specific data: those run in
// rounds, and behind the last round no destructor of ours comes any more.
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>

#include <functional>
#include <thread>
#include <vector>

#include "impl/core/sanitizers.h"
#include "kina_runtime.h"

namespace {

void succeed(KinaStatus status) { EXPECT_EQ(status, KINA_SUCCESS) << runtime_last_error_message(); }

KinaResource make_pool() {
  KinaResource host = nullptr, made = nullptr;
  succeed(runtime_resource_host(&host));
  succeed(runtime_resource_pool(&made, host, nullptr));
  succeed(runtime_resource_release(host));
  return made;
}

// A call that a thread makes in one round of its destructors. The key is younger than the library's.
class AtEnd {
 public:
  AtEnd(int round, std::function<void()> call) : rounds_left_(round), call_(std::move(call)) {
    succeed(runtime_scope_pop(enter()));  // the library has its key
    if (pthread_key_create(&key_, &AtEnd::destroy) != 0) ADD_FAILURE() << "no key";
  }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() { pthread_key_delete(key_); }

  void run_a_thread() {
    std::thread([this] { pthread_setspecific(key_, this); }).join();
  }

 private:
  static KinaScope enter() {
    KinaScope scope = nullptr;
    succeed(runtime_phase_push(&scope, 1));
    return scope;
  }
  static void destroy(void* self) {
    auto& end = *static_cast<AtEnd*>(self);
    if (--end.rounds_left_ == 0) return end.call_();
    pthread_setspecific(end.key_, self);
  }

  pthread_key_t key_ = 0;
  int rounds_left_;
  std::function<void()> call_;
};

class ThreadEnd : public testing::TestWithParam<int> {};

TEST_P(ThreadEnd, EndsItsScopes) {
  KinaResource pool = make_pool();
  KinaStream stream = nullptr;
  succeed(runtime_stream_checkout(&stream, kDLCPU, 0));
  KinaScope token = nullptr;
  AtEnd end(GetParam(), [&] {
    succeed(runtime_resource_push(&token, pool));
    succeed(runtime_stream_push(&token, stream));
  });

  end.run_a_thread();

  EXPECT_EQ(runtime_scope_pop(token), KINA_ERROR_INVALID_HANDLE);
  succeed(runtime_stream_checkin(stream));
  succeed(runtime_resource_release(pool));
}

TEST_P(ThreadEnd, DoesNotKeepAStreamFromItsCheckin) {
  KinaStream stream = nullptr;
  succeed(runtime_stream_checkout(&stream, kDLCPU, 0));
  KinaScope token = nullptr;
  AtEnd end(GetParam(), [&] { succeed(runtime_stream_push(&token, stream)); });

  end.run_a_thread();

  succeed(runtime_stream_checkin(stream));
}

TEST_P(ThreadEnd, DoesNotKeepAResourceFromItsRelease) {
  KinaResource pool = make_pool();
  KinaScope token = nullptr;
  AtEnd end(GetParam(), [&] { succeed(runtime_resource_push(&token, pool)); });

  end.run_a_thread();

  succeed(runtime_resource_release(pool));
}

// What they had at hand of a pool goes back to it, as other threads come.
TEST_P(ThreadEnd, LeavesNoCacheOfAPool) {
  KinaResource pool = make_pool();
  std::vector<uint64_t> metadata;
  for (int i = 0; i < 60; ++i) {
    AtEnd end(GetParam(), [&] {
      void* data = nullptr;
      succeed(runtime_memory_allocate(&data, pool, 300, 0, nullptr));
      succeed(runtime_memory_deallocate(pool, data, 300, 0, nullptr));
    });
    end.run_a_thread();
    KinaResourceInfo info{};
    info.struct_size = sizeof(info);
    succeed(runtime_resource_info(&info, pool));
    metadata.push_back(info.metadata_bytes);
  }
  EXPECT_LE(metadata.back(), metadata[20]);
  succeed(runtime_resource_release(pool));
}

// ThreadSanitizer's own part of a thread ends before the later rounds: nothing that it watches can run there.
constexpr int kRounds = kina::kIsThreadSanitized ? 2 : PTHREAD_DESTRUCTOR_ITERATIONS;
INSTANTIATE_TEST_SUITE_P(InEachRound, ThreadEnd, testing::Range(1, kRounds + 1));

}  // namespace
