// The rows that go through the ABI.
#include "impl/bench/rows.h"

namespace kina::bench {

// Those on a simulated device are a run of their own, so that the others are those of a program without one.
void add_rows() {
  int32_t simulated = 0;
  BENCH_OK(runtime_device_count(&simulated, kDLExtDev));
  if (simulated != 0) return add_stream_rows();
  add_block_rows();
  add_thread_rows();
  add_tensor_rows();
  add_logging_rows();
  add_trace_rows();
  add_torch_rows();
}

}  // namespace kina::bench
