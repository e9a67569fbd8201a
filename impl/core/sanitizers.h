// Which sanitizers the library is built with: g++ says it by macros, clang by features.
#pragma once

namespace kina {

inline constexpr bool kIsAddressSanitized =
#if defined(__SANITIZE_ADDRESS__)
    true;
#elif defined(__has_feature)
    __has_feature(address_sanitizer);
#else
    false;
#endif

inline constexpr bool kIsThreadSanitized =
#if defined(__SANITIZE_THREAD__)
    true;
#elif defined(__has_feature)
    __has_feature(thread_sanitizer);
#else
    false;
#endif

}  // namespace kina
