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
  Lane(Stream* stream, uint32_t shelf) noexcept : stream_(Ref<Stream>::share(stream)), shelf_(shelf) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  Stream* stream() const noexcept { return stream_.get(); }
  uint32_t shelf() const noexcept { return shelf_; }  // of the arena
  // How far the stream is now.
  uint64_t position() const noexcept { return stream_ ? now(*stream_).position : 0; }
  // What the next user of bytes that are given up now runs after.
  Stamp stamp() const noexcept { return {shelf_, position(), stream(), nullptr}; }

  // The functions that follow lock.
  void put(uint32_t size_class, Block* first, uint32_t count, uint64_t position) noexcept;
  void put(UsedBlock* given) noexcept;
  // A whole batch; `count` says how many.
  Block* take(uint32_t size_class, uint32_t& count) noexcept;
  // One block; `can_follow(point)` says whether its taker runs after that moment, or else makes it so.
  template <class F>
  Block* take_one(uint32_t size_class, F&& can_follow);
  // One block of those that are used elsewhere.
  template <class F>
  Block* take_used(uint32_t size_class, F&& can_follow);

  // Guards all that follows.
  Mutex mutex{Mutex::Place::inner};
  std::array<Block*, SizeClasses::kCount> batches{};
  UsedBlock* used = nullptr;

  Lane* next = nullptr;  // in the pool's list

 private:
  const Ref<Stream> stream_;
  const uint32_t shelf_;
};

template <class F>
Block* Lane::take_one(uint32_t size_class, F&& can_follow) {
  const std::lock_guard lock(mutex);
  Block* first = batches[size_class];
  if (first == nullptr) return nullptr;
  const uint64_t position = first->batch_position();
  if (stream_ && !can_follow(Point{stream_, position})) return nullptr;
  batches[size_class] = first->next_batch;
  if (Block* rest = first->next) {
    rest->start_batch(first->batch_count() - 1, position);
    rest->next_batch = std::exchange(batches[size_class], rest);
  }
  return first;
}

template <class F>
Block* Lane::take_used(uint32_t size_class, F&& can_follow) {
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
