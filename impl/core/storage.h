// One reserved allocation, or foreign memory that tensors look at: who holds it, who may change it, which bytes are
// failed.
#pragma once

#include <atomic>
#include <utility>

#include "impl/core/condition.h"
#include "impl/core/counted.h"
#include "impl/core/device.h"
#include "impl/core/mutex.h"
#include "impl/core/resource.h"
#include "impl/core/thread_cache.h"
#include "impl/core/uses.h"

namespace kina {

class Hold;

// How the bytes of a storage go back when nobody holds them any more.
struct ForeignOwner {
  void (*release)(void* context) = nullptr;  // called once, under no lock; NULL: nothing to call
  void* context = nullptr;
};

enum class StorageOrigin : uint8_t { allocated, imported, borrowed };

class Storage final : public Counted {
 public:
  // Bytes of the resource that work on `stream` takes its memory from, ordered on it.
  static Hold allocate(uint64_t bytes, Stream& stream);
  // Memory of somebody else, from `data` on; who that is, `own` says.
  static Hold foreign(Device& device, void* data, uint64_t bytes, StorageOrigin origin, Stream& stream);

  uint64_t id() const noexcept { return id_; }  // never reused
  Device& device() const noexcept { return device_; }
  std::byte* data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }
  StorageOrigin origin() const noexcept { return origin_; }
  bool is_foreign() const noexcept { return origin_ != StorageOrigin::allocated; }
  Resource* resource() const noexcept { return resource_; }
  Stream& stream() const noexcept { return stream_; }

  // What keeps the bytes: tensors and exports by a hold each, and pins of peers. Weak references do not.
  // A hold where there is one already.
  Hold hold(Site site = Site::here()) noexcept;
  // A hold where there still is one, atomic against the last drop; else none. For who watches.
  Hold try_hold(Site site = Site::here()) noexcept;
  // A reference without a hold, for who has a hold now and may ask for one later.
  Ref<Storage> watch() noexcept {
    admit_all(maker_);
    keepers_.fetch_or(kWatched, std::memory_order_relaxed);
    return Ref<Storage>::share(this);
  }
  void pin(Site site = Site::here()) noexcept {
    if (is_dropped(site, SiteKind::pin)) return;
    admit_all(maker_);
    keepers_.fetch_add(kPin, std::memory_order_relaxed);
  }
  // These give it back; the last one gives the bytes back to where they came from.
  // They throw nothing, but a foreign deleter may end the thread.
  void drop() {
    if (keepers_.load(std::memory_order_acquire) == kHold) return end_alone();
    const bool is_done = change_alone(own_maker(), maker_, [this] {
      keepers_.store(keepers_.load(std::memory_order_relaxed) - kHold, std::memory_order_release);
    });
    if (!is_done) [[unlikely]]
      leave(kHold);
  }
  void unpin() { leave(kPin); }

  // A use of the bytes could not be noted: nothing can follow it, so they never go back and count as leaked.
  void abandon() noexcept { is_abandoned_.store(true, std::memory_order_release); }

  // Live tensors and exports, for exclusivity.
  uint64_t tensors() const noexcept { return keepers_.load(std::memory_order_acquire) % kPin; }

  bool is_copied = false;  // imported with IS_COPIED: foreign memory that is ours alone
  int32_t memory_type =
      0;  // kDLCUDAHost or kDLCUDAManaged where the host device serves such memory; 0: the device's own
  // What a tensor on these bytes says its device is, when work on it runs on `device`.
  DLDevice shown_on(const Device& device) const noexcept {
    if (memory_type == 0 || &device != &device_) return device.name();
    return {static_cast<DLDeviceType>(memory_type), 0};
  }
  // From here on `owner` is released with the bytes. `stream` is what it orders itself by, whose service ends then;
  // NULL: it looks from the host.
  void own(const ForeignOwner& owner, Stream* stream) noexcept {
    owner_.release = owner.release;  // one by one: they were just written so, and a wider load would wait for that
    owner_.context = owner.context;
    is_owner_on_host_ = stream == nullptr;
  }

  Uses uses;

  // The failed bytes from the lowest one under the elements of `view` on; without a claim when there is none.
  FailedRange failure_in(const View& view, Look look) const;
  // Marks the bytes of `view`'s elements, at most its hull. Throws bad_alloc with nothing changed.
  void mark_failed(const View& view, const Ref<Claim>& claim);
  // The elements of `view` were written: exactly their bytes are good again, as far as there is host memory, if every
  // check of `doubt` is fine. `room` is what was promised for that doubt.
  void write(const View& view, const Ref<Doubt>& doubt = {}, MarkRoom room = {});
  // Promises room for the claim on bytes that are about to be written: `tear` takes no memory then. Takes none itself
  // on a storage that never had a failure, once the thread has its spare record. Throws OUT_OF_MEMORY.
  [[nodiscard]] MarkRoom provide(const View& view);
  // The write that was provided for came to no end: the hull of `view` is failed, at least if nobody else marked or
  // tore a storage meanwhile that had never had a failure.
  void tear(const View& view, MarkRoom room) noexcept;
  // Before `view` is written: promises what `write` will need for `doubts`, which may become more.
  [[nodiscard]] MarkRoom prepare_write(const View& view, Doubts& doubts);
  // Adds the checks that the elements of `view` depend on.
  void hand_on(const View& view, Doubts& doubts) const;
  // The same three for work that `capture` records.
  void write_recorded(const View& view, const Ref<Doubt>& doubt, MarkRoom room);
  [[nodiscard]] MarkRoom prepare_recorded_write(const View& view, Doubts& doubts, uint64_t capture);
  void hand_on_recorded(const View& view, Doubts& doubts) const;
  // Work that replays what was recorded is on `stream`; in a turn. Throws what a launch throws; no check is lost by
  // that.
  void collect_replays(const char* function, Stream& stream);
  // The bytes are good by request; true when one was failed. Throws bad_alloc with nothing changed.
  bool clear_failed(const View& view);
  bool is_clean() const noexcept {
    const Condition* condition = condition_.load(std::memory_order_acquire);
    return condition == nullptr || condition->is_clean();
  }

 private:
  static constexpr uint64_t kHold = 1, kPin = uint64_t{1} << 32, kWatched = uint64_t{1} << 63;
  static Hold allocate_slowly(uint64_t bytes, Stream& stream);
  void leave(uint64_t keeper);
  void end_alone();
  void return_bytes();
  bool settle_uses() noexcept;
  bool settle_open_uses() noexcept;
  void give_back() noexcept;
  void give_back_slowly() noexcept;
  void give_back_after_uses() noexcept;
  void give_to_owner() noexcept;
  Ref<Resource> leave_resource() noexcept;
  Storage(Device& device, std::byte* data, uint64_t bytes, StorageOrigin origin, Stream& stream);
  ~Storage() override {
    if (Condition* known = condition_.load(std::memory_order_acquire)) [[unlikely]]
      end(known);
  }
  static void end(Condition* condition) noexcept;
  static void* operator new(size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { give_block(block, bytes); }
  Condition& condition();

  const uint64_t id_;
  Device& device_;
  std::byte* const data_;
  const uint64_t bytes_;
  const StorageOrigin origin_;
  bool is_owner_on_host_ = true;
  bool is_kept_by_block_ = false;  // the resource, which lives as long as it has live blocks; else by a reference
  Resource* resource_ = nullptr;
  Stream& stream_;
  ForeignOwner owner_;
  std::atomic<uint64_t> keepers_;  // they share one reference to this object
  // Whose thread alone changes `keepers_`: there are holds then, and nothing else.
  std::atomic<Maker::Number> maker_;
  std::atomic<bool> is_abandoned_{false};
  std::atomic<Condition*> condition_{nullptr};  // made with the first mark
};

// One hold of a storage, or none.
class Hold {
 public:
  Hold() = default;
  // Takes over a hold.
  explicit Hold(Storage* storage) noexcept : storage_(storage) {}
  Hold(Hold&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~Hold() noexcept(false) {
    if (storage_ != nullptr) storage_->drop();
  }

  Storage* get() const noexcept { return storage_; }
  Storage* operator->() const noexcept { return storage_; }
  Storage& operator*() const noexcept { return *storage_; }
  explicit operator bool() const noexcept { return storage_ != nullptr; }

 private:
  Storage* storage_ = nullptr;
};

inline Hold Storage::hold(Site site) noexcept {
  if (is_dropped(site, SiteKind::pin)) return Hold(this);
  const bool is_held = change_alone(own_maker(), maker_, [this] {
    keepers_.store(keepers_.load(std::memory_order_relaxed) + kHold, std::memory_order_relaxed);
  });
  if (!is_held) [[unlikely]]
    keepers_.fetch_add(kHold, std::memory_order_relaxed);
  return Hold(this);
}

// The storage of the caller's memory at `data`, one for all views and aliases of it.
Hold hold_borrowed(Device& device, void* data, uint64_t bytes, Stream& stream);

// The byte hull of a view as addresses; empty views have first == last.
Hull hull_of(const View& view) noexcept;

}  // namespace kina
