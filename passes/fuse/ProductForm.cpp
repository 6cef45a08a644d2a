// Products with an element-wise end, by what the device library's template takes.
#include "passes/fuse/ProductForm.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

MatmulOp productOf(Block &body) { return dyn_cast<MatmulOp>(body.front()); }

bool isFactorOfProduct(FusedOp fused, unsigned operand) {
  Block &body = fused.getBody().front();
  MatmulOp product = productOf(body);
  const Value argument = body.getArgument(operand);
  return product && (product.getA() == argument || product.getB() == argument);
}

std::string productObstacle(MatmulOp product) {
  const RankedTensorType a = tensorType(product.getA()), b = tensorType(product.getB()),
                         c = tensorType(product.getResult());
  if (c.getRank() != 2)
    return "it is a batch of products";
  if (!a.getElementType().isBF16() || !b.getElementType().isBF16())
    return "its operands are not bf16";
  if (!c.getElementType().isBF16())
    return "its result is not bf16";
  if (product.getTransposeA())
    return "its first operand is transposed";
  if (product.getAddend())
    return "it has an addend";
  if (!product.getAlpha().isExactlyValue(1.0))
    return "it has a factor";
  constexpr int64_t rowElements = 8; // of bf16 in 16 bytes
  if (c.getDimSize(1) % rowElements != 0 || a.getDimSize(1) % rowElements != 0)
    return "its rows are no multiples of 16 bytes";
  return "";
}

/// True for what a thread computes of eight neighbours of a row from those of its operands.
static bool isOfElements(Operation &op) {
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return tensorType(broadcast.getX()).getRank() == 0 ||
           broadcast.getDims() == ArrayRef<int64_t>{1};
  return op.hasTrait<ElementwiseOp>() || isa<ConstantOp>(op);
}

std::string epilogueObstacle(Block &body, Value product) {
  const ArrayRef<int64_t> whole = tensorType(product).getShape();
  auto fits = [&](Value value) {
    const RankedTensorType type = tensorType(value);
    return type.getElementTypeBitWidth() >= 16 &&
           (type.getRank() == 0 || type.getShape() == whole ||
            type.getShape() == whole.drop_front());
  };
  auto isFactor = [&](Value value) {
    Operation *made = product.getDefiningOp();
    return made && llvm::all_of(value.getUsers(), [&](Operation *user) { return user == made; });
  };
  for (BlockArgument argument : body.getArguments())
    if (!isFactor(argument) &&
        (!fits(argument) ||
         (tensorType(argument).getRank() == 0 && !tensorType(argument).getElementType().isF32())))
      return "its kernel reads more than whole matrices, columns and numbers";
  for (Operation &op : body.without_terminator()) {
    if (&op == product.getDefiningOp())
      continue;
    if (!isOfElements(op))
      return ("its kernel has a " + op.getName().getStringRef()).str();
    if (!llvm::all_of(op.getResults(), fits))
      return "its kernel has values of other sizes or of 8 bits";
  }
  for (Value result : body.getTerminator()->getOperands())
    if (tensorType(result).getRank() != 2)
      return "its kernel has results of other sizes";
  return "";
}

SmallVector<Value> epilogueOperands(MatmulOp product) {
  SmallVector<Value> operands;
  for (Value argument : product->getBlock()->getArguments())
    if (llvm::any_of(argument.getUsers(), [&](Operation *user) { return user != product; }))
      operands.push_back(argument);
  return operands;
}

SmallVector<Value> epilogueResults(MatmulOp product) {
  llvm::SetVector<Value> results;
  for (Value result : product->getBlock()->getTerminator()->getOperands())
    results.insert(result);
  return results.takeVector();
}

} // namespace nano
