// Entering and leaving scopes, and what they bind.
#include "impl/core/scope.h"

#include "impl/core/device.h"
#include "impl/core/thread_cache.h"

namespace kina {
namespace {

// Tokens are names only: the table holds no object worth reaching, so every scope shares this one.
struct Token {};
Token the_token;

SlotCache* slot_cache() noexcept { return t_cache == nullptr ? nullptr : &t_cache->scope_slots; }

HandleTable<Token>& tokens() {
  static auto& table = *new HandleTable<Token>(Kind::scope, &slot_cache);
  return table;
}

}  // namespace

ScopeStack::~ScopeStack() {
  for (const Scope& scope : scopes_) leave(scope);
}

void ScopeStack::leave(const Scope& scope) noexcept {
  if (scope.kind == ScopeKind::capture) scope.stream->withdraw(scope.handle);
  if (scope.stream) scope.stream->unbind();
  tokens().remove_own(scope.handle);
}

void ScopeStack::announce(const Scope& scope) {
  try {
    scope.stream->announce(scope.handle, *scope.resource.get());
  } catch (...) {
    leave(scope);
    throw;
  }
}

uint64_t ScopeStack::push(Scope scope, Argument argument) {
  if (scopes_.size() == scopes_.capacity()) scopes_.reserve(scopes_.empty() ? 8 : 2 * scopes_.size());
  scope.handle = tokens().insert(&the_token);
  if (scope.stream && !scope.stream->bind()) {
    tokens().remove_own(scope.handle);
    refuse<Message::stale_handle>("KINA-STATUS-26", argument, argument.name, word_of(Kind::stream));
  }
  if (scope.kind == ScopeKind::capture) announce(scope);
  scopes_.push_back(std::move(scope));
  return scopes_.back().handle;
}

void ScopeStack::pop(uint64_t token, Argument argument) {
  if (scopes_.empty() || scopes_.back().handle != token) [[unlikely]] {
    require<Message::stale_handle>(tokens().find(token) != nullptr, "KINA-STREAM-45", argument, argument.name,
                                   word_of(Kind::scope));
    refuse<Message::scope_not_newest>("KINA-STREAM-45", argument, argument.name);
  }
  const Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  leave(scope);
}

// Rule 1: the innermost stream push. Rule 2: what the innermost device scope bound on entry.
Stream* ScopeStack::bound_stream(const Device& device) const noexcept {
  const Scope* entered = nullptr;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (scope->device != &device) continue;
    if (scope->kind == ScopeKind::stream) return scope->stream.get();
    if (scope->kind == ScopeKind::device && entered == nullptr) entered = &*scope;
  }
  return entered == nullptr ? nullptr : entered->stream.get();
}

Resource* ScopeStack::bound_resource(const Device& device) const noexcept {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (scope->kind == ScopeKind::resource && scope->device == &device) return scope->resource.get();
  return nullptr;
}

Ref<Stream> ScopeStack::entry_stream(Device& device) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (scope->kind == ScopeKind::redirect && scope->device == &device) return scope->stream;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (scope->kind == ScopeKind::phase) return device.phase(scope->phase);
  return Ref<Stream>::share(&device.main());
}

}  // namespace kina
