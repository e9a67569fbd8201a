// From a KinaTensor pointer to checked data.
#include "impl/core/operand.h"

#include <cstring>

namespace kina {
namespace {

bool is_all_zero(const KinaTensor& tensor) noexcept {
  uint64_t words[sizeof(tensor) / sizeof(uint64_t)];
  std::memcpy(words, &tensor, sizeof(words));
  uint64_t seen = 0;
  for (const uint64_t word : words) seen |= word;
  return seen == 0;
}

// NULL, magic, and whether the struct is the empty tensor.
bool is_empty_struct(const KinaTensor* tensor, Argument argument) {
  require<Message::null_pointer>(tensor != nullptr, "KINA-STATUS-23", argument, argument.name);
  if (tensor->magic == KINA_TENSOR_MAGIC) [[likely]]
    return false;
  require<Message::bad_magic>(tensor->magic == 0, "KINA-TENSOR-3", argument, argument.name, tensor->magic);
  require<Message::dirty_empty>(is_all_zero(*tensor), "KINA-TENSOR-3", argument, argument.name);
  return true;
}

}  // namespace

void Operand::present() const {
  require<Message::empty_input>(!is_empty_struct(tensor_, argument_), "KINA-TENSOR-2", argument_, argument_.name);
  if (tensor_->handle != 0) return;
  require<Message::borrowed_null_shape>(tensor_->dl.ndim <= 0 || tensor_->dl.shape != nullptr, "KINA-TENSOR-19",
                                        argument_, argument_.name, tensor_->dl.ndim);
}

void Operand::resolve() {
  if (tensor_->handle == 0) return resolve_borrowed();
  record_ = find_tensor(tensor_->handle);
  require<Message::stale_tensor>(record_ != nullptr, "KINA-TENSOR-4", argument_, argument_.name);
  record_->show(view_);
  device_ = record_->device;
  flags_ = record_->flags;
  stream_ = record_->stream;
}

void Operand::resolve_borrowed() {
  const uint32_t known = KINA_FLAG_BORROWED | KINA_FLAG_READ_ONLY;
  require<Message::bad_borrowed>((tensor_->flags & ~known) == 0 && (tensor_->flags & KINA_FLAG_BORROWED) != 0 &&
                                     tensor_->allocator == nullptr && tensor_->reserved == 0,
                                 "KINA-TENSOR-23", argument_, argument_.name);
  flags_ = tensor_->flags;
  stream_ = value_of(tensor_->stream);
}

void Operand::validate() {
  if (record_ != nullptr) return;
  const DLTensor& dl = tensor_->dl;
  const DtypeRow* row = find_dtype(dtype_of(dl.dtype));
  view_.dtype = dtype_of(dl.dtype);
  const Span span =
      check_geometry(view_.geometry, dl.shape, dl.strides, dl.ndim, row == nullptr ? 1 : row->bytes, argument_);
  // A number until the hull is known to lie inside: no pointer goes beyond what the caller has.
  view_.data = reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(dl.data) + dl.byte_offset);
  if (has_self_overlap(view_.geometry)) flags_ |= KINA_FLAG_READ_ONLY;
  const bool has_elements = !view_.geometry.is_empty();
  require<Message::borrowed_null_data>(dl.data != nullptr || !has_elements, "KINA-TENSOR-20", argument_,
                                       argument_.name);
  if (row != nullptr && has_elements) validate_elements(*row, span);
  if (device_count(dl.device.device_type) > 0)
    device_ = &require_device(dl.device.device_type, dl.device.device_id, argument_, argument_);
}

// Where the elements of a borrowed tensor lie.
void Operand::validate_elements(const DtypeRow& row, const Span& span) const {
  const uint64_t offset = tensor_->dl.byte_offset;
  const uint64_t bytes = tensor_->size_bytes;
  require<Message::borrowed_misaligned>(reinterpret_cast<uint64_t>(view_.data) % row.alignment == 0, "KINA-TENSOR-22",
                                        argument_, argument_.name, row.alignment);
  const uint64_t before = static_cast<uint64_t>(-span.low) * row.bytes;
  const uint64_t behind = static_cast<uint64_t>(span.high + 1) * row.bytes;
  const bool is_inside = before <= offset && offset <= bytes && behind <= bytes - offset;
  require<Message::borrowed_outside>(is_inside, "KINA-TENSOR-21", argument_, argument_.name, bytes);
}

void Operand::offer() const {
  if (record_ != nullptr) return;
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

void refuse_failed(const Operand& operand, const char* clause) {
  const FailedRange failed = operand.failure(Look::all);
  if (failed.claim) [[unlikely]]
    throw failed_input(operand.argument(), *failed.claim->root, clause);
}

NewTensor tensor_on(const Operand& in, const View& view, uint32_t flags) {
  Device& device = in.device();
  if (!in.is_borrowed()) return {in.storage()->hold(), device, in.stream(), flags, view};
  Stream* named = streams().find(in.stream());
  Stream& stream = named && &named->device() == &device ? *named : device.main();
  const KinaTensor& tensor = in.tensor();
  return {hold_borrowed(device, tensor.dl.data, tensor.size_bytes, stream), device, stream.handle, flags, view};
}

void Output::present_struct() { is_empty_ = is_empty_struct(tensor_, argument_); }

void Output::present() {
  present_struct();
  if (!is_empty_) Operand::present();
}

void Output::resolve() {
  if (!is_empty_) Operand::resolve();
}

void Output::validate() {
  if (!is_empty_) Operand::validate();
}

void Output::offer() const {
  if (!is_empty_) Operand::offer();
}

void Output::demand(const Geometry& shape, KinaDtype wanted, const Device& place) const {
  if (is_empty_) return;
  if (!same_shape(geometry(), shape))
    refuse<Message::shape_mismatch>("KINA-TENSOR-26", argument_, argument_.name, ShapeText(geometry()),
                                    ShapeText(shape));
  require<Message::dtype_mismatch>(dtype() == wanted, "KINA-TENSOR-26", argument_, argument_.name, name_of(dtype()),
                                   name_of(wanted));
  require<Message::device_mismatch>(&device() == &place, "KINA-TENSOR-26", argument_, argument_.name, device().type(),
                                    device().id(), place.type(), place.id());
  require<Message::read_only>((flags() & KINA_FLAG_READ_ONLY) == 0, "KINA-TENSOR-14", argument_, argument_.name);
}

void Output::refuse_overlap(const Operand& input, InPlace in_place) const {
  if (is_empty_ || view().geometry.is_empty() || &device() != &input.device()) return;
  const auto is_ours = [](const Storage* held) {
    return held != nullptr && held->origin() == StorageOrigin::allocated;
  };
  if (storage() != input.storage() && is_ours(storage()) && is_ours(input.storage())) return;
  const Hull mine = hull_of(view());
  const Hull theirs = hull_of(input.view());
  if (mine.first >= theirs.last || theirs.first >= mine.last) return;
  const bool is_exact = view().data == input.view().data && bytes_of(dtype()) == bytes_of(input.dtype()) &&
                        same_layout(geometry(), input.geometry());
  require<Message::overlap>(is_exact && in_place == InPlace::allowed, "KINA-TENSOR-30", argument_, argument_.name,
                            input.argument().name);
}

void MadeTensor::present() const {
  require<Message::null_pointer>(out_ != nullptr, "KINA-STATUS-23", argument_, argument_.name);
}

void MadeTensor::validate() const {
  require<Message::out_not_empty>(is_all_zero(*out_), "KINA-TENSOR-27", argument_, argument_.name);
}

void require_same_place(const Operand& a, const Operand& b, const char* clause) {
  const DLDevice here = a.place(), there = b.place();
  if (here.device_type == there.device_type && here.device_id == there.device_id) return;
  const auto is_absent = [](const DLDevice& device) {
    return device_count(device.device_type) == 0 && device.device_type != kDLCUDAHost &&
           device.device_type != kDLCUDAManaged;
  };
  const bool counts = is_absent(here) || is_absent(there);
  require<Message::device_mismatch>(!counts, clause, b.argument(), b.argument().name,
                                    static_cast<int32_t>(there.device_type), there.device_id,
                                    static_cast<int32_t>(here.device_type), here.device_id);
}

void require_same_device(const Operand& a, const Operand& b) {
  require<Message::device_mismatch>(&a.device() == &b.device(), "KINA-TENSOR-31", b.argument(), b.argument().name,
                                    b.device().type(), b.device().id(), a.device().type(), a.device().id());
}

}  // namespace kina
