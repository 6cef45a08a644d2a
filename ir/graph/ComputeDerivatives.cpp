// Derivatives of matrix products, tables, attention and cross-entropy: vector-Jacobian products as
// graph ops.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/TableOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace nano::graph;

namespace {

using Gradients = SmallVector<Value>;

} // namespace

/// With A = op(a), B = op(b): dA = alpha·dy·Bᵀ, dB = alpha·Aᵀ·dy, each written so that it comes out
/// as a and b are stored. The second operand's comes first: it is the parameter's, and what it
/// reads can be freed before the first operand's is made.
Gradients MatmulOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Value a = getA(), b = getB(), dy = g.cast(resultGrads[0], tensorType(a).getElementType());
  bool ta = getTransposeA(), tb = getTransposeB();
  auto product = [&](Type type, Value left, bool transposeLeft, Value right, bool transposeRight) {
    auto op = MatmulOp::create(builder, getLoc(), type, left, right, transposeLeft, transposeRight);
    op.setAlphaAttr(getAlphaAttr());
    return op.getResult();
  };
  Value db = tb ? product(b.getType(), dy, true, a, ta) : product(b.getType(), a, !ta, dy, false);
  Value da = ta ? product(a.getType(), b, tb, dy, true) : product(a.getType(), dy, false, b, !tb);
  Gradients gradients{da, db};
  if (getAddend())
    gradients.push_back(g.mul(resultGrads[0], getBeta().convertToDouble()));
  return gradients;
}

Gradients GroupedMatmulOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  const Value x = getX(), w = getW(), dy = g.cast(resultGrads[0], tensorType(x).getElementType());
  Value dx = GroupedMatmulOp::create(builder, getLoc(), x.getType(), dy, w, getEnds(),
                                     getTranspose() ? UnitAttr() : builder.getUnitAttr());
  Value dw = GroupedOuterOp::create(builder, getLoc(), w.getType(), getTranspose() ? dy : x,
                                    getTranspose() ? x : dy, getEnds());
  return {dx, dw, Value()};
}

Gradients GroupedOuterOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  const Value a = getA(), b = getB(), dw = g.cast(resultGrads[0], tensorType(a).getElementType());
  Value da = GroupedMatmulOp::create(builder, getLoc(), a.getType(), b, dw, getEnds(),
                                     builder.getUnitAttr());
  Value db = GroupedMatmulOp::create(builder, getLoc(), b.getType(), a, dw, getEnds(), UnitAttr());
  return {da, db, Value()};
}

Gradients GatherOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  return {ScatterAddOp::create(builder, getLoc(), getTable().getType(), resultGrads[0], getIds()),
          Value()};
}

Gradients ScatterAddOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Type rows = tensorType(resultGrads[0]).clone(tensorType(getX()).getShape());
  Value dx = GatherOp::create(builder, getLoc(), rows, resultGrads[0], getIds());
  return {g.cast(dx, tensorType(getX()).getElementType()), Value()};
}

//===- Attention ---------------------------------------------------------------------------===//

namespace {

/// Fills `region` with the derivative of `score`: a block that maps (score, query, key, head,
/// gradient of f) to the gradient of the score before f, by reverse differentiation of f's ops.
void buildScoreGrad(OpBuilder &builder, Region &score, Region &region) {
  OpBuilder::InsertionGuard guard(builder);
  Block &forward = score.front();
  SmallVector<Type> types(forward.getArgumentTypes());
  types.push_back(types.front());
  Block *block = builder.createBlock(&region, region.end(), types,
                                     SmallVector<Location>(types.size(), score.getLoc()));
  IRMapping mapping;
  mapping.map(forward.getArguments(), block->getArguments().drop_back());
  SmallVector<Operation *> ops;
  for (Operation &op : forward.without_terminator())
    ops.push_back(builder.clone(op, mapping));

  DenseMap<Value, Value> gradients;
  gradients[mapping.lookup(forward.getTerminator()->getOperand(0))] = block->getArguments().back();
  for (Operation *op : llvm::reverse(ops)) {
    Value dy = gradients.lookup(op->getResult(0));
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!dy || !differentiable)
      continue;
    SmallVector<Value> contributions = differentiable.buildDerivative(builder, dy);
    for (auto [operand, contribution] : llvm::zip_equal(op->getOperands(), contributions)) {
      if (!contribution)
        continue;
      Value &sum = gradients[operand];
      sum = sum ? GraphBuilder(builder, op->getLoc()).add(sum, contribution) : contribution;
    }
  }
  Value result = gradients.lookup(block->getArgument(0));
  GraphBuilder g(builder, score.getLoc());
  YieldOp::create(builder, score.getLoc(), result ? result : g.constant(0, types.front()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace

/// dS = P ∘ (dy·vᵀ − delta) for the gradient of y; a gradient of lse adds P ∘ dlse, that is, it
/// lowers delta.
Gradients AttentionOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Value dy = resultGrads[0], dlse = resultGrads[1];
  if (!dy)
    dy = g.constant(0, getY().getType());
  Value delta = g.reduce(Combiner::sum, g.mul(g.toF32(dy), g.toF32(getY())), {2});
  if (dlse)
    delta = g.sub(delta, dlse);
  auto grad = AttentionGradOp::create(
      builder, getLoc(), TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(),
      getK(), getV(), getFirst(), getLast(), getLse(), delta, dy, getScaleAttr());
  if (!getScore().empty()) {
    IRMapping mapping;
    getScore().cloneInto(&grad.getScore(), mapping);
    buildScoreGrad(builder, getScore(), grad.getScoreGrad());
  }
  return {grad.getDq(), grad.getDk(), grad.getDv(), Value(), Value()};
}

//===- Cross-entropy -----------------------------------------------------------------------===//

/// dlogits = P·(dloss + dlse) − onehot(targets)·dloss with P = e^(logits − lse).
Gradients CrossEntropyOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  ArrayRef<int64_t> shape = tensorType(getLogits()).getShape();
  Value shifted = g.sub(getLogits(), g.broadcast(getLse(), shape, {0}));
  Value softmax = ExpOp::create(builder, getLoc(), shifted.getType(), shifted);
  Value targets = g.broadcast(getTargets(), shape, {0});
  Value columns = IotaOp::create(builder, getLoc(), targets.getType(), 1);
  Value dloss = resultGrads[0] ? g.broadcast(resultGrads[0], shape, {0}) : Value();
  Value dlse = resultGrads[1] ? g.broadcast(resultGrads[1], shape, {0}) : Value();
  if (!dlse)
    return {g.mul(g.select(Predicate::eq, columns, targets, g.add(softmax, -1.0), softmax), dloss),
            Value()};
  if (!dloss)
    return {g.mul(softmax, dlse), Value()};
  Value weighted = g.mul(softmax, g.add(dloss, dlse));
  return {g.select(Predicate::eq, columns, targets, g.sub(weighted, dloss), weighted), Value()};
}
