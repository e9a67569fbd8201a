// The host's rows that move bytes: copy and fill, one for each size of element.
#include <complex>

#include "impl/cpu/loops.h"
#include "impl/cpu/rows.h"

namespace kina::cpu {
namespace {

template <size_t kBytes>
void run_copy(const CopyArgs& args, NativeStream) {
  whole(args.out, args.in).for_each_run({args.out.data, args.in.data}, [](auto at, auto strides, int64_t count) {
    if (strides == Strides<2>{kBytes, kBytes}) {
      std::memcpy(at[0], at[1], static_cast<size_t>(count) * kBytes);
      return;
    }
    for (int64_t i = 0; i < count; ++i) std::memcpy(at[0] + i * strides[0], at[1] + i * strides[1], kBytes);
  });
}

template <size_t kBytes>
void run_fill(const FillArgs& args, NativeStream) {
  whole(args.out).for_each_run({args.out.data}, [&](auto at, auto strides, int64_t count) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(at[0] + i * strides[0], args.value, kBytes);
  });
}

}  // namespace

Row<CopyArgs> copy(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<CopyArgs> { return &run_copy<sizeof(typename decltype(type)::type)>; });
}

Row<FillArgs> fill(KinaDtype dtype) noexcept {
  return visit(dtype, [](auto type) -> Row<FillArgs> { return &run_fill<sizeof(typename decltype(type)::type)>; });
}

}  // namespace kina::cpu
