// Making the program `update`, and making it the end of `last`.
#include "passes/optimizer/UpdateProgram.h"

#include "ir/graph/Phases.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

ProgramOp updateProgram(ModuleOp module) {
  if (ProgramOp present = programWithRole(module, "update"))
    return present;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto update = ProgramOp::create(builder, module.getLoc(), "update",
                                  builder.getFunctionType({}, {}), "update");
  builder.setInsertionPointToStart(update.addEntryBlock());
  ReturnOp::create(builder, module.getLoc());
  return update;
}

LogicalResult joinUpdates(ModuleOp module) {
  const DictionaryAttr training = trainingOf(module);
  auto isJoined = training ? training.getAs<BoolAttr>("join_update") : BoolAttr();
  if (!isJoined || !isJoined.getValue())
    return success();
  SmallVector<ProgramOp> lasts, updates;
  for (auto function : module.getOps<ProgramOp>()) {
    if (function.hasRole("last"))
      lasts.push_back(function);
    else if (function.hasRole("update"))
      updates.push_back(function);
  }
  if (lasts.empty())
    return success(); // `next` is the last program too, and one rank communicates nothing
  const auto phases = llvm::seq(phaseCount(module));
  for (ProgramOp last : lasts) {
    OpBuilder builder(last.front().getTerminator());
    for (ProgramOp update : updates) {
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
  for (ProgramOp update : updates)
    update.erase();
  return success();
}

} // namespace nano
