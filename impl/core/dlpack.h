// DLPack structs and the tensors behind them, without the checks of parameters.
#pragma once

#include "impl/core/operand.h"

namespace kina {

// What an export says of itself besides the tensor.
struct ExportTerms {
  const char* function = nullptr;  // the entry point, for the log of work
  bool is_copy = false;
  bool is_read_only = false;
  Stream* stream = nullptr;  // the consumer's; NULL: no order beyond the host's
};

// A struct that owns what `tensor` names, or with `is_copy` a compact copy of it; the tensor is ended. Throws with the
// tensor as it was.
DLManagedTensorVersioned* export_versioned(const Operand& tensor, const ExportTerms& terms);
DLManagedTensor* export_legacy(const Operand& tensor, const ExportTerms& terms);

// What a struct to be imported says, checked up to what this build offers.
struct ImportedTensor {
  View view;
  std::byte* lowest = nullptr;  // of the bytes that its elements touch
  uint64_t bytes = 0;           // from there to the highest
  Device* device = nullptr;     // where work on it runs
  uint32_t flags = 0;           // KINA_FLAG_*
  int32_t memory_type = 0;      // kDLCUDAHost or kDLCUDAManaged, which the host reads itself; else 0
};

// The caller's faults in `dl`: INVALID_SHAPE and DLPACK first, then what is UNSUPPORTED. `ordered` is the producer's
// stream, or NULL.
ImportedTensor checked_import(const DLTensor& dl, const Stream* ordered, Argument argument, Argument stream_argument);

// How an import is made.
struct ImportTerms {
  ForeignOwner owner;  // called once, when nothing holds the bytes any more
  bool is_copied = false;
  bool is_read_only = false;
  Stream* stream = nullptr;  // the producer's; NULL: the host's order is enough
};

// Makes the tensor. Throws OUT_OF_MEMORY with the owner not called.
void import_tensor(KinaTensor& out, const ImportedTensor& imported, const ImportTerms& terms);

// Strides that mean nothing become those of a compact layout: all where there are no elements, else those of axes of
// extent 1.
void make_canonical(Geometry& geometry) noexcept;

}  // namespace kina
