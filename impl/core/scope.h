// The scopes of one thread: which stream, phase, redirect and resource its calls use.
#pragma once

#include <atomic>
#include <cstdint>

#include "impl/core/counted.h"
#include "impl/core/device.h"
#include "impl/core/resource.h"
#include "impl/core/stream.h"
#include "impl/core/thread_registry.h"

namespace kina {

enum class ScopeKind : uint8_t { device, stream, phase, redirect, resource, capture };
// A set of kinds, one bit for each.
constexpr uint8_t set_of(ScopeKind kind) noexcept { return static_cast<uint8_t>(1u << static_cast<unsigned>(kind)); }

// One scope of a thread. Its records form a chain inwards from its first scope, which stays until the thread ends and
// is used again and again: nobody else writes them, and what is atomic all may read, to see what is in use.
struct Scope {
  std::atomic<uint64_t> token{0};            // 0: the scope is not live
  std::atomic<Stream*> stream{nullptr};      // what it binds; for device scopes what was chosen on entry
  std::atomic<Resource*> resource{nullptr};  // what resource and capture scopes install
  Ref<Resource> kept;                        // the same, where nothing else keeps it
  Device* device = nullptr;                  // NULL for phase scopes, which hold for every device
  int32_t phase = 0;
  ScopeKind kind = ScopeKind::device;
  uint8_t kinds = 0;       // of this scope and all around it
  bool ends_more = false;  // it keeps or has announced something, which ends with it
  Scope* outer = nullptr;  // its neighbours stay the same
  std::atomic<Scope*> inner{nullptr};

  Stream* bound() const noexcept { return stream.load(std::memory_order_relaxed); }
  Resource* installed() const noexcept { return resource.load(std::memory_order_relaxed); }
};

class ScopeStack : public ThreadEntry {
 public:
  ScopeStack() noexcept;
  ~ScopeStack();

  // Leaves the newest scope, which must be `token`'s.
  void pop(uint64_t token, Argument argument) {
    Scope* scope = newest_;
    if (scope == nullptr || scope->token.load(std::memory_order_relaxed) != token) [[unlikely]]
      refuse_pop(token, argument);
    leave(*scope);
  }
  // Says why `token` cannot be popped by a thread whose newest scope is another one.
  [[noreturn]] static void refuse_pop(uint64_t token, Argument argument);

  // The same in place, for most scopes; false, with nothing changed, where `pop` decides.
  bool pop_at_once(uint64_t token) noexcept {
    Scope* scope = newest_;
    if (scope == nullptr || scope->token.load(std::memory_order_relaxed) != token || scope->ends_more) [[unlikely]]
      return false;
    newest_ = scope->outer;
    clear(*scope);
    return true;
  }

  // The stream that scopes bind for `device` (rules 1 and 2 of the stream chapter); NULL when none does.
  Stream* bound_stream(const Device& device) const noexcept {
    return has(set_of(ScopeKind::stream) | set_of(ScopeKind::device)) ? find_stream(device) : nullptr;
  }
  // The resource that the innermost push binds for `device`; NULL when none does.
  Resource* bound_resource(const Device& device) const noexcept {
    if (!has(set_of(ScopeKind::resource))) return nullptr;
    for (const Scope* scope = newest_; scope != nullptr; scope = scope->outer)
      if (scope->kind == ScopeKind::resource && scope->device == &device) return scope->installed();
    return nullptr;
  }
  // The stream that a scope of `device` binds when it is entered now: redirect, else phase, else main.
  Stream& entry_stream(Device& device) const { return enters_main() ? device.main() : find_entry_stream(device); }

  // Enter a scope in place, where that takes plain stores alone, and give its token; false, with nothing changed, where
  // a ScopeEntry decides.
  bool enter_device_at_once(KinaScope& token, Device& device) noexcept {
    Scope* scope = spare_scope();
    if (scope == nullptr || !enters_main()) [[unlikely]]
      return false;
    begin(*scope, ScopeKind::device, &device);
    scope->stream.store(&device.main(), std::memory_order_relaxed);
    token = handle_of<KinaScope>(enter(*scope));
    return true;
  }
  bool enter_stream_at_once(KinaScope& token, ScopeKind kind, uint64_t handle) noexcept {
    Scope* scope = spare_scope();
    const HandleTable<Stream>* table = AllStreams::known();
    const std::atomic<uint64_t>* name = nullptr;
    Stream* stream = table == nullptr ? nullptr : table->find(handle, name);
    if (scope == nullptr || stream == nullptr) [[unlikely]]
      return false;
    begin(*scope, kind, &stream->device());
    scope->stream.store(stream, std::memory_order_relaxed);
    if (stream->can_end()) {  // see ScopeEntry::make_sure
      fence_lease();
      if (stream->is_ending() || name->load(std::memory_order_acquire) != handle) [[unlikely]] {
        scope->stream.store(nullptr, std::memory_order_release);
        return false;
      }
    }
    token = handle_of<KinaScope>(enter(*scope));
    return true;
  }
  bool enter_resource_at_once(KinaScope& token, uint64_t handle, LeaseRow& leases) noexcept {
    Scope* scope = spare_scope();
    const Lease<Resource> resource = scope == nullptr ? Lease<Resource>() : look_up_at_once(leases, handle);
    if (!resource) [[unlikely]]
      return false;
    begin(*scope, ScopeKind::resource, &resource->device());
    if (!install_at_once(scope->resource, *resource)) [[unlikely]]
      return false;
    token = handle_of<KinaScope>(enter(*scope));
    return true;
  }

  // What the thread is about to make the default of a device.
  std::atomic<Resource*> installing{nullptr};

 private:
  friend class ScopeEntry;
  friend class ScopeRegistry;
  // Whether a scope of one of these kinds is entered.
  bool has(unsigned kinds) const noexcept { return newest_ != nullptr && (newest_->kinds & kinds) != 0; }
  // Whether every device's scope binds its main stream when it is entered now.
  bool enters_main() const noexcept { return !has(set_of(ScopeKind::redirect) | set_of(ScopeKind::phase)); }
  bool has_names() const noexcept { return last_name_ != end_of_names_; }
  // NULL where it has still to be made.
  Scope* next_scope() noexcept { return newest_ == nullptr ? &first_ : newest_->inner.load(std::memory_order_relaxed); }
  // The same, or NULL as well where tokens have to be drawn.
  Scope* spare_scope() noexcept { return has_names() ? next_scope() : nullptr; }
  Scope& add_scope();
  void begin(Scope& scope, ScopeKind kind, Device* device) const noexcept {
    scope.kind = kind;
    scope.kinds = static_cast<uint8_t>((newest_ == nullptr ? 0 : newest_->kinds) | set_of(kind));
    scope.device = device;
  }
  uint64_t enter(Scope& scope) noexcept {
    const uint64_t token = ++last_name_;
    scope.token.store(token, std::memory_order_relaxed);
    newest_ = &scope;
    return token;
  }
  void draw_names();
  // Rule 1: the innermost stream push. Rule 2: what the innermost device scope bound on entry.
  Stream* find_stream(const Device& device) const noexcept {
    const Scope* entered = nullptr;
    for (const Scope* scope = newest_; scope != nullptr; scope = scope->outer) {
      if (scope->device != &device) continue;
      if (scope->kind == ScopeKind::stream) return scope->bound();
      if (scope->kind == ScopeKind::device && entered == nullptr) entered = scope;
    }
    return entered == nullptr ? nullptr : entered->bound();
  }
  Stream& find_entry_stream(Device& device) const;
  // Leaves the newest scope.
  void leave(Scope& scope) noexcept {
    newest_ = scope.outer;
    if (scope.kind == ScopeKind::capture) withdraw(scope);
    clear(scope);
    scope.ends_more = false;
    if (scope.kept) [[unlikely]]
      scope.kept = nullptr;
  }
  static void clear(Scope& scope) noexcept {
    scope.token.store(0, std::memory_order_relaxed);
    scope.stream.store(nullptr, std::memory_order_release);
    scope.resource.store(nullptr, std::memory_order_release);
  }
  static void withdraw(Scope& scope) noexcept;

  Scope first_;
  Scope* newest_ = nullptr;
  uint64_t last_name_ = 0, end_of_names_ = 0;  // tokens that nobody else gives out
};

// A scope on its way in: what it was given goes again where the entry does not come about.
class ScopeEntry {
 public:
  // Throws OUT_OF_MEMORY.
  ScopeEntry(ScopeStack& scopes, ScopeKind kind, Device* device) : scopes_(scopes), scope_(next_scope(scopes)) {
    scopes.begin(scope_, kind, device);
  }
  ScopeEntry(const ScopeEntry&) = delete;
  ScopeEntry& operator=(const ScopeEntry&) = delete;
  ~ScopeEntry() {
    if (!is_entered_) [[unlikely]]
      give_up();
  }

  // Binds a stream that a scope of this thread binds already, or that never ends.
  void bind(Stream& stream) noexcept { scope_.stream.store(&stream, std::memory_order_relaxed); }
  // Binds the stream that `handle` names, atomically against its end. Throws INVALID_HANDLE.
  void bind(Stream& stream, uint64_t handle, Argument argument) {
    bind(stream);
    if (stream.can_end()) make_sure(stream, handle, argument);
  }
  // Installs the resource that `handle` names, atomically against its release. Throws INVALID_HANDLE.
  void install(Resource& resource, uint64_t handle, Argument argument) {
    install_resource(scope_.resource, scope_.kept, resource, handle, argument);
  }
  void set_phase(int32_t phase) noexcept { scope_.phase = phase; }

  // Returns the token. Throws OUT_OF_MEMORY.
  uint64_t enter() {
    if (!scopes_.has_names()) [[unlikely]]
      scopes_.draw_names();
    if (scope_.kind == ScopeKind::capture) announce(scopes_.last_name_ + 1);
    scope_.ends_more = scope_.kind == ScopeKind::capture || scope_.kept;
    is_entered_ = true;
    return scopes_.enter(scope_);
  }

 private:
  static Scope& next_scope(ScopeStack& scopes) {
    Scope* scope = scopes.next_scope();
    return scope == nullptr ? scopes.add_scope() : *scope;
  }
  void make_sure(Stream& stream, uint64_t handle, Argument argument);
  void announce(uint64_t token);
  void give_up() noexcept;

  ScopeStack& scopes_;
  Scope& scope_;
  bool is_entered_ = false;
};

// Whether a scope of any thread binds the stream, or installs the resource or is about to make it a default. Exact for
// what was put there before the last fence of all threads.
bool is_bound(const Stream& stream) noexcept;
bool is_in_scope(const Resource& resource) noexcept;

}  // namespace kina
