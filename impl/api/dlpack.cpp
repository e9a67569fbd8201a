// Entry points of the dlpack chapter.
#include "impl/core/dlpack.h"

#include <unwind.h>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/callback.h"
#include "impl/core/capture.h"

using namespace kina;

namespace {

constexpr Argument kManaged{2, "managed"};
constexpr Argument kParams{3, "params"};
constexpr Argument kStream{3, "params.stream"};

enum class Direction : uint8_t { out, in };

// KinaDlpackParams of one of the four functions; `highest` is the DLPack major version that the function speaks, 0 for
// legacy.
class DlpackOptions {
 public:
  DlpackOptions(const KinaDlpackParams* given, uint32_t highest) : options_(given, kParams), highest_(highest) {}

  void present() {
    options_.present();
    const uint32_t major = options_->max_major;
    require<Message::dlpack_demand>(major == 0 || major == highest_, "KINA-DLPACK-1", {3, "params.max_major"}, major,
                                    highest_);
  }
  void resolve() {
    StreamArgument named(options_->stream, kStream, Null::allowed);
    named.resolve();
    stream_ = named.get();
  }
  void validate() const {}

  // Tier 4: call it when every other tier has passed.
  void require_known_flags(Direction direction) const {
    kina::require_known_flags(options_->flags, KINA_DLPACK_COPY | KINA_DLPACK_READ_ONLY, "KINA-VERSION-16",
                              {3, "params.flags"});
    require<Message::dlpack_copy_in>(direction == Direction::out || !has(KINA_DLPACK_COPY), "KINA-DLPACK-4",
                                     {3, "params.flags"});
  }
  bool has(uint32_t flag) const { return (options_->flags & flag) != 0; }
  Stream* stream() const { return stream_; }

 private:
  Options<KinaDlpackParams> options_;
  uint32_t highest_;
  Stream* stream_ = nullptr;
};

// Tiers 3 and 4 of an export.
ExportTerms checked_export(const Call& call, const Operand& tensor, const DlpackOptions& options) {
  ExportTerms terms;
  terms.function = call.function;
  terms.is_copy = options.has(KINA_DLPACK_COPY);
  terms.is_read_only =
      options.has(KINA_DLPACK_READ_ONLY) || (!terms.is_copy && (tensor.flags() & KINA_FLAG_READ_ONLY) != 0);
  terms.stream = options.stream();
  if (terms.stream != nullptr && &terms.stream->device() != &tensor.device())
    refuse<Message::device_mismatch>("KINA-DLPACK-52", kStream, kStream.name, terms.stream->device().name(),
                                     tensor.device().name());
  return terms;
}

void require_exportable(const Operand& tensor, const ExportTerms& terms, const DlpackOptions& options) {
  options.require_known_flags(Direction::out);
  require<Message::dlpack_borrowed>(!tensor.is_borrowed(), "KINA-DLPACK-22", tensor.argument(), tensor.argument().name);
  require<Message::dlpack_peer>(terms.is_copy || (tensor.flags() & KINA_FLAG_PEER) == 0, "KINA-DLPACK-21",
                                tensor.argument(), tensor.argument().name);
  if (terms.stream != nullptr) {
    require_announced(*terms.stream);
  } else if (terms.is_copy) {
    require_announced(current_stream(tensor.device()));
  }
}

// A foreign deleter may end its thread (CPython's lock does while the interpreter goes down). The thread is then
// unwound by the system's unwinder through our frames, whose personality is this library's own copy, and that copy
// works only after a first use.
bool prepare_unwinder() noexcept {
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
  return true;
}

template <class Managed>
ForeignOwner owner_of(Managed* managed) {
  if (managed->deleter == nullptr) return {};
  [[maybe_unused]] static const bool is_prepared = prepare_unwinder();
  return {[](void* context) {
            const CallbackGuard guard;
            auto* owned = static_cast<Managed*>(context);
            owned->deleter(owned);
          },
          managed};
}

// An import whose version has been checked; `flags` are the struct's.
template <class Managed>
void import(MadeTensor& made, Managed& managed, DlpackOptions& options, uint64_t flags) {
  options.resolve();
  made.validate();
  const ImportedTensor imported = checked_import(managed.dl_tensor, options.stream(), kManaged, kStream);
  options.require_known_flags(Direction::in);
  ImportTerms terms;
  terms.owner = owner_of(&managed);
  terms.is_copied = (flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0;
  terms.is_read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0 || options.has(KINA_DLPACK_READ_ONLY);
  terms.stream = options.stream();
  import_tensor(*made, imported, terms);
}

}  // namespace

KinaStatus runtime_to_dlpack(struct DLManagedTensorVersioned** out, KinaTensor* tensor,
                             const KinaDlpackParams* params) {
  return boundary(__func__, [&](const Call& call) {
    Pointer answer(out, {1, "out"});
    Operand consumed(tensor, {2, "tensor"});
    DlpackOptions options(params, 1);
    dereference(answer, consumed, options);
    const ExportTerms terms = checked_export(call, consumed, options);
    require_exportable(consumed, terms, options);
    *answer = export_versioned(consumed, terms);
    make_empty(*tensor);
  });
}

KinaStatus runtime_from_dlpack(KinaTensor* out, struct DLManagedTensorVersioned* managed,
                               const KinaDlpackParams* params) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    Pointer given(managed, kManaged);
    DlpackOptions options(params, 1);
    made.present();
    given.present();
    options.present();
    require<Message::dlpack_version>(managed->version.major == 1, "KINA-DLPACK-32", kManaged, managed->version.major,
                                     managed->version.minor);
    import(made, *managed, options, managed->flags);
  });
}

KinaStatus runtime_to_dlpack_legacy(struct DLManagedTensor** out, KinaTensor* tensor, const KinaDlpackParams* params) {
  return boundary(__func__, [&](const Call& call) {
    Pointer answer(out, {1, "out"});
    Operand consumed(tensor, {2, "tensor"});
    DlpackOptions options(params, 0);
    dereference(answer, consumed, options);
    const ExportTerms terms = checked_export(call, consumed, options);
    require<Message::dlpack_legacy_read_only>(!terms.is_read_only, "KINA-DLPACK-20", {2, "tensor"});
    require_exportable(consumed, terms, options);
    *answer = export_legacy(consumed, terms);
    make_empty(*tensor);
  });
}

KinaStatus runtime_from_dlpack_legacy(KinaTensor* out, struct DLManagedTensor* managed,
                                      const KinaDlpackParams* params) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    Pointer given(managed, kManaged);
    DlpackOptions options(params, 0);
    made.present();
    given.present();
    options.present();
    import(made, *managed, options, 0);
  });
}
