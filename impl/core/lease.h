// Looking at an object for the length of a call without counting a reference, which many threads would do in one place.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "impl/core/counted.h"
#include "impl/core/sanitizers.h"
#include "impl/core/thread_registry.h"

namespace kina {

// An object that calls lease by its name: it ends when its last reference has gone and no call looks at it any more.
// What keeps it longer than a call takes a reference with `try_retain`, which fails once the last one has gone.
class Leasable : public Counted {
 protected:
  // A derived class ends its names first.
  void last_reference_gone() const noexcept override;

 private:
  friend class LeaseRegistry;
  mutable const Leasable* next_ = nullptr;  // of those that wait for calls to end
};

// What the calls of one thread look at. Calls inside callbacks are calls as well; where there is no place left, they
// count a reference.
class LeaseRow : public ThreadEntry {
 public:
  using Place = std::atomic<const Leasable*>;

  LeaseRow() noexcept;
  ~LeaseRow();

  Place* free_place() noexcept {
    for (Place& place : places_)
      if (place.load(std::memory_order_relaxed) == nullptr) return &place;
    return nullptr;
  }
  bool holds(const Leasable* object) const noexcept {
    for (const Place& place : places_)
      if (place.load(std::memory_order_acquire) == object) return true;
    return false;
  }

 private:
  std::array<Place, 8> places_{};
};

// Between the store of a lease and the look at the name, between the end of a lease and the look for objects that wait
// for it, and between the two steps of a maker. Where the system can fence all threads of the process at once, the
// other side does that, and here the compiler alone is held back.
inline constinit std::atomic<bool> fences_are_remote{false};
inline constinit std::atomic<int> fence_word{0};
inline void fence_fully() noexcept {
  if constexpr (kIsThreadSanitized) {
    fence_word.fetch_add(1, std::memory_order_seq_cst);  // it knows no fences, but a word that all write orders as well
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
inline void fence_lease() noexcept {
  if (fences_are_remote.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    fence_fully();
  }
}

// The other half: every thread of the process has passed a full fence. False where the kernel has taken that away
// since.
bool fence_all_threads() noexcept;
// The same, where it must not fail: a kernel that fences no more is given time, until every store has been seen.
void fence_all_threads_surely() noexcept;

inline constinit std::atomic<bool> objects_wait{false};
// Ends the objects whose last lease has ended.
void end_waiting_objects() noexcept;

// One leased object, or none.
template <class T>
class Lease {
 public:
  Lease() = default;
  // `place` is NULL where a reference is handed over instead.
  Lease(T* object, LeaseRow::Place* place) noexcept : object_(object), place_(place) {}
  Lease(Lease&& other) noexcept : object_(std::exchange(other.object_, nullptr)), place_(other.place_) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(place_, other.place_);
    return *this;
  }
  ~Lease() {
    if (object_ == nullptr) return;
    if (place_ == nullptr) {
      object_->release();
    } else {
      end_place();
    }
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  void end_place() noexcept {
    place_->store(nullptr, std::memory_order_release);
    fence_lease();
    if (objects_wait.load(std::memory_order_relaxed)) [[unlikely]]
      end_waiting_objects();
  }

  T* object_ = nullptr;
  LeaseRow::Place* place_ = nullptr;
};

// Leases an object in a free place, as long as what it was found by still leads there afterwards.
// In place: two words that pass through memory, and are read there as one, cost more than all of it.
template <class T, class IsStill>
[[gnu::always_inline]] inline Lease<T> lease_at(LeaseRow::Place& place, T* object, IsStill&& is_still) {
  if (object == nullptr) return {};
  place.store(object, std::memory_order_relaxed);
  Lease<T> made(object, &place);
  fence_lease();
  return is_still() ? std::move(made) : Lease<T>();
}

// Leases the object that `find` finds, as long as it finds the same one afterwards; `acquire` gives a reference to it.
template <class T, class Find, class Acquire>
[[gnu::always_inline]] inline Lease<T> lease(LeaseRow* row, Find&& find, Acquire&& acquire) {
  LeaseRow::Place* place = row == nullptr ? nullptr : row->free_place();
  if (place == nullptr) [[unlikely]]
    return {acquire().detach(), nullptr};
  T* object = find();
  return lease_at(*place, object, [&] { return find() == object; });
}

}  // namespace kina
