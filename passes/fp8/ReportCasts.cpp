// nano-report-casts: which conversions to 8 bits, largest magnitudes and transposes did not become
// part of the kernel that makes their operand, and why.
//
// It looks at fused programs and changes nothing: a conversion whose operand is an input of its
// kernel has read it from memory. A kernel writes its results' transposes itself.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_REPORTCASTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// What a value inside or outside of kernels is, without casts to wider types and views.
Value withoutViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto cast = dyn_cast<CastOp>(op);
    const bool widens = cast && tensorType(cast.getX()).getElementTypeBitWidth() <
                                    tensorType(cast.getResult()).getElementTypeBitWidth();
    if (!widens && !isa<ReshapeOp, TransposeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The value outside of kernels that `value`, inside of one, is read from; null when the kernel
/// makes it itself.
Value inputBehind(Value value) {
  auto argument = dyn_cast<BlockArgument>(withoutViews(value));
  auto fused = argument ? dyn_cast<FusedOp>(argument.getOwner()->getParentOp()) : FusedOp();
  return fused ? withoutViews(fused.getInputs()[argument.getArgNumber()]) : Value();
}

/// Whether `scale` is computed from `x`, through at most a few kernels.
bool isComputedFrom(Value scale, Value x) {
  llvm::SetVector<Value> seen;
  seen.insert(scale);
  for (size_t i = 0; i < seen.size() && i < 64; ++i) {
    Value value = seen[i];
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (auto fused = dyn_cast<FusedOp>(argument.getOwner()->getParentOp()))
        seen.insert(fused.getInputs()[argument.getArgNumber()]);
      continue;
    }
    Operation *op = value.getDefiningOp();
    const bool isMaker = isa<FusedOp>(op) && op == x.getDefiningOp();
    if (isMaker || llvm::is_contained(op->getOperands(), x))
      return true;
    seen.insert_range(op->getOperands());
  }
  return false;
}

/// Why what reads `x` is not part of the kernel that makes it. `scale` may be null.
std::string reason(Value x, Value scale) {
  Operation *maker = x.getDefiningOp();
  if (auto load = dyn_cast_if_present<LoadOp>(maker)) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr());
    return state && state.getRole() == Role::Parameter
               ? "its operand is a parameter, and this happens once a step"
               : "its operand is a state";
  }
  if (scale && isComputedFrom(scale, x))
    return "its scale depends on more of its operand than a kernel has at hand";
  if (isa_and_present<FusedOp>(maker))
    return "the kernel that makes its operand walks over it in another order, or has too many "
           "operands already";
  if (maker)
    return ("its operand comes from " + maker->getName().getStringRef() +
            ", which is a kernel or a call of its own")
        .str();
  return "its operand is an argument of the program";
}

std::string sizesOf(Value value) {
  std::string text;
  for (int64_t size : tensorType(value).getShape())
    text += (text.empty() ? "" : "×") + std::to_string(size);
  return text;
}

/// x and 1/scale of f8(x·(1/scale)); null where `cast` is something else.
std::pair<Value, Value> quotientOf(CastOp cast) {
  auto mul = cast.getX().getDefiningOp<MulOp>();
  if (!mul)
    return {};
  for (auto [x, factor] :
       {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())})
    if (auto broadcast = factor.getDefiningOp<BroadcastOp>())
      return {x, broadcast.getX()};
  return {};
}

void reportFused(FusedOp fused) {
  for (Operation &op : fused.getBody().front()) {
    auto cast = dyn_cast<CastOp>(op);
    if (cast && isFloat8(tensorType(cast.getResult()).getElementType())) {
      auto [x, scale] = quotientOf(cast);
      Value input = inputBehind(x ? x : cast.getX());
      if (input)
        cast.emitRemark() << "a kernel of its own converts " << sizesOf(input) << " to "
                          << tensorType(cast.getResult()).getElementType() << ": "
                          << reason(input, scale);
    }
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && reduce.getCombiner() == Combiner::max) {
      auto abs = withoutViews(reduce.getX()).getDefiningOp<AbsOp>();
      Value input = abs ? inputBehind(abs.getX()) : Value();
      if (input)
        reduce.emitRemark() << "a kernel of its own measures " << sizesOf(input) << ": "
                            << reason(input, Value());
    }
  }
}

struct ReportCasts : public nano::impl::ReportCastsBase<ReportCasts> {
  void runOnOperation() override {
    ProgramOp measure = programWithRole(getOperation(), "measure");
    for (auto function : getOperation().getOps<ProgramOp>()) {
      if (function == measure)
        continue;
      for (Operation &op : function.getBody().front()) {
        if (auto fused = dyn_cast<FusedOp>(op))
          reportFused(fused);
        auto transpose = dyn_cast<TransposeOp>(op);
        if (transpose && isFloat8(tensorType(transpose.getResult()).getElementType()) &&
            !transpose.getX().hasOneUse() && !transpose.getX().getDefiningOp<FusedOp>())
          transpose.emitRemark() << "a kernel of its own transposes " << sizesOf(transpose.getX())
                                 << ": its operand is needed both ways";
      }
    }
  }
};

} // namespace
