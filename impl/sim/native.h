/* What runtime_stream_native gives for a simulated stream: the driver of the simulated devices, as a table of
 * functions. */
#ifndef KINA_SIM_NATIVE_H
#define KINA_SIM_NATIVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every function answers 0 on success, else a number that is not 0. */
typedef struct KinaSimStream {
  /* A foreign stream on the same device, to be given to runtime_stream_import; it lives as long as the process. */
  int32_t (*make)(struct KinaSimStream* like, struct KinaSimStream** out);
  /* From here to end_capture work is recorded, not run. */
  int32_t (*begin_capture)(struct KinaSimStream* stream);
  /* The graph of what was recorded; refused when the capture was broken. */
  int32_t (*end_capture)(struct KinaSimStream* stream, void** graph);
  /* Enqueues the graph's work on a stream that is not capturing. */
  int32_t (*replay)(struct KinaSimStream* stream, void* graph);
  int32_t (*destroy_graph)(void* graph);
} KinaSimStream;

#ifdef __cplusplus
}
#endif

#endif
