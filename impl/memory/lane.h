// The free blocks of a pool that one stream gave up, in batches, for all threads that use the stream.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "impl/core/mutex.h"
#include "impl/core/order.h"
#include "impl/memory/slab.h"

namespace kina {

// A block that uses on other streams have to be over for.
struct UsedBlock {
  Block* block = nullptr;
  uint32_t size_class = 0;
  Ref<Points> points;
  UsedBlock* next = nullptr;
};

class Lane {
 public:
  // `stream` NULL: of a device whose work is over when a call returns, where there is no order to follow.
  Lane(Stream* stream, uint32_t shelf) noexcept : stream_(stream), shelf_(shelf) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  Stream* stream() const noexcept { return stream_; }
  uint32_t shelf() const noexcept { return shelf_; }  // of the arena
  // How far the stream is now.
  uint64_t position() const noexcept { return stream_ != nullptr ? now(*stream_).position : 0; }
  // What the next user of bytes that are given up now runs after.
  Stamp stamp() const noexcept { return {shelf_, position(), stream(), nullptr}; }

  // Of batches; these never wait.
  void put(uint32_t size_class, Block* first, uint32_t count, uint64_t position) noexcept;
  // A whole batch; `count` says how many.
  Block* take(uint32_t size_class, uint32_t& count) noexcept;
  // One block; `can_follow(point)` says whether its taker runs after that moment, or else makes it so.
  template <class F>
  Block* take_one(uint32_t size_class, F&& can_follow) noexcept;

  // Of blocks that are used elsewhere; these lock.
  void put(UsedBlock* given) noexcept;
  template <class F>
  Block* take_used(uint32_t size_class, F&& can_follow) noexcept;

  // With the pool's lock: moves all batches out of the reach of others and back.
  void gather() noexcept;
  void scatter() noexcept;
  std::array<Block*, SizeClasses::kCount> gathered{};

  // Guards what follows.
  Mutex mutex{Mutex::Place::inner};
  UsedBlock* used = nullptr;

  Lane* next = nullptr;  // in the pool's list

 private:
  // The newest batch of each size, in the low bits of the word what its address has in the middle, in the others a
  // count of changes: the records of blocks stay where they are for ever, so a stale one may be looked at, and the
  // count tells.
  using Head = std::atomic<uint64_t>;
  static constexpr int kAddressBits = 43;
  static_assert((alignof(Block) << kAddressBits) == uint64_t{1} << 48, "no address of a program is above that");
  static Block* block_of(uint64_t head) noexcept {
    return reinterpret_cast<Block*>((head & ((uint64_t{1} << kAddressBits) - 1)) * alignof(Block));
  }
  static uint64_t after(uint64_t head, const Block* block) noexcept {
    return ((head >> kAddressBits) + 1) << kAddressBits | reinterpret_cast<uint64_t>(block) / alignof(Block);
  }
  void push(uint32_t size_class, Block* first) noexcept;

  alignas(128) std::array<Head, SizeClasses::kCount> heads_{};
  Stream* const stream_;
  const uint32_t shelf_;
};

template <class F>
Block* Lane::take_one(uint32_t size_class, F&& can_follow) noexcept {
  uint32_t count = 0;
  Block* first = take(size_class, count);
  if (first == nullptr) return nullptr;
  const uint64_t position = first->batch_position();
  if (stream_ != nullptr && !can_follow(Point{stream_, position})) {
    put(size_class, first, count, position);
    return nullptr;
  }
  if (first->next != nullptr) put(size_class, first->next, count - 1, position);
  return first;
}

template <class F>
Block* Lane::take_used(uint32_t size_class, F&& can_follow) noexcept {
  const std::lock_guard lock(mutex);
  for (UsedBlock** at = &used; *at != nullptr; at = &(*at)->next) {
    const std::span<const Point> points = (*at)->points->list();
    if ((*at)->size_class != size_class || !std::all_of(points.begin(), points.end(), can_follow)) continue;
    const std::unique_ptr<UsedBlock> taken(std::exchange(*at, (*at)->next));
    return taken->block;
  }
  return nullptr;
}

}  // namespace kina
