// The program that runs once a step, after all micro-batches.
#pragma once

#include "ir/graph/Program.h"

namespace nano {

/// The function with role "update"; added, empty, where there is none.
inline mlir::func::FuncOp updateProgram(mlir::ModuleOp module) {
  if (mlir::func::FuncOp present = graph::functionWithRole(module, "update"))
    return present;
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module.getBody());
  auto update = mlir::func::FuncOp::create(builder, module.getLoc(), "update",
                                           builder.getFunctionType({}, {}));
  update->setAttr(graph::roleAttrName, builder.getStringAttr("update"));
  builder.setInsertionPointToStart(update.addEntryBlock());
  mlir::func::ReturnOp::create(builder, module.getLoc());
  return update;
}

} // namespace nano
