// scan: y[t] = x[0] ∘ … ∘ x[t] for i32, ∘ a wrapping sum or a maximum. One iteration, sequential:
// about a nanosecond an element.
#include "ir/graph/ReduceOps.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nano::kernels {

LogicalResult emitScanKernel(KernelFrame &frame) {
  auto op = onlyOp<graph::ScanOp>(frame);
  OpBuilder &b = frame.builder;
  VectorOps v(b, frame.loc, frame.options.lanes);
  Value x = argumentOf(frame, op.getX());
  SmallVector<Value> results = argumentsOfResult(frame, op.getResult());
  auto at = [&](Value argument, Value t) {
    return v.mul(t, stridesOf(cast<MemRefType>(argument.getType()))[0]);
  };
  bool sums = op.getCombiner() == graph::Combiner::sum;
  int64_t tokens = op.getX().getType().getDimSize(0);

  frame.iterations = 1;
  frame.grain = 1;
  auto calls = scf::ForOp::create(b, frame.loc, frame.begin, frame.end, v.index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(calls.getBody());
  Value neutral = v.i32(sums ? 0 : INT32_MIN);
  auto loop = scf::ForOp::create(b, frame.loc, v.index(0), v.index(tokens), v.index(1), neutral);
  b.setInsertionPointToStart(loop.getBody());
  Value t = loop.getInductionVar(), element = v.loadScalar(frame.flat(x), at(x, t)),
        before = loop.getRegionIterArg(0);
  Value result = sums ? v.addi(before, element) : v.max(before, element);
  for (Value y : results)
    v.store(result, frame.flat(y), at(y, t));
  scf::YieldOp::create(b, frame.loc, result);
  return success();
}

} // namespace nano::kernels
