/* What runtime_stream_native gives for a stream of a simulated device (kDLExtDev): the driver of such devices, as a
 * table of functions. It is what cuda.h is for CUDA: programs make streams of their own with it, capture and replay.
 *
 * A capture. Announce it with runtime_capture_push, then begin_capture; calls of the runtime on the stream are
 * recorded. After end_capture pop the scope, and replay the graph as often as wanted. To the runtime a replay is
 * foreign work: make its stream wait for what it needs with runtime_stream_wait, replay, then declare with
 * runtime_tensor_record_use what it reads and writes. Memory of the graph stays in the resource that was announced,
 * which has to live as long. */
#ifndef KINA_SIMULATED_H
#define KINA_SIMULATED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the drivers of all simulated devices were asked for since the process began. */
typedef struct KinaSimCounts {
  uint64_t event_records;
  uint64_t stream_waits;
  uint64_t host_waits;
} KinaSimCounts;

/* Every function answers 0 on success, else a number that is not 0. */
typedef struct KinaSimStream {
  /* A foreign stream on the same device, to be given to runtime_stream_import; it lives until `end`. */
  int32_t (*make)(struct KinaSimStream* like, struct KinaSimStream** out);
  /* From here to end_capture work is recorded, not run. */
  int32_t (*begin_capture)(struct KinaSimStream* stream);
  /* The graph of what was recorded; refused when the capture was broken. */
  int32_t (*end_capture)(struct KinaSimStream* stream, void** graph);
  /* Enqueues the graph's work on a stream that is not capturing. */
  int32_t (*replay)(struct KinaSimStream* stream, void* graph);
  int32_t (*destroy_graph)(void* graph);
  /* Foreign work: copies bytes when the stream comes to it. */
  int32_t (*copy)(struct KinaSimStream* stream, void* to, const void* from, uint64_t bytes);
  int32_t (*count)(struct KinaSimStream* stream, KinaSimCounts* out);
  /* Ends a stream that `make` gave, as soon as what is on it has run; a later one may have its address. Whoever uses an
   * ended stream is refused. */
  int32_t (*end)(struct KinaSimStream* stream);
} KinaSimStream;

#ifdef __cplusplus
}
#endif

#endif
