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
    newest_ = scope->outer;
    leave(*scope);
  }
  // Says why `token` cannot be popped by a thread whose newest scope is another one.
  [[noreturn]] static void refuse_pop(uint64_t token, Argument argument);

  bool is_empty() const noexcept { return newest_ == nullptr; }

  // The stream that scopes bind for `device` (rules 1 and 2 of the stream chapter); NULL when none does.
  Stream* bound_stream(const Device& device) const noexcept { return is_empty() ? nullptr : find_stream(device); }
  // The resource that the innermost push binds for `device`; NULL when none does.
  Resource* bound_resource(const Device& device) const noexcept {
    for (const Scope* scope = newest_; scope != nullptr; scope = scope->outer)
      if (scope->kind == ScopeKind::resource && scope->device == &device) return scope->installed();
    return nullptr;
  }
  // The stream that a scope of `device` binds when it is entered now: redirect, else phase, else main.
  Stream& entry_stream(Device& device) const { return is_empty() ? device.main() : find_entry_stream(device); }

  // What the thread is about to make the default of a device.
  std::atomic<Resource*> installing{nullptr};

 private:
  friend class ScopeEntry;
  friend class ScopeRegistry;
  Scope& next_scope() {
    Scope* scope = newest_ == nullptr ? &first_ : newest_->inner.load(std::memory_order_relaxed);
    return scope == nullptr ? add_scope() : *scope;
  }
  Scope& add_scope();
  uint64_t next_token() {
    if (last_name_ == end_of_names_) [[unlikely]]
      draw_names();
    return ++last_name_;
  }
  void draw_names();
  Stream* find_stream(const Device& device) const noexcept;
  Stream& find_entry_stream(Device& device) const;
  static void leave(Scope& scope) noexcept {
    if (scope.kind == ScopeKind::capture) withdraw(scope);
    scope.token.store(0, std::memory_order_relaxed);
    scope.stream.store(nullptr, std::memory_order_release);
    scope.resource.store(nullptr, std::memory_order_release);
    if (scope.kept) [[unlikely]]
      scope.kept = nullptr;
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
  ScopeEntry(ScopeStack& scopes, ScopeKind kind, Device* device) : scopes_(scopes), scope_(scopes.next_scope()) {
    scope_.kind = kind;
    scope_.device = device;
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
    const uint64_t token = scopes_.next_token();
    if (scope_.kind == ScopeKind::capture) announce(token);
    scope_.token.store(token, std::memory_order_relaxed);
    scopes_.newest_ = &scope_;
    is_entered_ = true;
    return token;
  }

 private:
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
