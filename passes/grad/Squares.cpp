// Finds squares of max(h, 0) whose roots the backward pass reads, and takes these from the squares.
#include "passes/grad/Squares.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"
#include "passes/fp8/Products.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "nano-recompute"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// True for select(h > 0, …) that reads h as nothing else.
bool comparesWithZero(Operation *user, Value h) {
  auto select = dyn_cast<SelectOp>(user);
  return select && select.getPredicate() == Predicate::gt && select.getLhs() == h &&
         isZero(select.getRhs()) && select.getOnTrue() != h && select.getOnFalse() != h;
}

class SquareFinder {
public:
  SquareFinder(ProgramOp function, const ForwardPass &forward)
      : function(function), forward(forward) {}

  LogicalResult findScaled();
  bool suits(MulOp square) const;

private:
  Value sourceOf(Value value) const;
  bool isThere(Value value) const;
  bool isReadByProducts(Value square) const;

  ProgramOp function;
  const ForwardPass &forward;
  DenseSet<Operation *> scaled; ///< products that are to read 8-bit numbers
};

LogicalResult SquareFinder::findScaled() {
  FailureOr<SmallVector<fp8::Product>> chosen = fp8::chosenProducts(function);
  if (failed(chosen))
    return failure();
  for (const fp8::Product &product : *chosen)
    scaled.insert(product.op);
  return success();
}

/// Whether the backward pass has `value` without anything being kept for that.
bool SquareFinder::isThere(Value value) const {
  Operation *op = value.getDefiningOp();
  return forward.isThere(value) || (isa_and_present<BroadcastOp, ReshapeOp, CastOp>(op) &&
                                    forward.isThere(op->getOperand(0)));
}

/// True for one number a row of what `user` makes.
bool isOfRows(Value value, Operation *user) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && isa<MulOp>(user) && broadcast.getDims() == ArrayRef<int64_t>{0} &&
         tensorType(broadcast.getX()).getRank() == 1;
}

/// The value that must be kept to have `value`, if that is one alone, beside numbers of its rows,
/// and nobody else reads it or what lies between; else null.
Value SquareFinder::sourceOf(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && forward.isCheap(op) && !forward.isThere(value)) {
    Value next;
    for (Value operand : op->getOperands()) {
      if (isThere(operand) || operand == next || isOfRows(operand, op))
        continue;
      if (next || !operand.hasOneUse())
        return {};
      next = operand;
    }
    if (!next)
      return {};
    value = next;
    op = value.getDefiningOp();
  }
  return op && !forward.isThere(value) ? value : Value();
}

/// Whether kernels of their own read the square forward and backward, and none in 8 bits.
bool SquareFinder::isReadByProducts(Value square) const {
  bool forwards = false, backwards = false;
  SmallVector<Value> shapes{square};
  while (!shapes.empty())
    for (Operation *user : shapes.pop_back_val().getUsers()) {
      if (scaled.contains(user))
        return false;
      if (isa<ReshapeOp>(user))
        shapes.push_back(user->getResult(0));
      else if (isa<MatmulOp>(user))
        (forward.contains(user) ? forwards : backwards) = true;
    }
  return forwards && backwards;
}

bool SquareFinder::suits(MulOp square) const {
  auto root = square.getLhs().getDefiningOp<MaxOp>();
  if (square.getLhs() != square.getRhs() || !root || !forward.contains(square) ||
      !isa<FloatType>(tensorType(square).getElementType()) || !isZero(root.getRhs()))
    return false;
  bool isRead = false;
  for (Operation *user : root->getUsers()) {
    if (forward.contains(user) ? user != square : !isa<MulOp>(user))
      return false;
    isRead |= !forward.contains(user);
  }
  Value h = root.getLhs();
  for (Operation *user : h.getUsers())
    if (forward.contains(user) ? user != root : !comparesWithZero(user, h))
      return false;
  Value source = sourceOf(h);
  return isRead && source && bytesOf(source) >= bytesOf(square) && isReadByProducts(square);
}

} // namespace

FailureOr<SmallVector<SqrtOp>> nano::keepSquares(ProgramOp function, const ForwardPass &forward) {
  SquareFinder finder(function, forward);
  if (failed(finder.findScaled()))
    return failure();
  SmallVector<SqrtOp> roots;
  for (MulOp square : llvm::to_vector(function.getOps<MulOp>())) {
    if (!finder.suits(square))
      continue;
    auto relu = square.getLhs().getDefiningOp<MaxOp>();
    OpBuilder builder(square->getContext());
    builder.setInsertionPointAfter(square);
    auto root = SqrtOp::create(builder, relu.getLoc(), square.getType(), square.getResult());
    auto isBackward = [&](OpOperand &use) { return !forward.contains(use.getOwner()); };
    relu.getResult().replaceUsesWithIf(root, isBackward);
    relu.getLhs().replaceUsesWithIf(square, isBackward);
    LDBG() << "keeps the square, and takes the root of it: " << square << " " << square.getLoc();
    roots.push_back(root);
  }
  return roots;
}
