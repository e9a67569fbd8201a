// Entry points of the tensor chapter.
#include "impl/api/arguments.h"
#include "impl/api/boundary.h"

using namespace kina;

KinaStatus runtime_alloc(KinaTensor* out, const int64_t* shape, int32_t ndim, KinaDtype dtype, int32_t device_type,
                         int32_t device_id, KinaStream stream) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    StreamArgument ordered(stream, {7, "stream"}, Null::allowed);
    require<Message::null_pointer>(shape != nullptr || ndim <= 0, "KINA-STATUS-23", {2, "shape"}, "shape");
    dereference(made, ordered);
    View view;
    const DtypeRow* row = find_dtype(dtype);
    view.geometry = checked_geometry(shape, nullptr, ndim, row == nullptr ? 1 : row->bytes, {2, "shape"});
    view.dtype = require_dtype(dtype, {4, "dtype"}).dtype;
    Device& device = require_device(device_type, device_id, {5, "device_type"}, {6, "device_id"});
    require<Message::device_mismatch>(!ordered || &ordered->device() == &device, "KINA-TENSOR-31", {7, "stream"}, "stream",
                                      ordered ? ordered->device().type() : 0, ordered ? ordered->device().id() : 0,
                                      device_type, device_id);
    Stream& place = ordered ? *ordered : current_stream(device);
    const uint64_t bytes = static_cast<uint64_t>(view.geometry.count()) * bytes_of(dtype);
    Ref<Storage> storage = Storage::allocate(current_resource(device), bytes, place);
    view.data = storage->data();
    NewTensor(std::move(storage), device, place.handle, KINA_FLAG_OWNED, view).publish(*made);
  });
}

KinaStatus runtime_free(KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Output freed(tensor, {1, "tensor"});
    freed.present();
    if (freed.is_empty()) return;
    if (tensor->handle == 0) {
      freed.resolve();
    } else {
      require<Message::stale_tensor>(end_tensor(tensor->handle), "KINA-TENSOR-4", {1, "tensor"}, "tensor");
    }
    *tensor = KINA_TENSOR_INIT;
  });
}
