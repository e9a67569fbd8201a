// Entering and leaving scopes, and what they bind.
#include "impl/core/scope.h"

#include <mutex>

#include "impl/core/thread.h"

namespace kina {

// The scopes of all threads, for those who end what they may use. In a forked child those of other threads have ended
// with them.
class ScopeRegistry : public ThreadRegistry<ScopeRegistry, ScopeStack> {
 public:
  static ScopeStack* own() noexcept {
    return t_cache == nullptr ? nullptr : &static_cast<ThreadBlock*>(t_cache)->scopes;
  }

  // Whether is_it(scopes of a thread) for any thread.
  template <class IsIt>
  bool any(IsIt&& is_it) noexcept {
    const std::lock_guard lock(mutex());
    return find(is_it) != nullptr;
  }
  template <class IsIt>
  bool any_scope(IsIt&& is_it) noexcept {
    return any([&](const ScopeStack& scopes) {
      for (const Scope* scope = &scopes.first_; scope != nullptr; scope = scope->inner.load(std::memory_order_acquire))
        if (is_it(*scope)) return true;
      return false;
    });
  }
};

namespace {

bool is_live(uint64_t token) noexcept {
  return token != 0 && ScopeRegistry::instance().any_scope(
                           [=](const Scope& scope) { return scope.token.load(std::memory_order_relaxed) == token; });
}

}  // namespace

bool is_bound(const Stream& stream) noexcept {
  return ScopeRegistry::instance().any_scope(
      [&](const Scope& scope) { return scope.stream.load(std::memory_order_acquire) == &stream; });
}

bool is_in_scope(const Resource& resource) noexcept {
  const auto is_it = [&](const std::atomic<Resource*>& place) {
    return place.load(std::memory_order_acquire) == &resource;
  };
  return ScopeRegistry::instance().any_scope([&](const Scope& scope) { return is_it(scope.resource); }) ||
         ScopeRegistry::instance().any([&](const ScopeStack& scopes) { return is_it(scopes.installing); });
}

ScopeStack::ScopeStack() noexcept { ScopeRegistry::instance().add(*this); }

ScopeStack::~ScopeStack() {
  while (newest_ != nullptr) leave(*newest_);
  ScopeRegistry::instance().remove(*this);
  for (Scope* scope = first_.inner.load(std::memory_order_relaxed); scope != nullptr;)
    delete std::exchange(scope, scope->inner.load(std::memory_order_relaxed));
}

Scope& ScopeStack::add_scope() {
  auto* made = new Scope;
  made->outer = newest_;
  newest_->inner.store(made, std::memory_order_release);
  return *made;
}

// Tokens are names only: each thread draws many at once, and no two are ever alike.
void ScopeStack::draw_names() {
  constexpr uint64_t kBatch = 1 << 16;
  constexpr uint64_t kNames = (HandleParts::kGenerationMask + 1) << HandleParts::kSlotBits;
  static std::atomic<uint64_t> drawn{0};
  const uint64_t mark = copy_mark();
  const uint64_t first =
      drawn.load(std::memory_order_relaxed) >= kNames ? kNames : drawn.fetch_add(kBatch, std::memory_order_relaxed);
  require<Message::out_of_handles>(first < kNames, "KINA-STATUS-44", {});
  const uint64_t name =
      HandleParts::pack(Kind::scope, mark, first >> HandleParts::kSlotBits, first & HandleParts::kSlotMask);
  last_name_ = name;
  end_of_names_ = name + kBatch - 1;
}

void ScopeStack::refuse_pop(uint64_t token, Argument argument) {
  end_dead_threads();
  require<Message::stale_handle>(is_live(token), "KINA-STREAM-45", argument, argument.name, word_of(Kind::scope));
  refuse<Message::scope_not_newest>("KINA-STREAM-45", argument, argument.name);
}

void ScopeStack::withdraw(Scope& scope) noexcept {
  scope.bound()->withdraw(scope.token.load(std::memory_order_relaxed));
}

// Whoever ends the stream says so before all threads are fenced and looked at: either this scope was seen there, or it
// waits here until that is decided.
void ScopeEntry::make_sure(Stream& stream, uint64_t handle, Argument argument) {
  fence_lease();
  if (stream.is_ending()) [[unlikely]] {
    const std::lock_guard lock(stream.device().mutex);
  }
  const bool is_live = streams().find(handle) == &stream && !stream.is_ending();
  require<Message::stale_handle>(is_live, "KINA-STATUS-26", argument, argument.name, word_of(Kind::stream));
}

void ScopeEntry::announce(uint64_t token) { scope_.bound()->announce(token, *scope_.installed()); }

// Not announced: that comes last of what may throw.
void ScopeEntry::give_up() noexcept {
  ScopeStack::clear(scope_);
  scope_.kept = nullptr;
}

Stream& ScopeStack::find_entry_stream(Device& device) const {
  for (const Scope* scope = newest_; scope != nullptr; scope = scope->outer)
    if (scope->kind == ScopeKind::redirect && scope->device == &device) return *scope->bound();
  for (const Scope* scope = newest_; scope != nullptr; scope = scope->outer)
    if (scope->kind == ScopeKind::phase) return *device.phase(scope->phase);
  return device.main();
}

}  // namespace kina
