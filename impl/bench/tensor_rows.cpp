// T12, T13 and the calls on tensors.
#include "impl/bench/rows.h"

namespace kina::bench {

void add_tensor_rows() {
  const struct {
    const char* name;
    Body* body;
  } all[] = {
      {"T12/current_resource", &current_resource_get},
      {"T12/default_set_and_restore", &default_set_and_restore},
      {"T12/resource_push_and_pop", &resource_push_and_pop},
      {"T12/current_stream", &current_stream_get},
      {"T12/stream_push_and_pop", &stream_push_and_pop},
      {"T13/device_push_and_pop", &device_push_and_pop},
      {"tensor/alloc_and_free", &alloc_and_free},
      {"tensor/alloc_and_free_null_stream", &alloc_and_free_on_null_stream},
      {"tensor/view_and_free", &view_and_free},
      {"tensor/alias_and_free", &alias_and_free},
      {"tensor/alias_export_import_and_free", &alias_export_import_and_free},
      {"tensor/add_32_elements", &add_elements},
      {"tensor/add_32_elements_by_plain_loop", &add_elements_by_plain_loop},
  };
  for (const auto& each : all)
    add_row(std::string(each.name) + "/kina", [body = each.body](Run& run) {
      TensorJob job{};
      tensor_job_make(&job);
      run.watch(job.resource);
      run.measure(body, &job);
      tensor_job_end(&job);
    });
}

}  // namespace kina::bench
