// recurrence: h[n, t, c] = a[n, t, c]·h[n, t−1, c] + b[n, t, c], a vector of channels at a time,
// one token after the other, the state in a register.
#include "ir/graph/Sequence.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorRows.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

LogicalResult emitRecurrenceKernel(KernelFrame &frame) {
  auto op = onlyOp<graph::RecurrenceOp>(frame);
  if (failed(verifyNotInPlace(frame)))
    return failure();
  OpBuilder &b = frame.builder;
  VectorOps v(b, frame.loc, frame.options.lanes);
  auto sequenceOf = [&](Value operand) -> std::optional<VectorRows> {
    if (!operand)
      return std::nullopt;
    return VectorRows(frame, argumentOf(frame, operand));
  };
  const std::optional<VectorRows> factor = sequenceOf(op.getA()), term = sequenceOf(op.getB());
  SmallVector<VectorRows> results;
  for (Value argument : argumentsOfResult(frame, op.getResult()))
    results.emplace_back(frame, argument);
  const auto type = cast<RankedTensorType>(op.getType());
  const int64_t length = type.getDimSize(1), channels = type.getDimSize(2),
                blocks = llvm::divideCeil(channels, v.lanes);
  const bool fromEnd = op.getReverse() != op.getAdjoint();

  constexpr int64_t tokensOf10Microseconds = 8192;
  frame.iterations = type.getDimSize(0) * blocks;
  frame.grain = std::max<int64_t>(1, tokensOf10Microseconds / length);
  auto calls = scf::ForOp::create(b, frame.loc, frame.begin, frame.end, v.index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(calls.getBody());
  Value n = v.div(calls.getInductionVar(), blocks),
        c = v.mul(v.rem(calls.getInductionVar(), blocks), v.lanes),
        mask = channels % v.lanes == 0 ? Value() : v.maskBelow(v.sub(v.index(channels), c));
  // An adjoint multiplies by the factor of the element before.
  Value initial = v.splat(v.f32(op.getInitial().convertToDouble()));
  auto loop = scf::ForOp::create(b, frame.loc, v.index(0), v.index(length), v.index(1),
                                 ValueRange{initial, v.splat(v.f32(1))});
  b.setInsertionPointToStart(loop.getBody());
  Value t = loop.getInductionVar(), h = loop.getRegionIterArg(0), a = loop.getRegionIterArg(1),
        before = a;
  if (fromEnd)
    t = v.sub(v.index(length - 1), t);
  if (factor)
    a = factor->load(v, factor->place(v, n, t, c), mask);
  Value used = op.getAdjoint() ? before : a;
  Value added = term ? term->load(v, term->place(v, n, t, c), mask) : Value();
  if (!factor)
    h = v.addf(h, added);
  else
    h = term ? v.fma(used, h, added) : v.mulf(used, h);
  for (const VectorRows &result : results)
    result.store(v, h, result.place(v, n, t, c), mask);
  scf::YieldOp::create(b, frame.loc, ValueRange{h, a});
  return success();
}

} // namespace nano::kernels
