// A resource that remembers its live blocks beside them, so that a wrong deallocation is refused and not carried out.
#pragma once

#include <array>
#include <mutex>

#include "impl/core/mutex.h"
#include "impl/core/resource.h"
#include "impl/memory/address_table.h"

namespace kina {

// Live blocks by address, in shards so that threads seldom meet.
class BlockTable {
 public:
  enum class Entered : uint8_t { done, known, out_of_memory };

  Entered enter(const void* data, const Request& request) noexcept;
  // Of several callers with one block exactly one gets `done`.
  Return leave(const void* data, const Request& request) noexcept;
  Return change_use(const void* data, const Request& request, BlockUse use) noexcept;
  bool is_live(const void* data) noexcept;
  uint64_t bytes() const noexcept;

 private:
  struct alignas(64) Shard {
    mutable Mutex mutex;
    AddressTable<Request> blocks;
  };
  Shard& shard_of(const void* data) noexcept;

  std::array<Shard, 16> shards_;
};

// Base of host and custom: one block of the driver or callback for each block given out. Blocks of storages and
// adaptors come back as they were given out; only callers err, and callbacks.
class TrackedResource : public Resource {
 public:
  using Resource::Resource;
  void describe(KinaResourceInfo& info) const noexcept override;
  Return change_use(void* data, const Request& request, BlockUse use) noexcept override;

 protected:
  Allocation do_take(const Request& request, Stream& stream) noexcept override;
  Return do_give(void* data, const Request& request, Stream& stream) noexcept override;

  virtual Allocation obtain(const Request& request, Stream& stream) noexcept = 0;
  // False when the block could not be given back and counts as leaked.
  virtual bool give_back(void* data, const Request& request, Stream& stream) noexcept = 0;

  // Whether what it obtains is a block that nobody has.
  virtual bool trusts_source() const noexcept { return true; }
  bool is_live(const void* data) noexcept { return blocks_.is_live(data); }

 private:
  bool is_remembered(const Request& request) const noexcept {
    return request.use != BlockUse::internal || !trusts_source();
  }
  BlockTable blocks_;
};

}  // namespace kina
