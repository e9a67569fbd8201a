// A robust mutex: its thread holds it for life, and the kernel tells the next one who asks for it that the owner died.
#include "impl/core/lifeline.h"

#include <cerrno>

namespace kina {
namespace {

#if defined(__linux__)
void make_robust(pthread_mutexattr_t& attributes) noexcept {
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
}
bool take_from_dead(pthread_mutex_t& mutex) noexcept {
  return pthread_mutex_trylock(&mutex) == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0;
}
#else
void make_robust(pthread_mutexattr_t&) noexcept {}
bool take_from_dead(pthread_mutex_t&) noexcept { return false; }
#endif

}  // namespace

void Lifeline::tie() noexcept {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  make_robust(attributes);
  is_tied_ = pthread_mutex_init(&mutex_, &attributes) == 0 && pthread_mutex_lock(&mutex_) == 0;
  pthread_mutexattr_destroy(&attributes);
}

Lifeline::~Lifeline() {
  if (!is_tied_) return;
  pthread_mutex_unlock(&mutex_);
  pthread_mutex_destroy(&mutex_);
}

bool Lifeline::has_ended() noexcept { return is_tied_ && take_from_dead(mutex_); }

}  // namespace kina
