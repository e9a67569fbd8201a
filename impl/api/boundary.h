// The one place where a C++ failure becomes a C status and the thread's error record.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "impl/core/error.h"

namespace kina {

// One call of the ABI: what its operations, logs and failures are named after.
struct Call {
  const char* function;
};

// Stores `error` as the thread's record, logs it, and returns its status. Never allocates.
KinaStatus report(const Call& call, const Error& error) noexcept;

// Lets through what is no exception: the end of the thread, when a foreign deleter ends it (CPython's lock does, for
// threads that ask for it while the interpreter goes down).
// Part of each entry point, so that no call passes its parameters on by reference.
template <class Body>
[[gnu::always_inline]] inline KinaStatus boundary(const char* function, Body&& body) {
  const Call call{function};
  try {
    if constexpr (std::is_invocable_v<Body, const Call&>) {
      std::forward<Body>(body)(call);
    } else {
      std::forward<Body>(body)();
    }
    return KINA_SUCCESS;
  } catch (const Error& error) {
    return report(call, error);
  } catch (const std::bad_alloc&) {
    return report(call, make_error<Message::out_of_host_memory>("KINA-STATUS-44", {}));
  } catch (const std::exception& error) {
    return report(call, make_error<Message::internal>("KINA-STATUS-31", {}, error.what()));
#ifdef __GLIBCXX__
  } catch (const abi::__forced_unwind&) {
    throw;
#endif
  } catch (...) {
    return report(call, make_error<Message::internal>("KINA-STATUS-31", {}, "unknown exception"));
  }
}

// A call that reads the record and so must not set it, not even when it fails itself.
template <class Body>
KinaStatus unrecorded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return KINA_SUCCESS;
  } catch (const Error& error) {
    return error.status;
  } catch (...) {
    return KINA_ERROR_INTERNAL;
  }
}

}  // namespace kina
