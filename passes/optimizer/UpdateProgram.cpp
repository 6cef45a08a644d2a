// Making the program `update`, and making it the end of `last`.
#include "passes/optimizer/UpdateProgram.h"

#include "ir/graph/Phases.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

func::FuncOp updateProgram(ModuleOp module) {
  if (func::FuncOp present = functionWithRole(module, "update"))
    return present;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto update =
      func::FuncOp::create(builder, module.getLoc(), "update", builder.getFunctionType({}, {}));
  update->setAttr(roleAttrName, builder.getStringAttr("update"));
  builder.setInsertionPointToStart(update.addEntryBlock());
  func::ReturnOp::create(builder, module.getLoc());
  return update;
}

LogicalResult joinUpdates(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>(trainingAttrName);
  auto isJoined = training ? training.getAs<BoolAttr>("join_update") : BoolAttr();
  if (!isJoined || !isJoined.getValue())
    return success();
  SmallVector<func::FuncOp> lasts, updates;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto role = function->getAttrOfType<StringAttr>(roleAttrName);
    if (role && role == "last")
      lasts.push_back(function);
    else if (role && role == "update")
      updates.push_back(function);
  }
  if (lasts.empty())
    return success(); // `next` is the last program too, and one rank communicates nothing
  const auto phases = llvm::seq(phaseCount(module));
  for (func::FuncOp last : lasts) {
    OpBuilder builder(last.front().getTerminator());
    for (func::FuncOp update : updates) {
      auto together = [&](int64_t phase) {
        return runsInPhase(last, phase) && runsInPhase(update, phase);
      };
      auto apart = [&](int64_t phase) {
        return runsInPhase(last, phase) && !runsInPhase(update, phase);
      };
      if (llvm::none_of(phases, together))
        continue;
      if (llvm::any_of(phases, apart))
        return last.emitOpError("ends with @")
               << update.getSymName() << " in some of its phases only";
      IRMapping mapping;
      for (Operation &op : update.front().without_terminator())
        builder.clone(op, mapping);
    }
  }
  for (func::FuncOp update : updates)
    update.erase();
  return success();
}

} // namespace nano
