// Which ops the backward pass computes again without a second thought.
#pragma once

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/STLExtras.h"

namespace nano::grad {

/// Ops whose result is another look at the operand, or can be one inside any kernel, and has no
/// fewer bytes.
inline bool isTransparent(mlir::Operation *op) {
  if (auto cast = mlir::dyn_cast<graph::CastOp>(op))
    return graph::tensorType(cast.getResult()).getElementTypeBitWidth() >=
           graph::tensorType(cast.getX()).getElementTypeBitWidth();
  return mlir::isa<graph::ReshapeOp, graph::SliceOp, graph::BroadcastOp>(op);
}

/// Element-wise ops and views, rotations, reductions within a row, gathers from a state.
inline bool isCheap(mlir::Operation *op) {
  if (auto reduce = mlir::dyn_cast<graph::ReduceOp>(op))
    return !llvm::is_contained(reduce.getDims(), 0);
  if (auto gather = mlir::dyn_cast<graph::GatherOp>(op)) {
    mlir::Operation *table = gather.getTable().getDefiningOp();
    if (auto cast = mlir::dyn_cast_if_present<graph::CastOp>(table))
      table = cast.getX().getDefiningOp();
    return mlir::isa_and_present<graph::LoadOp>(table);
  }
  return op->hasTrait<graph::ElementwiseOp>() || isTransparent(op) ||
         mlir::isa<graph::RotateOp>(op);
}

} // namespace nano::grad
