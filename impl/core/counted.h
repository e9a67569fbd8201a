// Objects that live as long as somebody refers to them.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace kina {

class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() const noexcept {
    if (!is_lasting_) references_.fetch_add(1, std::memory_order_relaxed);
  }
  // A reference where there still is one, against the last release on another thread.
  bool try_retain() const noexcept {
    if (is_lasting_) return true;
    uint64_t references = references_.load(std::memory_order_acquire);
    while (references != 0)
      if (references_.compare_exchange_weak(references, references + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  void release() const noexcept {
    if (!is_lasting_ && references_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_reference_gone();
  }
  // The same for many at once, by somebody who has one more.
  void retain_many(uint64_t count) const noexcept { references_.fetch_add(count, std::memory_order_relaxed); }
  void release_many(uint64_t count) const noexcept { references_.fetch_sub(count, std::memory_order_release); }

 protected:
  enum class Life : uint8_t { counted, lasting };  // lasting ones never end, so that nobody needs to count
  explicit Counted(Life life) noexcept : is_lasting_(life == Life::lasting) {}
  virtual ~Counted() = default;
  virtual void last_reference_gone() const noexcept { delete this; }

  // Gives one of just `count` references back, or one of any other number: false, with nothing done, where it is not
  // so.
  bool release_one_of(uint64_t count) const noexcept {
    return release_if([=](uint64_t seen) { return seen == count; });
  }
  bool release_one_not_of(uint64_t count) const noexcept {
    return release_if([=](uint64_t seen) { return seen != count; });
  }

 private:
  template <class Condition>
  bool release_if(Condition condition) const noexcept {
    if (is_lasting_) return true;
    uint64_t references = references_.load(std::memory_order_acquire);
    do {
      if (!condition(references)) return false;
    } while (!references_.compare_exchange_weak(references, references - 1, std::memory_order_acq_rel));
    if (references == 1) last_reference_gone();
    return true;
  }

  const bool is_lasting_ = false;
  mutable std::atomic<uint64_t> references_{1};
};

// One counted reference to a T, or none.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class Derived>
  Ref(Ref<Derived> other) noexcept : object_(other.detach()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  // Takes over the reference that `object` was made with.
  static Ref adopt(T* object) noexcept {
    Ref made;
    made.object_ = object;
    return made;
  }
  static Ref share(T* object) noexcept {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  // A reference where there still is one: `object` may be ending on another thread, but its memory is there.
  static Ref try_share(T* object) noexcept {
    return adopt(object != nullptr && object->try_retain() ? object : nullptr);
  }
  T* detach() noexcept { return std::exchange(object_, nullptr); }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Values>
Ref<T> make_counted(Values&&... values) {
  return Ref<T>::adopt(new T(std::forward<Values>(values)...));
}

}  // namespace kina
