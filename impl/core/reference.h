// What weak references and peer handles name: a storage, and the tensor on it that they were made of.
#pragma once

#include "impl/core/operand.h"

namespace kina {

// Keeps the record of the storage, not its bytes. A peer handle adds a hold of its own.
class TensorReference final : public Counted {
 public:
  // `tensor` is not borrowed.
  explicit TensorReference(const Operand& tensor);

  Storage& storage() const noexcept { return *storage_; }
  // A tensor like the one this was made of. INVALID_HANDLE under `clause` when nobody holds the storage any more.
  NewTensor open(const char* clause, Argument argument) const;
  // The same for work on another device, which reaches the owner's bytes as a peer.
  NewTensor open_on(Device& device, const char* clause, Argument argument) const;

 private:
  ~TensorReference() override = default;
  Hold hold(const char* clause, Argument argument) const;

  Ref<Storage> storage_;
  Device& device_;
  uint64_t stream_;
  uint32_t flags_;
  View view_;
};

inline HandleTable<TensorReference>& weak_references() { return TheTable<TensorReference, Kind::weak>::get(); }
inline HandleTable<TensorReference>& peers() { return TheTable<TensorReference, Kind::peer>::get(); }

// A reference to what a live name stands for, else none.
inline Ref<TensorReference> look_up(const HandleTable<TensorReference>& table, uint64_t handle) {
  return table.acquire(handle);
}

}  // namespace kina
