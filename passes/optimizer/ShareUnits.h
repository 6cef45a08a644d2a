// What of parameters belongs to the share of their gradients that a rank updates.
#pragma once

#include "ir/graph/Sharding.h"
#include "passes/optimizer/UpdateBatches.h"

#include "mlir/IR/Builders.h"

namespace nano {

/// A gradient of which this rank has a part: of one parameter, or of several whose equations have
/// products.
struct UpdateShare {
  graph::StateOp gradient;
  graph::Sharding sharding;
  UpdateBatch members; ///< in no order

  bool isBank() const { return members.front().form->hasProducts(); }
  /// The place of a member's first unit in a bank.
  int64_t placeOf(const UpdatedParameter &member) const;
};

/// This rank's `units` units of `value`, of the first member's equations, [units, …], given the
/// whole of each member; zeros for what is missing in a bank to whole rounds.
mlir::Value unitsOf(mlir::OpBuilder &builder, const UpdateShare &share, int64_t units,
                    mlir::Value value,
                    llvm::function_ref<mlir::Value(const UpdatedParameter &)> whole);

/// The same of the result of an op of the first member's equations whose numbers tell places; i32
/// is cut as f32, which holds what UpdateForm lets through.
mlir::Value placedUnits(mlir::OpBuilder &builder, const UpdateShare &share, int64_t units,
                        mlir::Operation *source);

/// `count` of the first dimension, from `from` on.
mlir::Value partOf(mlir::OpBuilder &builder, mlir::Value whole, int64_t from, int64_t count);

/// All along the first dimension.
mlir::Value joined(mlir::OpBuilder &builder, mlir::Location location,
                   llvm::ArrayRef<mlir::Value> parts);

} // namespace nano
