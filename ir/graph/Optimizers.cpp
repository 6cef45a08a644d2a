// What must hold of an optimizer's equations.
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/Shapes.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

LogicalResult OptimizerOp::verify() {
  if (static_cast<int64_t>(getEvery()) < 1)
    return emitOpError("every is ") << static_cast<int64_t>(getEvery()) << ", must be at least 1";
  if (getStates().size() != getInits().size())
    return emitOpError() << getStates().size() << " states, " << getInits().size()
                         << " initial values";
  llvm::StringSet<> names;
  for (Attribute name : getStates()) {
    StringRef text = cast<StringAttr>(name).getValue();
    if (text.empty() || !names.insert(text).second)
      return emitOpError("state '") << text << "' " << (text.empty() ? "has no name" : "repeats");
  }
  if (llvm::any_of(getInits(), [](double value) { return !std::isfinite(value); }))
    return emitOpError("an initial value is not finite");
  if (getCut() && !llvm::is_contained({"elements", "rows", "matrices", "whole"}, *getCut()))
    return emitOpError("cut is '") << *getCut() << "', must be elements, rows, matrices or whole";
  return success();
}

LogicalResult OptimizerOp::verifyRegions() {
  if (!hasEquations())
    return success();
  Block &block = getBody().front();
  const size_t states = getStates().size();
  if (block.getNumArguments() != states + 2)
    return emitOpError("body takes ") << block.getNumArguments() << " tensors; wanted are "
                                      << states + 2 << ": parameter, gradient, states";
  auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
  if (!llvm::all_of(block.getArgumentTypes(), isTensor))
    return emitOpError("body must take tensors");
  auto parameter = cast<RankedTensorType>(block.getArgument(0).getType());
  if (block.getArgument(1).getType() != parameter.clone(Float32Type::get(getContext())))
    return emitOpError("gradient is ")
           << block.getArgument(1).getType() << "; wanted is f32 of the parameter's shape "
           << shapeText(parameter);
  SmallVector<Type> updated{parameter};
  for (BlockArgument state : block.getArguments().drop_front(2))
    updated.push_back(state.getType());
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getOperandTypes() != TypeRange(updated))
    return emitOpError("body must yield the parameter and the states, of their types");
  for (Operation &op : block.without_terminator())
    if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
        !(isa<LoadOp>(op) || isMemoryEffectFree(&op)) ||
        isa<AllReduceOp, ReduceScatterOp, AllGatherOp, ShardOp>(op))
      return emitOpError("body holds ") << op.getName() << ", which no update can";
  return success();
}

LogicalResult OptimizerOp::verifySymbolUses(SymbolTableCollection &table) {
  auto scalar = table.lookupNearestSymbolFrom<ScalarOp>(*this, getLrAttr());
  if (!scalar)
    return emitOpError("lr: no scalar named ") << getLrAttr();
  if (!scalar.getType().isF32())
    return emitOpError("lr: scalar ") << getLrAttr() << " must be f32, is " << scalar.getType();
  for (LoadOp load : getBody().getOps<LoadOp>())
    if (!table.lookupNearestSymbolFrom<ScalarOp>(getOperation(), load.getSymbolAttr()))
      return load.emitOpError("in an optimizer's equations loads no scalar: ")
             << load.getSymbolAttr();
  return success();
}
