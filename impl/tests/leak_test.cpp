// Blocks of storages whose last use nobody can follow: they leak all the way down, and no limit counts them any more.
#include <gtest/gtest.h>

#include "impl/tests/heap.h"
#include "kina_runtime.h"

namespace kina {
namespace {

constexpr uint64_t kBytes = 4096;

class Leaks : public testing::Test {
 protected:
  Leaks() {
    KinaResource base = nullptr;
    EXPECT_EQ(runtime_resource_current(&base, kDLExtDev, 0), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_limit(&inner_, base, kBytes), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_limit(&outer_, inner_, kBytes), KINA_SUCCESS);
    EXPECT_EQ(runtime_resource_push(&scope_, outer_), KINA_SUCCESS);
    EXPECT_EQ(runtime_stream_checkout(&consumer_, kDLExtDev, 0), KINA_SUCCESS);
  }
  ~Leaks() override {
    EXPECT_EQ(runtime_stream_checkin(consumer_), KINA_SUCCESS);
    EXPECT_EQ(runtime_scope_pop(scope_), KINA_SUCCESS);
    for (KinaResource resource : {outer_, inner_}) EXPECT_EQ(runtime_resource_release(resource), KINA_SUCCESS);
  }
  static KinaStatus allocate(KinaTensor& out) {
    const int64_t shape[] = {kBytes};
    return runtime_alloc(&out, shape, 1, KINA_DTYPE_U8, kDLExtDev, 0, nullptr);
  }
  // A consumer's deleter runs while there is no memory to note what it enqueued.
  void lose_sight_of(KinaTensor& tensor) {
    KinaDlpackParams params{};
    params.struct_size = sizeof params;
    params.stream = consumer_;
    DLManagedTensorVersioned* managed = nullptr;
    ASSERT_EQ(runtime_to_dlpack(&managed, &tensor, &params), KINA_SUCCESS);
    tests::heap_left = 0;
    managed->deleter(managed);
    tests::heap_left = -1;
  }
  static KinaResourceInfo look_at(KinaResource resource) {
    KinaResourceInfo info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(runtime_resource_info(&info, resource), KINA_SUCCESS);
    return info;
  }

  KinaResource inner_ = nullptr, outer_ = nullptr;
  KinaScope scope_ = nullptr;
  KinaStream consumer_ = nullptr;
};

TEST_F(Leaks, CountNoLongerAgainstALimit) {
  KinaTensor lost = KINA_TENSOR_INIT, next = KINA_TENSOR_INIT;
  ASSERT_EQ(allocate(lost), KINA_SUCCESS);
  ASSERT_EQ(allocate(next), KINA_ERROR_OUT_OF_MEMORY);

  lose_sight_of(lost);

  for (KinaResource resource : {outer_, inner_}) {
    EXPECT_EQ(look_at(resource).live_bytes, 0U);
    EXPECT_EQ(look_at(resource).leaked_bytes, kBytes);
  }
  ASSERT_EQ(allocate(next), KINA_SUCCESS);
  EXPECT_EQ(runtime_free(&next), KINA_SUCCESS);
}

}  // namespace
}  // namespace kina
