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

void joinUpdates(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>(trainingAttrName);
  auto isJoined = training ? training.getAs<BoolAttr>("join_update") : BoolAttr();
  if (!isJoined || !isJoined.getValue())
    return;
  SmallVector<func::FuncOp> lasts, updates;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto role = function->getAttrOfType<StringAttr>(roleAttrName);
    if (role && role == "last")
      lasts.push_back(function);
    else if (role && role == "update")
      updates.push_back(function);
  }
  if (lasts.empty())
    return; // `next` is the last program too, and one rank communicates nothing
  for (func::FuncOp last : lasts) {
    // All phases of one `last` have the same `update`.
    int64_t phase = 0;
    while (!runsInPhase(last, phase))
      ++phase;
    OpBuilder builder(last.front().getTerminator());
    for (func::FuncOp update : updates) {
      if (!runsInPhase(update, phase))
        continue;
      IRMapping mapping;
      for (Operation &op : update.front().without_terminator())
        builder.clone(op, mapping);
    }
  }
  for (func::FuncOp update : updates)
    update.erase();
}

} // namespace nano
