// The host's rows, one look-up per family, and devices that offer them all; NULL where the pair is not offered.
#pragma once

#include "impl/backend/backend.h"

namespace kina::cpu {

Row<UnaryArgs> unary(KinaUnaryOp op, KinaDtype dtype) noexcept;
Row<BinaryArgs> binary(KinaBinaryOp op, KinaDtype dtype) noexcept;
Row<CastArgs> cast(KinaDtype to, KinaDtype from) noexcept;
Row<CopyArgs> copy(KinaDtype dtype) noexcept;
Row<FillArgs> fill(KinaDtype dtype) noexcept;
Row<ReduceArgs> reduce(KinaReduceOp op, KinaDtype dtype) noexcept;
Row<SoftmaxArgs> softmax(KinaDtype dtype) noexcept;
Row<SoftmaxArgs> log_softmax(KinaDtype dtype) noexcept;
Row<MatmulArgs> matmul(KinaDtype out, KinaDtype in) noexcept;
uint64_t matmul_workspace_bytes(const MatmulArgs& args) noexcept;
void check_indices(const GatherArgs& args);
Row<GatherArgs> gather(KinaDtype dtype, KinaDtype index) noexcept;
Row<RepeatArgs> repeat_interleave(KinaDtype dtype) noexcept;

// The operations of a device that computes as the host does.
class Arithmetic : public Backend {
 public:
  Row<UnaryArgs> unary(KinaUnaryOp op, KinaDtype dtype) const noexcept override { return cpu::unary(op, dtype); }
  Row<BinaryArgs> binary(KinaBinaryOp op, KinaDtype dtype) const noexcept override { return cpu::binary(op, dtype); }
  Row<CastArgs> cast(KinaDtype to, KinaDtype from) const noexcept override { return cpu::cast(to, from); }
  Row<CopyArgs> copy(KinaDtype dtype) const noexcept override { return cpu::copy(dtype); }
  Row<FillArgs> fill(KinaDtype dtype) const noexcept override { return cpu::fill(dtype); }
  Row<ReduceArgs> reduce(KinaReduceOp op, KinaDtype dtype) const noexcept override { return cpu::reduce(op, dtype); }
  Row<SoftmaxArgs> softmax(KinaDtype dtype) const noexcept override { return cpu::softmax(dtype); }
  Row<SoftmaxArgs> log_softmax(KinaDtype dtype) const noexcept override { return cpu::log_softmax(dtype); }
  Row<MatmulArgs> matmul(KinaDtype out, KinaDtype in) const noexcept override { return cpu::matmul(out, in); }
  uint64_t matmul_workspace_bytes(const MatmulArgs& args) const noexcept override {
    return cpu::matmul_workspace_bytes(args);
  }
  Row<GatherArgs> gather(KinaDtype dtype, KinaDtype index) const noexcept override { return cpu::gather(dtype, index); }
  Row<RepeatArgs> repeat_interleave(KinaDtype dtype) const noexcept override { return cpu::repeat_interleave(dtype); }
};

}  // namespace kina::cpu
