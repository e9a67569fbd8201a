// The host's rows, one look-up per family; NULL where the pair is not offered.
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

}  // namespace kina::cpu
