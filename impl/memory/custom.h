// A resource of the caller's own callbacks.
#pragma once

#include "impl/memory/tracked.h"

namespace kina {

class CustomResource final : public TrackedResource {
 public:
  CustomResource(Device& device, const KinaResourceVtable& vtable, void* context);
  bool supports_streams() const noexcept override { return vtable_.supports_streams != 0; }

  // From here on the end of the resource calls `destroy`; before, a maker that fails has not taken the context over.
  void adopt_context() noexcept { owns_context_ = true; }

 private:
  ~CustomResource() override;
  Allocation obtain(const Request& request, Stream& stream) noexcept override;
  bool give_back(void* data, const Request& request, Stream& stream) noexcept override;
  bool trusts_source() const noexcept override { return false; }  // callbacks give what they like

  const KinaResourceVtable vtable_;
  void* const context_;
  bool owns_context_ = false;
};

}  // namespace kina
