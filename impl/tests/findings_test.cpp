// Findings that a driver gives back while another thread asks it for room: with a lock of its own, so that nobody may
// hold theirs meanwhile.
#include "impl/core/findings.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "impl/cpu/rows.h"

namespace kina {
namespace {

// A driver whose graph ends, on a thread of the driver, before it has given the room that it is asked for.
class EndsGraphsFirst final : public cpu::Arithmetic {
 public:
  int32_t device_type() const noexcept override { return kDLCPU; }
  int32_t device_count() const noexcept override { return 0; }
  void describe(KinaDeviceInfo&, int32_t) const override {}
  void* allocate(int32_t, uint64_t, uint64_t) noexcept override { return nullptr; }
  void deallocate(int32_t, void*, uint64_t, uint64_t) noexcept override {}
  void launch(NativeStream, const Work&) override {}
  void* allocate_shared(uint64_t bytes) noexcept override {
    if (kept != nullptr) std::thread([this] { Findings::of(*this).put_back(kept); }).join();
    kept = nullptr;
    return has_room ? Backend::allocate_shared(bytes) : nullptr;
  }

  Finding* kept = nullptr;  // with a graph
  bool has_room = true;
};

TEST(Findings, AreGivenBackWhileTheDriverIsAskedForMore) {
  auto& driver = *new EndsGraphsFirst;  // its findings are kept for good
  Findings& findings = Findings::of(driver);
  std::vector<Finding*> taken{findings.take()};
  driver.kept = findings.take();
  while (driver.kept != nullptr) taken.push_back(findings.take());

  EXPECT_EQ(taken.size(), 64U) << "of the first slab all but the kept one, and one of what there is then";
  driver.has_room = false;
  for (int i = 0; i < 64; ++i) taken.push_back(findings.take());
  EXPECT_THROW(findings.take(), Error);
}

}  // namespace
}  // namespace kina
