// T12, T13 and the calls on tensors.
#include "impl/bench/rows.h"

namespace kina::bench {

namespace {

struct Row {
  const char* name;
  Body* body;
  Body* empty = nullptr;  // what the harness itself costs, where that is much of the figure
};
constexpr Row kRows[] = {
    {"T12/current_resource", &current_resource_get, &one_empty_call},
    {"T12/default_set_and_restore", &default_set_and_restore, &two_empty_calls},
    {"T12/resource_push_and_pop", &resource_push_and_pop, &two_empty_calls},
    {"T12/current_stream", &current_stream_get, &one_empty_call},
    {"T12/stream_push_and_pop", &stream_push_and_pop, &two_empty_calls},
    {"T13/device_push_and_pop", &device_push_and_pop, &two_empty_calls},
    {"tensor/alloc_and_free", &alloc_and_free},
    {"tensor/alloc_and_free_null_stream", &alloc_and_free_on_null_stream},
    {"tensor/view_and_free", &view_and_free},
    {"tensor/alias_and_free", &alias_and_free},
    {"tensor/alias_export_import_and_free", &alias_export_import_and_free},
    {"tensor/add_32_elements", &add_elements},
    {"tensor/add_32_elements_by_plain_loop", &add_elements_by_plain_loop},
};

void measure(Run& run, Body* body) {
  TensorJob job{};
  tensor_job_make(&job);
  run.watch(job.resource);
  run.measure(body, &job);
  tensor_job_end(&job);
}

}  // namespace

void add_tensor_rows() {
  for (const Row& row : kRows) {
    add_row(std::string(row.name) + "/kina", [&row](Run& run) { measure(run, row.body); });
    if (row.empty == nullptr) continue;
    add_row(std::string(row.name) + "/harness", [&row](Run& run) {
      if (!run.is_check()) measure(run, row.empty);
    });
  }
}

}  // namespace kina::bench
