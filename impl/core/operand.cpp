// From a KinaTensor pointer to checked data.
#include "impl/core/operand.h"

namespace kina {

bool is_empty_unless_broken(const KinaTensor* tensor, Argument argument) {
  require<Message::null_pointer>(tensor != nullptr, "KINA-STATUS-23", argument, argument.name);
  require<Message::bad_magic>(tensor->magic == 0, "KINA-TENSOR-3", argument, argument.name, tensor->magic);
  require<Message::dirty_empty>(is_all_zero(*tensor), "KINA-TENSOR-3", argument, argument.name);
  return true;
}

void Operand::present_unusual() const {
  require<Message::empty_input>(!is_empty_struct(tensor_, argument_), "KINA-TENSOR-2", argument_, argument_.name);
  require<Message::borrowed_null_shape>(tensor_->dl.ndim <= 0 || tensor_->dl.shape != nullptr, "KINA-TENSOR-19",
                                        argument_, argument_.name, tensor_->dl.ndim);
}

void Operand::resolve_borrowed() {
  const uint32_t known = KINA_FLAG_BORROWED | KINA_FLAG_READ_ONLY;
  require<Message::bad_borrowed>((tensor_->flags & ~known) == 0 && (tensor_->flags & KINA_FLAG_BORROWED) != 0 &&
                                     tensor_->allocator == nullptr && tensor_->reserved == 0,
                                 "KINA-TENSOR-23", argument_, argument_.name);
  flags_ = tensor_->flags;
  stream_ = value_of(tensor_->stream);
}

void Operand::validate_borrowed() {
  const DLTensor& dl = tensor_->dl;
  const DtypeRow* row = find_dtype(dtype_of(dl.dtype));
  view_.dtype = dtype_of(dl.dtype);
  const Reach reach =
      check_geometry(view_.geometry, dl.shape, dl.strides, dl.ndim, row == nullptr ? 1 : row->bytes, argument_);
  // A number until the hull is known to lie inside: no pointer goes beyond what the caller has.
  view_.data = reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(dl.data) + dl.byte_offset);
  flags_ |= layout_flags(view_.geometry, reach);
  const bool has_elements = !view_.geometry.is_empty();
  require<Message::borrowed_null_data>(dl.data != nullptr || !has_elements, "KINA-TENSOR-20", argument_,
                                       argument_.name);
  if (row != nullptr && has_elements) validate_elements(*row, reach.span);
  if (device_count(dl.device.device_type) > 0)
    device_ = &require_device(dl.device.device_type, dl.device.device_id, argument_, argument_);
}

// Where the elements of a borrowed tensor lie.
void Operand::validate_elements(const DtypeRow& row, const Span& span) const {
  const uint64_t offset = tensor_->dl.byte_offset;
  const uint64_t bytes = tensor_->size_bytes;
  require<Message::borrowed_misaligned>((reinterpret_cast<uint64_t>(view_.data) & (row.alignment - 1)) == 0,
                                        "KINA-TENSOR-22", argument_, argument_.name, row.alignment);
  const uint64_t before = static_cast<uint64_t>(-span.low) * row.bytes;
  const uint64_t behind = static_cast<uint64_t>(span.high + 1) * row.bytes;
  const bool is_inside = before <= offset && offset <= bytes && behind <= bytes - offset;
  require<Message::borrowed_outside>(is_inside, "KINA-TENSOR-21", argument_, argument_.name, bytes);
}

void Operand::offer_borrowed() const {
  require_dtype(view_.dtype, argument_);
  require_device(tensor_->dl.device.device_type, tensor_->dl.device.device_id, argument_, argument_);
}

FailedRange Operand::failure(Look look) const {
  const Storage* held = storage();
  return held == nullptr ? FailedRange() : held->failure_in(view_, look);
}

Error failed_input(Argument argument, const Failure& root, const char* clause) {
  const char* name = argument.name == nullptr ? "an input" : argument.name;
  Error error = make_error<Message::failed_input>(clause, argument, name, root.id, root.function, root.message());
  error.failure = root.id;
  return error;
}

void refuse_failed_bytes(const Operand& operand, const char* clause) {
  const FailedRange failed = operand.failure(Look::all);
  if (failed.claim) [[unlikely]]
    throw failed_input(operand.argument(), *failed.claim->root, clause);
}

NewTensor tensor_on_borrowed(const Operand& in, const View& view, uint32_t flags) {
  Device& device = in.device();
  Stream* named = streams().find(in.stream());
  Stream& stream = named && &named->device() == &device ? *named : device.main();
  const KinaTensor& tensor = in.tensor();
  return {hold_borrowed(device, tensor.dl.data, tensor.size_bytes, stream), device, stream.handle, flags, view};
}

void Output::demand(const Geometry& shape, KinaDtype wanted, const Device& place) const {
  if (is_empty_) return;
  if (!same_shape(geometry(), shape))
    refuse<Message::shape_mismatch>("KINA-TENSOR-26", argument_, argument_.name, ShapeText(geometry()),
                                    ShapeText(shape));
  if (dtype() != wanted)
    refuse<Message::dtype_mismatch>("KINA-TENSOR-26", argument_, argument_.name, name_of(dtype()), name_of(wanted));
  require<Message::device_mismatch>(&device() == &place, "KINA-TENSOR-26", argument_, argument_.name, device().name(),
                                    place.name());
  require<Message::read_only>((flags() & KINA_FLAG_READ_ONLY) == 0, "KINA-TENSOR-14", argument_, argument_.name);
}

void Output::refuse_overlap_in_memory(const Operand& input, InPlace in_place) const {
  if (view().geometry.is_empty() || &device() != &input.device()) return;
  const Hull mine = hull_of(view());
  const Hull theirs = hull_of(input.view());
  if (mine.first >= theirs.last || theirs.first >= mine.last) return;
  const bool is_exact = view().data == input.view().data && bytes_of(dtype()) == bytes_of(input.dtype()) &&
                        same_layout(geometry(), input.geometry());
  require<Message::overlap>(is_exact && in_place == InPlace::allowed, "KINA-TENSOR-30", argument_, argument_.name,
                            input.argument().name);
}

void compare_places(const Operand& a, const Operand& b, const char* clause) {
  const DLDevice here = a.place(), there = b.place();
  if (here.device_type == there.device_type && here.device_id == there.device_id) return;
  const auto is_absent = [](const DLDevice& device) {
    return device_count(device.device_type) == 0 && device.device_type != kDLCUDAHost &&
           device.device_type != kDLCUDAManaged;
  };
  const bool counts = is_absent(here) || is_absent(there);
  require<Message::device_mismatch>(!counts, clause, b.argument(), b.argument().name, there, here);
}

void refuse_other_device(const Operand& a, const Operand& b) {
  refuse<Message::device_mismatch>("KINA-TENSOR-31", b.argument(), b.argument().name, b.device().name(),
                                   a.device().name());
}

}  // namespace kina
