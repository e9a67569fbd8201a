// What tells that a thread has ended, when none of its own destructors does.
#pragma once

#include <pthread.h>

namespace kina {

// Belongs to the thread that makes it. Its thread destroys it, or one that was told that the thread has ended.
class Lifeline {
 public:
  Lifeline() noexcept { tie(); }
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;
  ~Lifeline();

  // True once, on one thread, when the thread that made it has ended; never where the system has nothing to tell it by.
  bool has_ended() noexcept;
  // In a forked child, on the thread that made it: there it is another thread.
  void tie_again() noexcept { tie(); }

 private:
  void tie() noexcept;

  pthread_mutex_t mutex_;
  bool is_tied_ = false;
};

}  // namespace kina
