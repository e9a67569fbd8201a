// References to storages, and their names.
#include "impl/core/reference.h"

namespace kina {

TensorReference::TensorReference(const Operand& tensor)
    : storage_(Ref<Storage>::share(tensor.storage())),
      device_(tensor.device()),
      stream_(tensor.stream()),
      flags_(tensor.flags()),
      view_(tensor.view()) {}

NewTensor TensorReference::open(const char* clause, Argument argument) const {
  require<Message::storage_gone>(storage_->try_hold(), clause, argument, argument.name);
  return {storage_, device_, stream_, flags_, view_};
}

HandleTable<TensorReference>& weak_references() {
  static auto& table = *new HandleTable<TensorReference>(Kind::weak);
  return table;
}

HandleTable<TensorReference>& peers() {
  static auto& table = *new HandleTable<TensorReference>(Kind::peer);
  return table;
}

}  // namespace kina
