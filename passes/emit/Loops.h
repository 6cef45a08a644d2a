// Loops of kernels' text, with the values that they carry from one turn to the next.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nano::kernels {

/// A turn's text: of the counter and the values carried so far, the values for the next turn, as
/// many.
using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;

/// for i = from, from + step, … below `to`, at the builder: what `inits` have become.
inline llvm::SmallVector<mlir::Value> emitLoop(mlir::OpBuilder &b, mlir::Location loc,
                                               mlir::Value from, mlir::Value to, int64_t step,
                                               mlir::ValueRange inits, LoopBody body) {
  mlir::Value distance = mlir::arith::ConstantIndexOp::create(b, loc, step);
  auto forOp = mlir::scf::ForOp::create(b, loc, from, to, distance, inits);
  mlir::OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  llvm::SmallVector<mlir::Value> next = body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!inits.empty()) { // otherwise the builder has made the terminator
    b.setInsertionPointToEnd(forOp.getBody());
    mlir::scf::YieldOp::create(b, loc, next);
  }
  return llvm::SmallVector<mlir::Value>(forOp.getResults());
}

/// Of the values carried so far, those for the next turn, as many, and whether there is one.
using WhileBody =
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange, mlir::Value &goesOn)>;

/// Turns until one says that it is the last, at the builder: what `inits` have become by then.
inline llvm::SmallVector<mlir::Value> emitWhile(mlir::OpBuilder &b, mlir::Location loc,
                                                mlir::ValueRange inits, WhileBody body) {
  const auto types = llvm::to_vector(inits.getTypes());
  const llvm::SmallVector<mlir::Location> locations(types.size(), loc);
  auto whileOp = mlir::scf::WhileOp::create(b, loc, types, inits);
  mlir::OpBuilder::InsertionGuard guard(b);
  mlir::Block *turn = b.createBlock(&whileOp.getBefore(), {}, types, locations);
  mlir::Value goesOn;
  const llvm::SmallVector<mlir::Value> next = body(turn->getArguments(), goesOn);
  mlir::scf::ConditionOp::create(b, loc, goesOn, next);
  mlir::Block *again = b.createBlock(&whileOp.getAfter(), {}, types, locations);
  mlir::scf::YieldOp::create(b, loc, again->getArguments());
  return llvm::SmallVector<mlir::Value>(whileOp.getResults());
}

} // namespace nano::kernels
