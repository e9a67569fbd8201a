// Entry points of the storage chapter.
#include <algorithm>

#include "impl/api/arguments.h"
#include "impl/api/boundary.h"
#include "impl/core/reference.h"
#include "impl/core/thread.h"

using namespace kina;

namespace {

// A handle for a new reference to the storage of `tensor`.
uint64_t name_reference(HandleTable<TensorReference>& table, const Operand& tensor) {
  Ref<TensorReference> reference = make_counted<TensorReference>(tensor);
  const uint64_t handle = table.insert(reference.get());
  reference.detach();  // the table's from here on
  return handle;
}

// Ends the name of a reference: of several callers exactly one comes through.
template <class Handle>
void end_reference(HandleTable<TensorReference>& table, Handle handle, Argument argument, Kind kind) {
  TensorReference* reference = table.end_name(value_of(handle));
  require<Message::stale_handle>(reference != nullptr, "KINA-STATUS-26", argument, argument.name, word_of(kind));
  reference->release();  // the table's
}

// The device whose memory the elements are: the owner's for PEER tensors.
const Device& memory_of(const Operand& tensor) {
  return tensor.storage() == nullptr ? tensor.device() : tensor.storage()->device();
}

// The hull as runtime_byte_range reports it: foreign memory has no id that means anything to callers, so it has
// addresses.
KinaByteRange range_of(const Storage* storage, const std::byte* base, uint64_t start, uint64_t end) {
  if (storage != nullptr && !storage->is_foreign()) return {storage->id(), start, end};
  const auto address = reinterpret_cast<uint64_t>(base);
  return {0, address + start, address + end};
}

}  // namespace

KinaStatus runtime_overlap(KinaOverlap* out, const KinaTensor* a, const KinaTensor* b) {
  return boundary(__func__, [&] {
    Pointer result(out, {1, "out"});
    Input first(a, {2, "a"});
    Input second(b, {3, "b"});
    dereference(result, first, second);
    const Hull one = hull_of(first.view());
    const Hull other = hull_of(second.view());
    const bool is_disjoint = &memory_of(first) != &memory_of(second) || one.first == one.last ||
                             other.first == other.last || one.last <= other.first || other.last <= one.first;
    const bool is_same = one.first == other.first && one.last == other.last;
    *result = is_disjoint ? KINA_OVERLAP_DISJOINT : is_same ? KINA_OVERLAP_SAME : KINA_OVERLAP_PARTIAL;
  });
}

KinaStatus runtime_is_exclusive(int32_t* out, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Pointer result(out, {1, "out"});
    Input asked(tensor, {2, "tensor"});
    dereference(result, asked);
    const Storage* storage = asked.storage();
    const bool is_ours = storage != nullptr && (!storage->is_foreign() || storage->is_copied);
    *result = is_ours && storage->tensors() == 1 ? 1 : 0;
  });
}

KinaStatus runtime_byte_range(KinaByteRange* out, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Pointer result(out, {1, "out"});
    Input asked(tensor, {2, "tensor"});
    dereference(result, asked);
    const std::byte* base = asked.storage() == nullptr ? asked.view().data : asked.storage()->data();
    const Runs runs(asked.view(), base);
    *result = range_of(asked.storage(), base, runs.first, runs.last());
  });
}

KinaStatus runtime_failure_set(uint64_t* failure, const KinaTensor* tensor, uint64_t cause, KinaStatus status,
                               const char* message) {
  return boundary(__func__, [&](const Call& call) {
    Pointer result(failure, {1, "failure"});
    Input failed(tensor, {2, "tensor"});
    dereference_values(result, failed);
    Ref<Failure> root = Failure::find(cause);
    require<Message::cause_unknown>(cause == 0 || root, "KINA-STORAGE-17", {3, "cause"}, "cause", cause);
    require<Message::status_is_success>(root || status != KINA_SUCCESS, "KINA-STORAGE-18", {4, "status"}, "status");
    offer(failed);
    require<Message::borrowed_refused>(!failed.is_borrowed(), "KINA-STORAGE-39", {2, "tensor"}, "tensor");
    require<Message::value_unknown>(root || find_status(status) != nullptr, "KINA-STORAGE-18", {4, "status"}, "status",
                                    status);
    if (!root) root = Failure::make(status, call.function, message);
    failed.storage()->mark_failed(failed.view(), make_counted<Claim>(root));
    *result = root->id;
  });
}

KinaStatus runtime_failure_get(KinaFailureInfo* out, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    OutputStruct<KinaFailureInfo> result(out, {1, "out"});
    Input asked(tensor, {2, "tensor"});
    dereference(result, asked);
    KinaFailureInfo info{};
    FailedRange failed = asked.failure(Look::all);
    if (failed.claim) {
      const Claim& claim = *failed.claim;
      info.status = claim.root->status;
      info.failure = claim.root->id;
      info.range = range_of(asked.storage(), asked.storage()->data(), failed.start, failed.end);
      info.function = claim.root->function;
      info.message = claim.root->message();
      info.skipped_total = claim.skipped.total;
      info.skipped_count = std::min(claim.skipped.total, Chain::kNames);
      std::copy_n(claim.skipped.names, info.skipped_count, info.skipped);
    }
    keep_reported(std::move(failed.claim));
    result.publish(info);
  });
}

KinaStatus runtime_failure_clear(int32_t* was_failed, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Pointer result(was_failed, {1, "was_failed"});
    Input cleared(tensor, {2, "tensor"});
    dereference(result, cleared);
    *result = cleared.storage() != nullptr && cleared.storage()->clear_failed(cleared.view()) ? 1 : 0;
  });
}

KinaStatus runtime_weak_create(KinaWeak* out, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Pointer result(out, {1, "out"});
    Input named(tensor, {2, "tensor"});
    dereference(result, named);
    require<Message::borrowed_refused>(!named.is_borrowed(), "KINA-STORAGE-49", {2, "tensor"}, "tensor");
    *result = handle_of<KinaWeak>(name_reference(weak_references(), named));
  });
}

KinaStatus runtime_weak_upgrade(KinaTensor* out, KinaWeak weak) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    HandleArgument reference(weak, {2, "weak"}, weak_references(), Kind::weak);
    dereference(made, reference);
    reference->open("KINA-STORAGE-46", {2, "weak"}).publish(*made);
  });
}

KinaStatus runtime_weak_release(KinaWeak weak) {
  return boundary(__func__, [&] {
    HandleArgument reference(weak, {1, "weak"}, weak_references(), Kind::weak);
    dereference(reference);
    end_reference(weak_references(), weak, reference.argument(), Kind::weak);
  });
}

KinaStatus runtime_peer_share(KinaPeer* out, const KinaTensor* tensor) {
  return boundary(__func__, [&] {
    Pointer result(out, {1, "out"});
    Input shared(tensor, {2, "tensor"});
    dereference(result, shared);
    require<Message::borrowed_refused>(!shared.is_borrowed(), "KINA-STORAGE-56", {2, "tensor"}, "tensor");
    require<Message::peer_refused>((shared.flags() & KINA_FLAG_PEER) == 0, "KINA-STORAGE-56", {2, "tensor"}, "tensor");
    *result = handle_of<KinaPeer>(name_reference(peers(), shared));
    shared.storage()->pin();  // the pin: the tensor holds as long as this call runs
  });
}

KinaStatus runtime_peer_open(KinaTensor* out, KinaPeer peer, int32_t device_type, int32_t device_id) {
  return boundary(__func__, [&] {
    MadeTensor made(out, {1, "out"});
    HandleArgument shared(peer, {2, "peer"}, peers(), Kind::peer);
    dereference(made, shared);
    Device& device = require_device(device_type, device_id, {3, "device_type"}, {4, "device_id"});
    const Device& owner = shared->storage().device();
    const bool is_reachable =
        &device.backend() == &owner.backend() && device.backend().can_access(device.id(), owner.id());
    require<Message::peer_unreachable>(is_reachable, "KINA-STORAGE-53", {3, "device_type"}, device.name(),
                                       owner.name());
    shared->open_on(device, "KINA-STATUS-26", {2, "peer"}).publish(*made);
  });
}

KinaStatus runtime_peer_release(KinaPeer peer) {
  return boundary(__func__, [&] {
    HandleArgument shared(peer, {1, "peer"}, peers(), Kind::peer);
    dereference(shared);
    end_reference(peers(), peer, shared.argument(), Kind::peer);
    shared->storage().unpin();
  });
}
