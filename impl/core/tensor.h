// The library's own record of a tensor, and the struct that callers see.
#pragma once

#include "impl/core/storage.h"

namespace kina {

// What a live handle means. Callers see a copy of it; nothing that they change is acted on. Four arrays of `ndim`
// entries stand behind the object: extents and strides as the library knows them, then the two that dl.shape and
// dl.strides point to.
struct TensorRecord {
  uint64_t handle = 0;
  Hold storage;
  Device* device = nullptr;   // where work on it runs; not the storage's device for PEER tensors
  uint64_t stream = 0;        // handle of the stream it was created on
  std::byte* data = nullptr;  // element 0
  uint32_t flags = 0;
  KinaDtype dtype = 0;
  int32_t ndim = 0;
  bool is_empty = false;

  void show(View& view) const noexcept {
    view.data = data;
    view.dtype = dtype;
    view.geometry.assign(ndim, arrays(), arrays() + ndim);
  }
  View view() const noexcept {
    View shown;
    show(shown);
    return shown;
  }
  // The struct as callers see it.
  void write(KinaTensor& out) noexcept {
    const bool has_bytes = storage->data() != nullptr && !is_empty;
    const bool has_axes = ndim != 0;
    const Resource* resource = storage->resource();
    out.dl.data = has_bytes ? storage->data() : nullptr;
    out.dl.device = storage->shown_on(*device);
    out.dl.ndim = ndim;
    out.dl.dtype = dlpack_of(dtype);
    out.dl.shape = has_axes ? arrays() + 2 * ndim : nullptr;
    out.dl.strides = has_axes ? arrays() + 3 * ndim : nullptr;
    out.dl.byte_offset = has_bytes ? static_cast<uint64_t>(data - storage->data()) : 0;
    out.allocator = resource == nullptr ? nullptr : handle_of<KinaResource>(resource->handle);
    out.stream = handle_of<KinaStream>(stream);
    out.size_bytes = storage->bytes();
    out.flags = flags;
    out.magic = KINA_TENSOR_MAGIC;
    out.handle = handle;
    out.reserved = 0;
  }

  // A record with its arrays filled. Throws bad_alloc.
  static TensorRecord* make(const Geometry& geometry) {
    const int32_t ndim = geometry.ndim;
    auto* made = new (take_block(bytes_for(ndim))) TensorRecord;
    made->ndim = ndim;
    int64_t* entry = made->arrays();
    for (int32_t axis = 0; axis < ndim; ++axis, ++entry) {
      entry[0] = entry[2 * ndim] = geometry.extents[axis];
      entry[ndim] = entry[3 * ndim] = geometry.strides[axis];
      made->is_empty |= geometry.extents[axis] == 0;
      keep_loop();
    }
    return made;
  }
  static void destroy(TensorRecord* record) noexcept {
    const size_t bytes = bytes_for(record->ndim);
    record->~TensorRecord();
    give_block(record, bytes);
  }

  int64_t* arrays() noexcept { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* arrays() const noexcept { return reinterpret_cast<const int64_t*>(this + 1); }

 private:
  static size_t bytes_for(int32_t ndim) noexcept {
    return sizeof(TensorRecord) + 4 * sizeof(int64_t) * static_cast<size_t>(ndim);
  }
};

inline HandleTable<TensorRecord>& tensors() {
  static auto& table = *new HandleTable<TensorRecord>(Kind::tensor);
  return table;
}
inline SlotCache* tensor_slots() noexcept { return t_cache == nullptr ? nullptr : &t_cache->tensor_slots; }

// The record of a live handle, else NULL.
inline const TensorRecord* find_tensor(uint64_t handle) noexcept { return tensors().find(handle); }

// Ends the tensor that `handle` names and hands over its hold; none when it was not live.
inline Hold take_tensor(uint64_t handle) noexcept {
  TensorRecord* record = tensors().remove(handle, tensor_slots());
  if (record == nullptr) [[unlikely]]
    return Hold();
  Hold storage = std::move(record->storage);
  TensorRecord::destroy(record);
  return storage;
}

// A tensor that is being made: its record, and a handle that dies with this object unless `publish` is called. Every
// maker has this in itself: a tensor costs little more than the stores into its record and its struct.
class NewTensor {
 public:
  // `view` lies inside `storage`; where its strides can map two indices to one element `flags` have READ_ONLY. Throws
  // OUT_OF_MEMORY.
  NewTensor(Hold storage, Device& device, uint64_t stream, uint32_t flags, const View& view)
      : record_(TensorRecord::make(view.geometry)) {
    record_->device = &device;
    record_->stream = stream;
    record_->data = view.data;
    record_->flags = flags;
    record_->dtype = view.dtype;
    try {
      record_->handle = tensors().insert(record_, tensor_slots());
    } catch (...) {
      TensorRecord::destroy(record_);
      throw;
    }
    record_->storage = std::move(storage);
  }
  NewTensor(const NewTensor&) = delete;
  NewTensor& operator=(const NewTensor&) = delete;
  ~NewTensor() {
    if (record_ != nullptr) take_tensor(record_->handle);
  }

  const TensorRecord& record() const noexcept { return *record_; }
  // Writes the struct; the tensor is live from here on.
  void publish(KinaTensor& out) noexcept { std::exchange(record_, nullptr)->write(out); }

 private:
  TensorRecord* record_;
};

// READ_ONLY where strides can map two different indices to one element.
inline uint32_t layout_flags(const Geometry& geometry) noexcept {
  return has_self_overlap(geometry) ? uint32_t{KINA_FLAG_READ_ONLY} : 0U;
}
inline uint32_t layout_flags(const Geometry& geometry, const Reach& checked) noexcept {
  return checked.is_nested ? 0U : layout_flags(geometry);
}

// Flags of what is derived from a tensor with `flags`: OWNED becomes VIEW.
constexpr uint32_t view_flags(uint32_t flags) noexcept {
  return (flags & KINA_FLAG_OWNED) != 0 ? (flags & ~uint32_t{KINA_FLAG_OWNED}) | KINA_FLAG_VIEW : flags;
}

}  // namespace kina
