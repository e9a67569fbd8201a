// The table of live tensors.
#include "impl/core/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "impl/core/device.h"
#include "impl/core/thread_cache.h"

namespace kina {
namespace {

SlotCache* slot_cache() noexcept { return t_cache == nullptr ? nullptr : &t_cache->tensor_slots; }

size_t record_bytes(int32_t ndim) noexcept {
  return sizeof(TensorRecord) + 4 * sizeof(int64_t) * static_cast<size_t>(ndim);
}

TensorRecord* make_record(int32_t ndim) { return new (take_block(record_bytes(ndim))) TensorRecord; }

void destroy_record(TensorRecord* record) noexcept {
  const size_t bytes = record_bytes(record->ndim);
  record->~TensorRecord();
  give_block(record, bytes);
}

}  // namespace

NewTensor::NewTensor(Hold storage, Device& device, uint64_t stream, uint32_t flags, const View& view)
    : record_(make_record(view.geometry.ndim)) {
  record_->ndim = view.geometry.ndim;
  record_->device = &device;
  record_->stream = stream;
  record_->flags = flags;
  record_->data = view.data;
  record_->dtype = view.dtype;
  int64_t* entry = record_->arrays();
  const int32_t ndim = view.geometry.ndim;
  for (int32_t axis = 0; axis < ndim; ++axis, ++entry) {
    entry[0] = entry[2 * ndim] = view.geometry.extents[axis];
    entry[ndim] = entry[3 * ndim] = view.geometry.strides[axis];
    keep_loop();
  }
  try {
    record_->handle = tensors().insert(record_, slot_cache());
  } catch (...) {
    destroy_record(record_);
    throw;
  }
  record_->storage = std::move(storage);
}

NewTensor::~NewTensor() {
  if (record_ != nullptr) take_tensor(record_->handle);
}

void NewTensor::publish(KinaTensor& out) noexcept {
  TensorRecord& record = *std::exchange(record_, nullptr);
  const Storage& storage = *record.storage;
  const bool has_bytes = storage.data() != nullptr && !record.is_empty();
  const bool has_axes = record.ndim != 0;
  out.dl.data = has_bytes ? storage.data() : nullptr;
  out.dl.device = storage.shown_on(*record.device);
  out.dl.ndim = record.ndim;
  out.dl.dtype = dlpack_of(record.dtype);
  out.dl.shape = has_axes ? record.arrays() + 2 * record.ndim : nullptr;
  out.dl.strides = has_axes ? record.arrays() + 3 * record.ndim : nullptr;
  out.dl.byte_offset = has_bytes ? static_cast<uint64_t>(record.data - storage.data()) : 0;
  out.allocator = storage.resource() == nullptr ? nullptr : handle_of<KinaResource>(storage.resource()->handle);
  out.stream = handle_of<KinaStream>(record.stream);
  out.size_bytes = storage.bytes();
  out.flags = record.flags;
  out.magic = KINA_TENSOR_MAGIC;
  out.handle = record.handle;
  out.reserved = 0;
}

Hold take_tensor(uint64_t handle) noexcept {
  TensorRecord* record = tensors().remove(handle, slot_cache());
  if (record == nullptr) return Hold();
  Hold storage = std::move(record->storage);
  destroy_record(record);
  return storage;
}

}  // namespace kina
