// The library's own record of a tensor, and the struct that callers see.
#pragma once

#include "impl/core/storage.h"

namespace kina {

// What a live handle means. Callers see a copy of it; nothing that they change is acted on. Four arrays of `ndim`
// entries stand behind the object: extents and strides as the library knows them, then the two that dl.shape and
// dl.strides point to.
struct TensorRecord {
  uint64_t handle = 0;  // its name
  Hold storage;
  Device* device;   // where work on it runs; not the storage's device for PEER tensors
  uint64_t stream;  // handle of the stream it was created on
  std::byte* data;  // element 0
  uint32_t flags;
  KinaDtype dtype;
  int32_t ndim;
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

  // Memory for a record of `ndim` axes, and a slot for its name. Throws OUT_OF_MEMORY.
  struct Room {
    void* block;
    uint32_t slot;
  };
  static Room take_room(int32_t ndim, ThreadCache* own);
  // The record of a tensor with all that it knows but its name.
  TensorRecord(Hold&& bytes, Device& where, uint64_t on, uint32_t tensor_flags, const View& view) noexcept
      : storage(std::move(bytes)),
        device(&where),
        stream(on),
        data(view.data),
        flags(tensor_flags),
        dtype(view.dtype),
        ndim(view.geometry.ndim) {
    int64_t* entry = arrays();
    for (int32_t axis = 0; axis < ndim; ++axis, ++entry) {
      const int64_t extent = view.geometry.extents[axis], stride = view.geometry.strides[axis];
      entry[0] = entry[2 * ndim] = extent;
      entry[ndim] = entry[3 * ndim] = stride;
      is_empty |= extent == 0;
      keep_loop();
    }
  }
  static void destroy(TensorRecord* record, ThreadCache* own) noexcept {
    const size_t bytes = bytes_for(record->ndim);
    record->~TensorRecord();
    give_block(record, bytes, own);
  }

  int64_t* arrays() noexcept { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* arrays() const noexcept { return reinterpret_cast<const int64_t*>(this + 1); }

 private:
  static size_t bytes_for(int32_t ndim) noexcept {
    return sizeof(TensorRecord) + 4 * sizeof(int64_t) * static_cast<size_t>(ndim);
  }
};

inline HandleTable<TensorRecord>& tensors() { return TheTable<TensorRecord, Kind::tensor>::get(); }
inline SlotCache* tensor_slots(ThreadCache* own) noexcept { return own == nullptr ? nullptr : &own->tensor_slots; }

inline TensorRecord::Room TensorRecord::take_room(int32_t ndim, ThreadCache* own) {
  void* block = take_block(bytes_for(ndim), own);
  try {
    return {block, tensors().take_slot(tensor_slots(own))};
  } catch (...) {
    give_block(block, bytes_for(ndim), own);
    throw;
  }
}

// The record of a live handle, else NULL.
inline const TensorRecord* find_tensor(uint64_t handle) noexcept { return tensors().find(handle); }

// Ends the tensor that `handle` names and hands over its hold; none when it was not live.
inline Hold take_tensor(uint64_t handle) noexcept {
  ThreadCache* const own = t_cache;
  TensorRecord* record = tensors().remove(handle, tensor_slots(own));
  if (record == nullptr) [[unlikely]]
    return Hold();
  Hold storage = std::move(record->storage);
  TensorRecord::destroy(record, own);
  return storage;
}

// A tensor that is being made: its record, and a handle that dies with this object unless `publish` is called. Every
// maker has this in itself: a tensor costs little more than the stores into its record and its struct.
class NewTensor {
 public:
  // `view` lies inside `storage`; where its strides can map two indices to one element `flags` have READ_ONLY. Throws
  // OUT_OF_MEMORY.
  [[gnu::always_inline]] NewTensor(Hold&& storage, Device& device, uint64_t stream, uint32_t flags, const View& view) {
    ThreadCache* const own = t_cache;
    const TensorRecord::Room room = TensorRecord::take_room(view.geometry.ndim, own);
    record_ = new (room.block) TensorRecord(std::move(storage), device, stream, flags, view);
    record_->handle = tensors().insert(room.slot, record_, tensor_slots(own));
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
