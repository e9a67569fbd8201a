// Entry points of the movement chapter.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/operation.h"

using namespace kina;

namespace {

constexpr Argument kOut{1, "out"}, kIn{2, "in"};

// Copies into a tensor of `target`. Host and accelerator ends meet here: the device of the work is the one that is not
// the host.
void copy(const Call& call, Output& out, const Input& in, Device& target) {
  out.demand(in.geometry(), in.dtype(), target);
  out.refuse_overlap(in, InPlace::refused);
  Device& execution = target.backend().is_asynchronous() ? target : in.device();
  Operation operation(call.function, out, {&in}, in.geometry(), in.dtype(), target, execution);
  operation.run(execution.backend().copy(in.dtype()), CopyArgs{operation.out(), in.view()});
  operation.commit();
}

// There is no device of this type: an `out` that exists lies elsewhere, which is found first.
[[noreturn]] void refuse_absent(const Output& out, int32_t device_type, const char* mismatch, const char* absent,
                                Argument argument) {
  require<Message::device_mismatch>(out.is_empty(), mismatch, kOut, kOut.name, out.place(), device_of(device_type, 0));
  refuse_device_type(device_type, absent, argument);
}

}  // namespace

KinaStatus runtime_copy_to_device(KinaTensor* out, const KinaTensor* in, int32_t device_id) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference(result, source);
    const int32_t type = device_count(kDLCUDA) > 0 ? kDLCUDA : kDLExtDev;
    if (device_count(type) == 0) refuse_absent(result, type, "KINA-MOVEMENT-5", "KINA-MOVEMENT-4", {});
    copy(call, result, source, require_device(type, device_id, {}, {3, "device_id"}));
  });
}

KinaStatus runtime_copy_to_host(KinaTensor* out, const KinaTensor* in) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference_values(result, source);
    const int32_t place = result.is_empty() ? kDLCPU : result.place().device_type;
    const bool may_be_host =
        place == kDLCPU || place == kDLCUDAHost || place == kDLCUDAManaged || device_count(place) > 0;
    require<Message::device_mismatch>(may_be_host, "KINA-TENSOR-26", kOut, kOut.name, result.place(),
                                      device_of(kDLCPU, 0));
    (offer(result), offer(source));
    copy(call, result, source, host_device());
  });
}

KinaStatus runtime_copy(KinaTensor* out, const KinaTensor* in, int32_t device_type, int32_t device_id) {
  return boundary(__func__, [&](const Call& call) {
    Output result(out, kOut);
    Input source(in, kIn);
    dereference(result, source);
    if (device_count(device_type) == 0)
      refuse_absent(result, device_type, "KINA-MOVEMENT-10", "KINA-STATUS-24", {3, "device_type"});
    copy(call, result, source, require_device(device_type, device_id, {3, "device_type"}, {4, "device_id"}));
  });
}
