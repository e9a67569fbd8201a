// What the callbacks answer, and what it counts as.
#include "impl/memory/custom.h"

#include "impl/core/callback.h"
#include "impl/core/device.h"

namespace kina {
namespace {

bool is_answer(KinaStatus status) noexcept {
  return status == KINA_ERROR_OUT_OF_MEMORY || status == KINA_ERROR_DEVICE || status == KINA_ERROR_DEVICE_LOST;
}

bool is_aligned(const void* data, uint64_t alignment) noexcept {
  return reinterpret_cast<uint64_t>(data) % alignment == 0;
}

// A stream after `stream` that has a name for the callback to use: itself, or the main one where it has ended. NULL
// where that order cannot be had.
Stream* named_after(Stream& stream) noexcept {
  if (stream.has_name()) return &stream;
  Stream& main = stream.device().main();
  OrderCalls calls;
  return try_order_after(main, now(stream), calls) ? &main : nullptr;
}

}  // namespace

CustomResource::CustomResource(Device& device, const KinaResourceVtable& vtable, void* context)
    : TrackedResource(device, nullptr, vtable.name == nullptr ? "custom" : vtable.name),
      vtable_(vtable),
      context_(context) {}

CustomResource::~CustomResource() {
  if (!owns_context_ || vtable_.destroy == nullptr) return;
  const CallbackGuard guard;
  vtable_.destroy(context_);
}

Allocation CustomResource::obtain(const Request& request, Stream& stream) noexcept {
  counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
  void* data = nullptr;
  KinaStatus status = KINA_SUCCESS;
  {
    const CallbackGuard guard;
    status = vtable_.allocate(&data, context_, request.bytes, request.alignment, handle_of<KinaStream>(stream.handle));
  }
  if (status == KINA_SUCCESS && data != nullptr && is_aligned(data, request.alignment)) return {data, KINA_SUCCESS};
  if (is_answer(status)) return {nullptr, status};
  const bool is_mine_to_return = data != nullptr && !is_live(data);
  if (is_mine_to_return && !give_back(data, request, stream)) count_leaked(request.bytes);
  return {nullptr, KINA_ERROR_DEVICE};
}

// Callbacks that know nothing of streams take the block back at once, so what was enqueued on the stream has to be
// over.
bool CustomResource::give_back(void* data, const Request& request, Stream& stream) noexcept {
  if (!supports_streams() && !settle(stream)) return false;
  const Stream* place = named_after(stream);
  if (place == nullptr) return false;
  counters().upstream_calls.fetch_add(1, std::memory_order_relaxed);
  const CallbackGuard guard;
  const auto name = handle_of<KinaStream>(place->handle);
  return vtable_.deallocate(context_, data, request.bytes, request.alignment, name) == KINA_SUCCESS;
}

}  // namespace kina
