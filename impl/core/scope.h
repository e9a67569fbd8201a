// The scopes of one thread: which stream, phase, redirect and resource its calls use.
#pragma once

#include <cstdint>
#include <vector>

#include "impl/core/counted.h"
#include "impl/core/resource.h"
#include "impl/core/stream.h"

namespace kina {

enum class ScopeKind : uint8_t { device, stream, phase, redirect, resource, capture };

struct Scope {
  ScopeKind kind = ScopeKind::device;
  uint64_t handle = 0;
  Device* device = nullptr;  // NULL for phase scopes, which hold for every device
  Ref<Stream> stream;        // what it binds: stream, redirect, capture; for device scopes what was chosen on entry
  Installation resource;     // what resource and capture scopes install
  int32_t phase = 0;
};

class ScopeStack {
 public:
  ScopeStack() = default;
  ScopeStack(const ScopeStack&) = delete;
  ScopeStack& operator=(const ScopeStack&) = delete;
  ~ScopeStack();

  // Enters `scope` and returns its token. Throws with nothing changed; `argument` is what a stream came from.
  uint64_t push(Scope scope, Argument argument = {});
  // Leaves the newest scope, which must be `token`'s.
  void pop(uint64_t token, Argument argument);

  bool is_empty() const noexcept { return scopes_.empty(); }

  // The stream that scopes bind for `device` (rules 1 and 2 of the stream chapter); NULL when none does.
  Stream* bound_stream(const Device& device) const noexcept;
  // The resource that the innermost push binds for `device`; NULL when none does.
  Resource* bound_resource(const Device& device) const noexcept;
  // The stream that a scope of `device` binds when it is entered now: redirect, else phase, else main.
  Ref<Stream> entry_stream(Device& device) const;

 private:
  static void announce(const Scope& scope);
  static void leave(const Scope& scope) noexcept;

  std::vector<Scope> scopes_;
};

}  // namespace kina
