// The entries that threads have in one list, for those who look at what other threads do.
#pragma once

#include <pthread.h>

#include <mutex>

#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {

// What a thread has in a registry, and its place there: in a ring with the others, by itself where it is not
// registered.
class ThreadEntry {
 public:
  ThreadEntry() = default;
  ThreadEntry(const ThreadEntry&) = delete;
  ThreadEntry& operator=(const ThreadEntry&) = delete;

 private:
  template <class Registry, class Entry>
  friend class ThreadRegistry;
  void enter(ThreadEntry& ring) noexcept {
    previous_ = &ring;
    next_ = ring.next_;
    previous_->next_ = next_->previous_ = this;
  }
  void leave() noexcept {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = this;
  }

  ThreadEntry* previous_ = this;
  ThreadEntry* next_ = this;
};

// Base of the registries, which there is one each of. `Registry::own()` is the entry of the calling thread, NULL where
// it has none.
template <class Registry, class Entry>
class ThreadRegistry {
 public:
  // Made at its first use; threads that outlive main still use it.
  static Registry& instance() noexcept {
    static Lasting<Registry> made;
    return *made;
  }
  ThreadRegistry(const ThreadRegistry&) = delete;
  ThreadRegistry& operator=(const ThreadRegistry&) = delete;

  void add(Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    enter(entry);
  }
  void remove(Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    leave(entry);
  }

 protected:
  // The fork takes the mutex before, so that the child finds the list whole.
  ThreadRegistry() noexcept {
    pthread_atfork(nullptr, nullptr, [] { instance().forget_other_threads(); });
  }
  // In a forked child, which has the forking thread alone: the entries of the others are nobody's.
  void forget_other_threads() noexcept {
    while (ring_.next_ != &ring_) ring_.next_->leave();
    if (Entry* own = Registry::own()) enter(*own);
  }

  // The rest is called with the mutex.
  Mutex& mutex() noexcept { return mutex_; }
  void enter(Entry& entry) noexcept { static_cast<ThreadEntry&>(entry).enter(ring_); }
  // Where it is registered still.
  static void leave(Entry& entry) noexcept { static_cast<ThreadEntry&>(entry).leave(); }
  // The newest one that is it; NULL where none is.
  template <class IsIt>
  Entry* find(IsIt&& is_it) noexcept {
    for (ThreadEntry* at = ring_.next_; at != &ring_; at = at->next_)
      if (auto& entry = static_cast<Entry&>(*at); is_it(entry)) return &entry;
    return nullptr;
  }
  Entry* newest() noexcept { return entry_at(ring_.next_); }
  Entry* oldest() noexcept { return entry_at(ring_.previous_); }

 private:
  Entry* entry_at(ThreadEntry* place) noexcept { return place == &ring_ ? nullptr : static_cast<Entry*>(place); }

  Mutex mutex_{Mutex::Place::inner};
  ThreadEntry ring_;
};

}  // namespace kina
