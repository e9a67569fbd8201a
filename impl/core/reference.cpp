// References to storages, and their names.
#include "impl/core/reference.h"

namespace kina {

TensorReference::TensorReference(const Operand& tensor)
    : storage_(tensor.record()->storage->watch()),
      device_(tensor.device()),
      stream_(tensor.stream()),
      flags_(tensor.flags()),
      view_(tensor.view()) {}

Hold TensorReference::hold(const char* clause, Argument argument) const {
  Hold held = storage_->try_hold();
  require<Message::storage_gone>(static_cast<bool>(held), clause, argument, argument.name);
  return held;
}

NewTensor TensorReference::open(const char* clause, Argument argument) const {
  return {hold(clause, argument), device_, stream_, flags_, view_};
}

NewTensor TensorReference::open_on(Device& device, const char* clause, Argument argument) const {
  if (&device == &storage_->device()) return open(clause, argument);
  const uint32_t flags = KINA_FLAG_VIEW | KINA_FLAG_PEER | (flags_ & KINA_FLAG_READ_ONLY);
  return {hold(clause, argument), device, current_stream(device).handle, flags, view_};
}

}  // namespace kina
