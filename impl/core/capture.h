// Capture: streams on which calls are recorded into a graph of the caller's instead of being run.
#pragma once

#include "impl/core/stream.h"

namespace kina {

// Whether work enqueued on `stream` is recorded now. The driver is asked only about streams whose native handle came in
// or went out: nobody else can capture.
bool captures(Stream& stream);

// The same for a release: also where that cannot be learned.
bool may_capture(Stream& stream) noexcept;

// The same for a call that is about to enqueue: UNSUPPORTED where a capture was not announced [KINA-STREAM-41].
// What is recorded takes no part in the order of what runs: it waits for nothing and is nobody's last use.
bool is_recorded(Stream& stream);
// The number of the capture that records it; 0: none does.
uint64_t recording_on(Stream& stream);
void require_announced(Stream& stream);

// UNSUPPORTED where `stream` captures: nobody can wait for it [KINA-STREAM-22].
void require_no_capture(Stream& stream);

// Where memory of work on `stream` comes from: what announced its capture, else the current resource.
Ref<Resource> resource_for(Stream& stream);

}  // namespace kina
