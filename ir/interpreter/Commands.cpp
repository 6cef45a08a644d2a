// Tasks and products as blocks of graph ops.
#include "ir/interpreter/Commands.h"

#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/interpreter/Machine.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace nano::interpreter {

FailureOr<SmallVector<TensorValue>> interpret(step::TaskOp task, ArrayRef<TensorValue> ins,
                                              const Options &options) {
  StateMap none;
  return Machine(none, options).runBlock(task.getBody().front(), ins);
}

SmallVector<Value> factorsOf(step::MatmulOp matmul) {
  SmallVector<Value> factors;
  for (Value operand :
       {matmul.getA(), matmul.getB(), matmul.getScaleA(), matmul.getScaleB(), matmul.getD()})
    if (operand)
      factors.push_back(operand);
  return factors;
}

FailureOr<SmallVector<TensorValue>> interpret(step::MatmulOp matmul, ArrayRef<TensorValue> factors,
                                              const Options &options) {
  const Location loc = matmul.getLoc();
  auto tensor = [](Value view) { return step::tensorOf(cast<MemRefType>(view.getType())); };
  OpBuilder builder(matmul.getContext());
  Block block;
  builder.setInsertionPointToEnd(&block);
  auto argument = [&](Value view) {
    return view ? Value(block.addArgument(tensor(view), loc)) : Value();
  };
  const Type type = tensor(matmul.getC());
  const Value a = argument(matmul.getA()), b = argument(matmul.getB()),
              scaleA = argument(matmul.getScaleA()), scaleB = argument(matmul.getScaleB()),
              addend = argument(matmul.getD());
  Value product;
  if (scaleA)
    product = graph::ScaledMatmulOp::create(builder, loc, type, a, b, scaleA, scaleB, addend,
                                            matmul.getTransposeA(), matmul.getTransposeB(),
                                            matmul.getAlpha(), matmul.getBeta(), DictionaryAttr());
  else
    product = graph::MatmulOp::create(builder, loc, type, a, b, addend, matmul.getTransposeA(),
                                      matmul.getTransposeB(), matmul.getAlpha(), matmul.getBeta());
  graph::YieldOp::create(builder, loc, product);
  StateMap none;
  return Machine(none, options).runBlock(block, factors);
}

} // namespace nano::interpreter
