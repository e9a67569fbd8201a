// One initial-exec pointer per thread; the block behind it is freed by a pthread key.
#include "impl/core/thread.h"

#include <pthread.h>

#include <mutex>
#include <new>
#include <utility>

#include "impl/core/callback.h"
#include "impl/core/condition.h"
#include "impl/core/copy_mark.h"

namespace kina {

constinit thread_local ThreadCache* t_cache = nullptr;

// The blocks of all threads. A call from the last round of a thread's destructors makes one that its thread never ends.
class BlockRegistry : public ThreadRegistry<BlockRegistry, ThreadBlock> {
 public:
  static ThreadBlock* own() noexcept { return static_cast<ThreadBlock*>(t_cache); }
  void forget_other_threads() noexcept {
    ThreadRegistry::forget_other_threads();
    if (own() != nullptr) own()->lifeline_.tie_again();
  }

  // A block whose thread has ended, now the caller's; NULL where none of the next `looks` in turn is one.
  ThreadBlock* take_dead(size_t looks) noexcept {
    const std::lock_guard lock(mutex());
    const ThreadBlock* const last = newest();
    for (ThreadBlock* block = oldest(); block != nullptr && looks != 0; block = oldest(), --looks) {
      leave(*block);
      if (block->lifeline_.has_ended()) return block;
      enter(*block);
      if (block == last) break;
    }
    return nullptr;
  }
};

namespace {

void end_thread(void* block) {
  t_cache = nullptr;
  delete static_cast<ThreadBlock*>(block);
}

ErrorRecord& emergency_record() noexcept {
  static ErrorRecord record;
  return record;
}

constexpr pthread_key_t kMarks = 1024;

// The key's number is unique in the process for as long as the key exists, and it is never deleted: no two copies share
// it.
struct Key {
  pthread_key_t value = kMarks;
  Key() {
    if (pthread_key_create(&value, &end_thread) != 0) value = kMarks;
  }
};

const Key& key() {
  static const Key made;
  return made;
}

}  // namespace

ThreadBlock::ThreadBlock() noexcept { BlockRegistry::instance().add(*this); }
ThreadBlock::~ThreadBlock() {
  defaults_mutex().end(in_defaults);
  BlockRegistry::instance().remove(*this);
}

bool end_dead_threads() noexcept {
  bool were_any = false;
  while (ThreadBlock* dead = BlockRegistry::instance().take_dead(SIZE_MAX)) {
    delete dead;
    were_any = true;
  }
  return were_any;
}

ThreadBlock* make_thread_block() noexcept {
  if (key().value >= kMarks) return nullptr;
  ThreadBlock* block = new (std::nothrow) ThreadBlock;
  if (block == nullptr) return nullptr;
  if (pthread_setspecific(key().value, block) != 0) {
    delete block;
    return nullptr;
  }
  t_cache = block;
  delete BlockRegistry::instance().take_dead(2);  // so there are never many
  return block;
}

void keep_reported(Ref<Claim> claim) noexcept {
  if (ThreadBlock* block = thread_block()) {
    block->reported = std::move(claim);
  } else {
    claim.detach();  // nobody can end its life: rather one claim too many than strings that are gone
  }
}

const ErrorRecord& error_record() noexcept {
  const ThreadBlock* block = thread_block();
  return block == nullptr ? emergency_record() : block->record;
}

ErrorRecord& changing_error_record() noexcept {
  ThreadBlock* block = thread_block();
  if (block == nullptr) return emergency_record();
  if (block->callback != nullptr) block->callback->keep(block->record);
  return block->record;
}

uint64_t copy_mark() {
  require<Message::out_of_handles>(key().value < kMarks, "KINA-STATUS-44", {});
  return key().value;
}

}  // namespace kina
