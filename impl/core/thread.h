// What the library keeps for one thread: its error record, the strings of its last failure report, its scopes.
#pragma once

#include <memory>

#include "impl/core/error.h"
#include "impl/core/failure.h"
#include "impl/core/lifeline.h"
#include "impl/core/resident_mutex.h"
#include "impl/core/scope.h"
#include "impl/core/thread_cache.h"
#include "impl/core/thread_registry.h"

namespace kina {

struct ErrorRecord {
  KinaStatus status = KINA_SUCCESS;
  const char* function = nullptr;
  Error error;
};

class CallbackGuard;
class Condition;

// What another room keeps for a thread; it ends with the thread.
class ThreadPart {
 public:
  ThreadPart() = default;
  ThreadPart(const ThreadPart&) = delete;
  ThreadPart& operator=(const ThreadPart&) = delete;
  virtual ~ThreadPart() = default;
};

class PoolCache;

struct ThreadBlock : ThreadCache, ThreadEntry {
  ThreadBlock() noexcept;
  ~ThreadBlock();

  ErrorRecord record;
  CallbackGuard* callback = nullptr;  // the innermost one that runs
  ScopeStack scopes;
  Residence in_defaults{this};       // of the thread, where defaults of devices change
  bool is_logging = false;           // inside the log callback
  Ref<Claim> reported;               // keeps the strings of the last runtime_failure_get
  std::unique_ptr<Condition> spare;  // for a storage that fails when there is no memory
  std::unique_ptr<ThreadPart> pool_caches;
  PoolCache* newest_pool_cache = nullptr;  // of these, the one used last

 private:
  friend class BlockRegistry;
  Lifeline lifeline_;
};

ThreadBlock* make_thread_block() noexcept;

// The block of the calling thread, made at its first call; NULL while host memory is out.
inline ThreadBlock* thread_block() noexcept {
  return t_cache != nullptr ? static_cast<ThreadBlock*>(t_cache) : make_thread_block();
}

// The same where there is one already, else NULL.
inline ThreadBlock* own_block() noexcept { return static_cast<ThreadBlock*>(t_cache); }

// As above, but OUT_OF_MEMORY where it cannot be made.
inline ThreadBlock& demand_thread_block() {
  ThreadBlock* block = thread_block();
  require<Message::out_of_host_memory>(block != nullptr, "KINA-STATUS-44", {});
  return *block;
}

// Ends what threads left whose last call came too late for a destructor of ours. True where there was such a thread.
// Called under no lock, by whoever is about to refuse because of what a thread holds.
bool end_dead_threads() noexcept;

// Keeps the strings of a reported failure valid until the thread's next report.
void keep_reported(Ref<Claim> claim) noexcept;

// The calling thread's error record; a shared emergency record while the thread has no block.
const ErrorRecord& error_record() noexcept;
// The same for who is about to change it: a callback that runs keeps what is there.
ErrorRecord& changing_error_record() noexcept;

}  // namespace kina
