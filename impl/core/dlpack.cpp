// Exports, which own what a tensor named, and imports, which are storages that a deleter ends.
#include "impl/core/dlpack.h"

#include <algorithm>
#include <new>
#include <utility>

#include "impl/core/capture.h"
#include "impl/core/operation.h"
#include "impl/core/thread_cache.h"

namespace kina {
namespace {

constexpr uint32_t kStampedMajor = 1;
constexpr uint32_t kStampedMinor = 0;

// What the consumer enqueues on its stream from now on comes after the last writer.
void follow_writer(Storage& storage, Stream& stream) {
  if (storage.uses.is_idle() || is_recorded(stream)) return;
  const std::lock_guard lock(storage.uses);
  storage.uses.order(stream, Access::read);
}

// The consumer is done with the bytes: what it enqueued on its stream may have read and written them.
void follow_consumer(Storage& storage, Stream& stream) noexcept {
  if (!stream.device().backend().is_asynchronous()) return;
  try {
    Turn turn;
    turn.add(storage, Access::write, false);
    turn.begin(stream);
    const Point work = after_foreign_work(stream);
    turn.end(work);
  } catch (...) {
    storage.abandon();  // the driver refused or host memory is out: nothing can be ordered after the consumer
  }
}

// The bytes of an import become ready on the producer's stream: whoever uses them on another one comes after that.
void follow_producer(Storage& storage, Stream& stream) {
  if (!stream.device().backend().is_asynchronous()) return;
  const std::lock_guard lock(storage.uses);
  const Point work = after_foreign_work(stream);
  storage.uses.note(Access::write, work);
}

// One export: the consumer's struct and what it keeps. Its shape and strides stand behind the object.
template <class Managed>
struct Export {
  Managed managed;
  int32_t ndim;  // as the arrays were made for, whatever the consumer writes into its struct
  Hold storage;
  Service consumer;  // of the consumer's stream

  int64_t* arrays() noexcept { return reinterpret_cast<int64_t*>(this + 1); }

  static size_t bytes_for(int32_t ndim) noexcept {
    return sizeof(Export) + 2 * sizeof(int64_t) * static_cast<size_t>(ndim);
  }

  static Export* make(int32_t ndim) {
    Export* made = new (take_block(bytes_for(ndim))) Export;
    made->ndim = ndim;
    made->managed.manager_ctx = made;
    made->managed.dl_tensor.byte_offset = 0;
    made->managed.deleter = [](Managed* exported) {
      if (exported != nullptr) destroy(static_cast<Export*>(exported->manager_ctx));
    };
    return made;
  }

  static void destroy(Export* made) {
    const Hold last = std::move(made->storage);
    if (last && made->consumer.stream() != nullptr) follow_consumer(*last, *made->consumer.stream());
    const size_t bytes = bytes_for(made->ndim);
    made->~Export();
    give_block(made, bytes);
  }

  void fill(Hold kept, const Operand& tensor, const View& view, Service service) noexcept {
    int64_t least = INT64_MAX;  // extent
    for (int32_t axis = 0; axis < ndim; ++axis) {
      arrays()[axis] = view.geometry.extents[axis];
      arrays()[ndim + axis] = view.geometry.strides[axis];
      least = std::min(least, arrays()[axis]);
      keep_loop();
    }
    if (least <= 1) [[unlikely]]
      fill_canonical(view.geometry);
    DLTensor& dl = managed.dl_tensor;
    dl.data = least == 0 ? nullptr : view.data;
    dl.device = kept->shown_on(tensor.device());
    dl.ndim = ndim;
    dl.dtype = dlpack_of(view.dtype);
    dl.shape = ndim == 0 ? nullptr : arrays();
    dl.strides = ndim == 0 ? nullptr : arrays() + ndim;
    storage = std::move(kept);
    if (!is_dropped(Site::here(), SiteKind::pin)) consumer = std::move(service);
  }
  // Where some strides mean nothing.
  void fill_canonical(Geometry geometry) noexcept {
    make_canonical(geometry);
    std::copy_n(geometry.strides, ndim, arrays() + ndim);
  }
};

// A compact copy in fresh bytes of the tensor's device.
Hold copied(const Operand& tensor, View& view, const ExportTerms& terms) {
  Device& device = tensor.device();
  Stream& stream = terms.stream != nullptr ? *terms.stream : current_stream(device);
  const View from = view;
  make_compact(view.geometry);
  const uint64_t bytes = static_cast<uint64_t>(view.geometry.count()) * bytes_of(view.dtype);
  Hold storage = Storage::allocate(bytes, stream);
  view.data = storage->data();
  if (bytes != 0) {
    Turn turn;
    if (!is_recorded(stream)) {
      turn.add(*tensor.storage(), Access::read, tensor.is_peer());
      turn.add(*storage, Access::write, false);
    }
    turn.begin(stream);
    const Hull by_caller[] = {tensor.is_ordered_by_caller() ? hull_of(from) : Hull()};
    const CopyArgs args{view, from};
    launch(terms.function, stream, device.backend().copy(view.dtype), std::span(&args, 1), by_caller);
    turn.end(now(stream));
  }
  return storage;
}

template <class Managed>
Managed* exported(const Operand& tensor, const ExportTerms& terms) {
  refuse_failed(tensor, "KINA-DLPACK-23");
  // Gone with everything that it holds unless the tensor is ended.
  struct Pending {
    Export<Managed>* made;
    ~Pending() {
      if (made != nullptr) Export<Managed>::destroy(made);
    }
  } pending{Export<Managed>::make(tensor.geometry().ndim)};
  Service service(terms.stream);
  View copy;
  Hold copy_bytes;
  if (terms.is_copy) {
    copy = tensor.view();
    copy_bytes = copied(tensor, copy, terms);
  } else if (terms.stream != nullptr) {
    follow_writer(*tensor.storage(), *terms.stream);
  }
  Hold ended = take_tensor(tensor.tensor().handle);  // nothing fails from here on
  require<Message::stale_tensor>(static_cast<bool>(ended), "KINA-TENSOR-4", tensor.argument(), tensor.argument().name);
  pending.made->fill(terms.is_copy ? std::move(copy_bytes) : std::move(ended), tensor,
                     terms.is_copy ? copy : tensor.view(), std::move(service));
  return &std::exchange(pending.made, nullptr)->managed;
}

// Fills in where the elements lie; `row` is NULL for a dtype that will be refused.
void locate(ImportedTensor& imported, const DLTensor& dl, const DtypeRow* row, const Span& span, Argument argument) {
  if (span.is_empty()) return;
  require<Message::dlpack_null_data>(dl.data != nullptr, "KINA-DLPACK-38", argument, argument.name);
  const uint32_t element = row == nullptr ? 1 : row->bytes;
  uint64_t first = 0;
  const bool wraps = __builtin_add_overflow(reinterpret_cast<uint64_t>(dl.data), dl.byte_offset, &first);
  const uint64_t before = static_cast<uint64_t>(-span.low) * element;  // in 64 bits: the span was checked
  const uint64_t behind = static_cast<uint64_t>(span.high + 1) * element;
  const bool is_inside = !wraps && first <= INT64_MAX && before <= first && behind <= INT64_MAX - first;
  require<Message::dlpack_addresses>(is_inside, "KINA-DLPACK-40", argument, argument.name);
  require<Message::dlpack_misaligned>(row == nullptr || (first & (row->alignment - 1)) == 0, "KINA-DLPACK-41", argument,
                                      argument.name, row == nullptr ? 1 : row->alignment);
  imported.view.data = static_cast<std::byte*>(dl.data) + dl.byte_offset;
  imported.lowest = imported.view.data - before;
  imported.bytes = before + behind;
}

}  // namespace

void make_canonical(Geometry& geometry) noexcept {
  int64_t least = INT64_MAX;  // extent
  for (int32_t axis = 0; axis < geometry.ndim; ++axis) least = std::min(least, geometry.extents[axis]);
  if (least > 1) [[likely]]
    return;
  if (least == 0) return make_compact(geometry);
  uint64_t behind = 1;  // what the stride of an axis of extent 1 would be
  for (int32_t axis = geometry.ndim; axis-- > 0;) {
    if (geometry.extents[axis] == 1) geometry.strides[axis] = static_cast<int64_t>(behind);
    const int64_t stride = geometry.strides[axis];
    const uint64_t magnitude = stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    uint64_t product = 0;
    if (__builtin_mul_overflow(magnitude, static_cast<uint64_t>(geometry.extents[axis]), &product)) product = INT64_MAX;
    behind = std::clamp<uint64_t>(product, 1, INT64_MAX);
  }
}

DLManagedTensorVersioned* export_versioned(const Operand& tensor, const ExportTerms& terms) {
  DLManagedTensorVersioned* managed = exported<DLManagedTensorVersioned>(tensor, terms);
  managed->version = {kStampedMajor, kStampedMinor};
  managed->flags = (terms.is_read_only ? uint64_t{DLPACK_FLAG_BITMASK_READ_ONLY} : 0) |
                   (terms.is_copy ? uint64_t{DLPACK_FLAG_BITMASK_IS_COPIED} : 0);
  return managed;
}

DLManagedTensor* export_legacy(const Operand& tensor, const ExportTerms& terms) {
  return exported<DLManagedTensor>(tensor, terms);
}

ImportedTensor checked_import(const DLTensor& dl, const Stream* ordered, Argument argument, Argument stream_argument) {
  require<Message::dlpack_null_shape>(dl.ndim <= 0 || dl.shape != nullptr, "KINA-DLPACK-36", argument, argument.name,
                                      dl.ndim);
  ImportedTensor imported;
  const DtypeRow* row = find_dtype(dtype_of(dl.dtype));
  const Reach reach = check_geometry(imported.view.geometry, dl.shape, dl.strides, dl.ndim,
                                     row == nullptr ? 1 : row->bytes, argument, "KINA-DLPACK-40");
  make_canonical(imported.view.geometry);
  locate(imported, dl, row, reach.span, argument);
  imported.flags = KINA_FLAG_IMPORTED | layout_flags(imported.view.geometry, reach);
  const bool is_host_memory = is_read_by_host(dl.device.device_type);
  const int32_t type = is_host_memory ? int32_t{kDLCPU} : int32_t{dl.device.device_type};
  const int32_t id = is_host_memory ? 0 : dl.device.device_id;
  const bool is_here = ordered == nullptr || (ordered->device().type() == type && ordered->device().id() == id);
  if (!is_here) [[unlikely]]
    refuse<Message::device_mismatch>("KINA-DLPACK-2", stream_argument, stream_argument.name, ordered->device().name(),
                                     device_of(type, id));
  if (row == nullptr)
    refuse<Message::dtype_unknown>("KINA-DLPACK-42", argument, argument.name, dl.dtype.code, dl.dtype.bits,
                                   dl.dtype.lanes);
  imported.view.dtype = row->dtype;
  imported.device = known_device(type, id);
  if (imported.device == nullptr) {
    require<Message::dlpack_device>(device_count(type) > 0, "KINA-DLPACK-43", argument, argument.name,
                                    static_cast<DLDeviceType>(type));
    imported.device = &require_device(type, id, argument, argument);
  }
  if (is_host_memory && dl.device.device_type != kDLCPU) imported.memory_type = dl.device.device_type;
  return imported;
}

void import_tensor(KinaTensor& out, const ImportedTensor& imported, const ImportTerms& terms) {
  Stream& stream = terms.stream == nullptr ? current_stream(*imported.device) : *terms.stream;
  Service service(terms.stream);
  Hold storage = Storage::foreign(*imported.device, imported.lowest, imported.bytes, StorageOrigin::imported, stream);
  Storage& bytes = *storage;
  bytes.is_copied = terms.is_copied;
  bytes.memory_type = imported.memory_type;
  if (terms.stream != nullptr) follow_producer(bytes, stream);
  const uint32_t flags = imported.flags | (terms.is_read_only ? uint32_t{KINA_FLAG_READ_ONLY} : 0U);
  NewTensor made(std::move(storage), *imported.device, stream.handle, flags, imported.view);
  bytes.own(terms.owner, service.detach());  // nothing fails from here on
  made.publish(out);
}

}  // namespace kina
