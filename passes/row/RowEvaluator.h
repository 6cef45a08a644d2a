// Evaluates a task's tensors at positions: one element or one vector of elements at a time,
// computing each only once where it is valid.
#pragma once

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/row/RowPositions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace nano::kernels {

/// Walks the task's graph from the value that is asked for to the operands, emitting what is
/// missing. Code for a value stands in the outermost loop whose indices it depends on.
class RowEvaluator : public RowPositions {
public:
  RowEvaluator(KernelFrame &frame);

  KernelFrame &frame;
  /// Mask of the lanes that vector loads may touch; null for all.
  mlir::Value mask;
  /// What an output overwrites is read no further out than at this depth: code there may be that of
  /// threads that have no row, which would read what others store meanwhile.
  unsigned overwrittenFrom = 0;
  /// A choice that is known to take its second value.
  graph::SelectOp secondOf;
  /// Where it is not 0, the columns at hand, of rows of `columns`, are less than it: choices that
  /// compare them with as many or more take their first value.
  int64_t columnsBelow = 0, columns = 0;

  //===- Values -----------------------------------------------------------===//

  /// The element(s) of `value` at `position`: a scalar if all coordinates are uniform, else a
  /// vector.
  mlir::FailureOr<Computed> evaluate(mlir::Value value, Position position);
  /// The same of several values.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> evaluateAll(llvm::ArrayRef<mlir::Value> values,
                                                              const Position &position);
  /// Loads what `value` is computed from at `position`, but for what a reduction of the row is
  /// computed from: evaluating it there finds the loads done. `seen`: values that are done.
  mlir::LogicalResult loadOperands(mlir::Value value, Position position,
                                   llvm::DenseSet<mlir::Value> &seen);
  /// Says what `value` is at `position`, at the present depth.
  void define(mlir::Value value, Position position, mlir::Value computed);
  /// Where in the memory of input `i`, whose rows lie as wholes, the first lane's element is.
  Index firstOf(unsigned i, Position position);
  /// Writes to element(s) of the argument for output `i`.
  void storeOutput(unsigned i, mlir::Value value, Position position);

  /// A tensor of which `elements` (the last digits) of the present row are in private or shared
  /// memory; `row` is the merged rest.
  struct Staged {
    mlir::Value memory;
    int64_t elements = 0;
    mlir::Value row;
  };
  /// Tensors that need not be computed from now on.
  llvm::DenseMap<mlir::Value, Staged> staged;

  /// Tensors of which every thread keeps the elements of its own columns in registers:
  /// memref<n x vector<lanes x T>>. They are read where the position is the thread's own.
  llvm::DenseMap<mlir::Value, mlir::Value> held;
  /// Where the thread is: vector `slot` of the `elements` (the last digits) of `row` begins at
  /// `column`. `column` null: nowhere.
  struct Own {
    int64_t elements = 0;
    mlir::Value row, column, slot;
  };
  Own own;
  /// Outputs that are stored in shared memory for now, and where there the element(s) at hand go.
  struct Tile {
    mlir::Value memory, at;
  };
  llvm::DenseMap<unsigned, Tile> tiles;
  /// Tensors that were stored already: their output.
  llvm::DenseMap<mlir::Value, unsigned> stored;
  /// Row reductions' results: one number for the present row.
  struct RowScalar {
    Computed computed;
    mlir::Value row;
  };
  llvm::DenseMap<mlir::Value, RowScalar> rowScalars;

private:
  llvm::DenseMap<mlir::Value, bool> uniforms;

  /// At depth `from` or deeper.
  Computed loadArgument(mlir::Value argument, mlir::MemRefType type, Position position,
                        unsigned from = 0);
  bool isOverwritten(unsigned input) const;
  /// True for a choice of a first value in columns that those at hand are among.
  bool takesFirst(graph::SelectOp select) const;
  mlir::FailureOr<Computed> compute(mlir::Value value, Position &position);
  std::optional<Computed> fromStaged(mlir::Value value, Position &position);
  std::optional<Computed> fromHeld(mlir::Value value, Position &position);
  Position broadcastOperand(graph::BroadcastOp op, Position position);
  llvm::SmallVector<Position, 2> rotatedOperand(graph::RotateOp op, Position position);
  bool rotatesLanes(graph::RotateOp op, const Position &position) const;
  mlir::FailureOr<Computed> rotate(graph::RotateOp op, Position position);
  Position permutedOperand(graph::PermuteOp op, Position position);
  mlir::FailureOr<Computed> elementwise(mlir::Operation *op, const Position &position);
  mlir::FailureOr<Computed> contracted(mlir::Operation *op, const Position &position);
  mlir::FailureOr<Computed> gathered(graph::GatherOp op, Position position);
  Computed iota(graph::IotaOp op, Position position);
  /// True when all elements of the value are equal, whatever the operands hold.
  bool isUniform(mlir::Value value);
  Key keyOf(mlir::Value value, const Position &position) const;
};

} // namespace nano::kernels
