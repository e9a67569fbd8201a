// Tensors as a call meets them: inputs, and outputs that may still have to be made.
#pragma once

#include <cstring>

#include "impl/core/device.h"
#include "impl/core/tensor.h"

namespace kina {

// Word by word: the caller may just have written single words, and a wider load waits until they are in the cache.
inline bool is_all_zero(const KinaTensor& tensor) noexcept {
  uint64_t seen = 0;
  for (size_t at = 0; at < sizeof(tensor); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&tensor) + at, sizeof(word));
    seen |= word;
    keep_loop();
  }
  return seen == 0;
}

// By vectors: a string instruction takes as long to start as the rest of a free.
inline void make_empty(KinaTensor& tensor) noexcept {
  using Vector [[gnu::vector_size(16)]] = uint64_t;
  constexpr Vector kZero{};
  for (size_t at = 0; at < sizeof(tensor); at += sizeof(kZero)) {
    std::memcpy(reinterpret_cast<std::byte*>(&tensor) + at, &kZero, sizeof(kZero));
    keep_loop();
  }
}

// NULL, magic, and whether the struct is the empty tensor.
bool is_empty_unless_broken(const KinaTensor* tensor, Argument argument);
inline bool is_empty_struct(const KinaTensor* tensor, Argument argument) {
  if (tensor != nullptr && tensor->magic == KINA_TENSOR_MAGIC) [[likely]]
    return false;
  return is_empty_unless_broken(tensor, argument);
}

// A tensor argument in four steps, one per error tier: present (NULL, magic, empty), resolve (the handle), validate
// (what a borrowed tensor says about itself), offer (that its dtype and device exist). After that it is plain data.
class Operand {
 public:
  Operand(const KinaTensor* tensor, Argument argument) : tensor_(tensor), argument_(argument) {}

  void present() const {
    const bool is_usual = tensor_ != nullptr && tensor_->magic == KINA_TENSOR_MAGIC && tensor_->handle != 0;
    if (!is_usual) [[unlikely]]
      present_unusual();
  }
  void resolve() {
    if (tensor_->handle == 0) [[unlikely]]
      return resolve_borrowed();
    record_ = find_tensor(tensor_->handle);
    require<Message::stale_tensor>(record_ != nullptr, "KINA-TENSOR-4", argument_, argument_.name);
    record_->show(view_);
    device_ = record_->device;
    flags_ = record_->flags;
    stream_ = record_->stream;
  }
  void validate() {
    if (record_ == nullptr) [[unlikely]]
      validate_borrowed();
  }
  void offer() const {
    if (record_ == nullptr) [[unlikely]]
      offer_borrowed();
  }

  const View& view() const noexcept { return view_; }
  const Geometry& geometry() const noexcept { return view_.geometry; }
  KinaDtype dtype() const noexcept { return view_.dtype; }
  Device& device() const noexcept { return *device_; }
  // The device that it names, known before `offer` has found that it exists.
  DLDevice place() const noexcept { return record_ == nullptr ? tensor_->dl.device : device_->name(); }
  uint32_t flags() const noexcept { return flags_; }
  bool is_borrowed() const noexcept { return record_ == nullptr; }
  bool is_peer() const noexcept { return (flags_ & KINA_FLAG_PEER) != 0; }
  // Nothing orders accesses to its bytes but what the caller asks for [KINA-STREAM-38].
  bool is_ordered_by_caller() const noexcept { return is_peer() || is_borrowed() || storage()->is_foreign(); }
  // NULL for borrowed tensors.
  Storage* storage() const noexcept { return record_ == nullptr ? nullptr : record_->storage.get(); }
  const TensorRecord* record() const noexcept { return record_; }
  // The stream that the tensor was created on; NULL when it names no live stream.
  uint64_t stream() const noexcept { return stream_; }
  const KinaTensor& tensor() const noexcept { return *tensor_; }
  Argument argument() const noexcept { return argument_; }

  // Its failed bytes from the lowest one on; without a claim when there is none.
  FailedRange failure(Look look) const;
  // Entries that its shape has according to the struct: what a parameter of as many entries goes by before handles
  // count.
  int32_t declared_ndim() const noexcept { return tensor_ == nullptr ? 0 : tensor_->dl.ndim; }
  // From here on only these of its elements count.
  void narrow(const View& view) noexcept { view_ = view; }

 protected:
  const KinaTensor* tensor_;
  Argument argument_;

 private:
  void present_unusual() const;
  void resolve_borrowed();
  void validate_borrowed();
  void offer_borrowed() const;
  void validate_elements(const DtypeRow& row, const Span& span) const;

  const TensorRecord* record_ = nullptr;
  Device* device_ = nullptr;
  View view_;
  uint32_t flags_ = 0;
  uint64_t stream_ = 0;
};

// A tensor parameter that must hold a tensor.
using Input = Operand;

// Whether `out` may be exactly an input.
enum class InPlace : uint8_t { refused, allowed };

// The `out` of an operation: an empty struct to be filled, or a tensor to be written.
class Output : public Operand {
 public:
  Output(KinaTensor* tensor, Argument argument) : Operand(tensor, argument), out_(tensor) {}

  void present() {
    is_empty_ = is_empty_struct(tensor_, argument_);
    if (!is_empty_) Operand::present();
  }
  void resolve() {
    if (!is_empty_) Operand::resolve();
  }
  void validate() {
    if (!is_empty_) Operand::validate();
  }
  void offer() const {
    if (!is_empty_) Operand::offer();
  }

  bool is_empty() const noexcept { return is_empty_; }
  KinaTensor& struct_() const noexcept { return *out_; }

  // A non-empty `out` has this shape, dtype and device, and may be written.
  void demand(const Geometry& shape, KinaDtype dtype, const Device& device) const;
  // A non-empty `out` shares no byte with `input`, except exactly all of them where that is allowed.
  void refuse_overlap(const Operand& input, InPlace in_place) const {
    if (is_empty_) return;
    const auto is_ours = [](const Storage* held) {
      return held != nullptr && held->origin() == StorageOrigin::allocated;
    };
    if (storage() != input.storage() && is_ours(storage()) && is_ours(input.storage())) return;
    refuse_overlap_in_memory(input, in_place);
  }

 private:
  void refuse_overlap_in_memory(const Operand& input, InPlace in_place) const;

  KinaTensor* out_;
  bool is_empty_ = false;
};

// The out of a maker of tensors: must be empty.
class MadeTensor {
 public:
  MadeTensor(KinaTensor* tensor, Argument argument) : out_(tensor), argument_(argument) {}
  void present() const { require<Message::null_pointer>(out_ != nullptr, "KINA-STATUS-23", argument_, argument_.name); }
  void resolve() const {}
  void validate() const {
    require<Message::out_not_empty>(is_all_zero(*out_), "KINA-TENSOR-27", argument_, argument_.name);
  }
  KinaTensor& operator*() const noexcept { return *out_; }

 private:
  KinaTensor* out_;
  Argument argument_;
};

// What is thrown for an operand that carries `root`.
Error failed_input(Argument argument, const Failure& root, const char* clause);

// The host looks at the operand: answers FAILED_INPUT under `clause` when a byte under its elements is failed.
void refuse_failed_bytes(const Operand& operand, const char* clause);
inline void refuse_failed(const Operand& operand, const char* clause) {
  if (operand.storage() != nullptr && !operand.storage()->is_clean()) [[unlikely]]
    refuse_failed_bytes(operand, clause);
}

// A tensor on the bytes of `in`: its geometry is `view`; READ_ONLY is among its flags where strides demand it. A
// borrowed `in` lends its bytes to it.
NewTensor tensor_on_borrowed(const Operand& in, const View& view, uint32_t flags);
[[gnu::always_inline]] inline NewTensor tensor_on(const Operand& in, const View& view, uint32_t flags) {
  if (in.is_borrowed()) [[unlikely]]
    return tensor_on_borrowed(in, view, flags);
  return {in.storage()->hold(), in.device(), in.stream(), flags, view};
}

// Operands do not name two devices of which one is absent: that is DEVICE_MISMATCH first. Present ones are compared
// later.
void compare_places(const Operand& a, const Operand& b, const char* clause);
inline void require_same_place(const Operand& a, const Operand& b, const char* clause) {
  const bool is_same = !a.is_borrowed() && !b.is_borrowed() && &a.device() == &b.device();
  if (!is_same) [[unlikely]]
    compare_places(a, b, clause);
}

// Operands live on one device, else DEVICE_MISMATCH.
[[noreturn]] void refuse_other_device(const Operand& a, const Operand& b);
inline void require_same_device(const Operand& a, const Operand& b) {
  if (&a.device() != &b.device()) [[unlikely]]
    refuse_other_device(a, b);
}

}  // namespace kina
