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
  bool is_empty() const noexcept {
    for (int32_t axis = 0; axis < ndim; ++axis)
      if (arrays()[axis] == 0) return true;
    return false;
  }
  int64_t* arrays() noexcept { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* arrays() const noexcept { return reinterpret_cast<const int64_t*>(this + 1); }
};

// A tensor that is being made: its record, and a handle that dies with this object unless `publish` is called.
class NewTensor {
 public:
  // `view` lies inside `storage`; where its strides can map two indices to one element `flags` have READ_ONLY. Throws
  // OUT_OF_MEMORY.
  NewTensor(Hold storage, Device& device, uint64_t stream, uint32_t flags, const View& view);
  NewTensor(const NewTensor&) = delete;
  NewTensor& operator=(const NewTensor&) = delete;
  ~NewTensor();

  const TensorRecord& record() const noexcept { return *record_; }
  // Writes the struct; the tensor is live from here on.
  void publish(KinaTensor& out) noexcept;

 private:
  TensorRecord* record_;
};

inline HandleTable<TensorRecord>& tensors() {
  static auto& table = *new HandleTable<TensorRecord>(Kind::tensor);
  return table;
}

// The record of a live handle, else NULL.
inline const TensorRecord* find_tensor(uint64_t handle) noexcept { return tensors().find(handle); }

// Ends the tensor that `handle` names and hands over its hold; none when it was not live.
Hold take_tensor(uint64_t handle) noexcept;

// READ_ONLY where strides can map two different indices to one element.
inline uint32_t layout_flags(const Geometry& geometry) noexcept {
  return has_self_overlap(geometry) ? uint32_t{KINA_FLAG_READ_ONLY} : 0U;
}

// Flags of what is derived from a tensor with `flags`: OWNED becomes VIEW.
constexpr uint32_t view_flags(uint32_t flags) noexcept {
  return (flags & KINA_FLAG_OWNED) != 0 ? (flags & ~uint32_t{KINA_FLAG_OWNED}) | KINA_FLAG_VIEW : flags;
}

}  // namespace kina
