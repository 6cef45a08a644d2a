// What the equations of an update allow: into which pieces a parameter can be cut, and what of them
// can be computed for many parameters at once.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <string>

namespace nano {

/// The equations of one nano.optimizer, analysed.
///
/// A parameter's elements in row-major order are `units()` pieces of one size, and no piece of a
/// new value depends on another piece of an old one:
///
///   element-wise equations                       a unit is an element
///   sums over the last dimension                 a row
///   products, sums over the last two dimensions  a matrix
///   else                                         all of the parameter
///
/// Tensors of the equations that depend on the parameter, its gradient or its states have the units
/// side by side; so have those made of numbers that are not the same for each unit, because they
/// tell places in the parameter (`placed`):
///
///   lr · cast(iota([3, 1, 1], 0) + 1)            of [3, 768, 768]: a rate for each matrix
///
/// All others, made of schedules and numbers alone, are the same for each unit (`uniform`). The
/// equations hold for any number of units, of one parameter or of several whose units are equal:
/// the update of a stack of matrices is that of each. UpdateEmitter writes them so; it only has to
/// be told which places its units have (`placeSources`).
class UpdateForm {
public:
  explicit UpdateForm(graph::OptimizerOp op);

  graph::OptimizerOp op() const { return optimizer; }
  mlir::Block &body() const;
  mlir::RankedTensorType parameterType() const;
  /// What the equations yield: the parameter, then the states.
  mlir::ValueRange results() const;

  int64_t units() const { return count; }
  int64_t unitElements() const { return parameterType().getNumElements() / count; }
  /// "element", "row", "matrix" or "parameter", as a remark says it.
  std::string unitName() const;
  /// The op that keeps units from being smaller; null where they are elements.
  mlir::Operation *limit() const { return limiting; }
  /// Whether pieces as `cut` of nano.optimizer asks can be updated apart from each other.
  bool canCut(llvm::StringRef cut) const;

  /// Whether the value has the units side by side: it depends on the parameter, its gradient or its
  /// states, or is placed.
  bool isVarying(mlir::Value value) const { return varying.contains(value) || isPlaced(value); }
  /// Whether the value is made of numbers alone and is not the same for each unit.
  bool isPlaced(mlir::Value value) const { return placed.contains(value); }
  /// The placed values that no others tell for a unit alone, iotas for example: written for all of
  /// a parameter, and cut; in order.
  llvm::ArrayRef<mlir::Operation *> placeSources() const { return sources; }
  /// The type of `units` units of a varying value: [units, what a unit has…]; of a piece of a
  /// tensor that no dimension cuts so, [units, elements].
  mlir::RankedTensorType typeOf(mlir::Value value, int64_t units) const;
  /// Elements of a unit of a varying value.
  int64_t unitElementsOf(mlir::Value value) const;
  /// The first dimension inside of a unit; −1 where no dimension begins there.
  int64_t axisOf(mlir::Value value) const { return axis(value, count); }
  /// Whether all values can be written for any number of units.
  bool isStackable() const { return stackable; }

  /// Matrix products, and what lies on the way from one to another, in their order.
  llvm::ArrayRef<mlir::Operation *> core() const { return coreOps; }
  bool hasProducts() const { return !coreOps.empty(); }
  /// Varying values that the core reads and does not compute.
  llvm::ArrayRef<mlir::Value> coreInputs() const { return inputs; }
  /// Values of the core that other ops read.
  llvm::ArrayRef<mlir::Value> coreOutputs() const { return outputs; }
  /// Whether the value depends on a product.
  bool isAfterProducts(mlir::Value value) const { return afterProducts.contains(value); }

  /// Where ranks that have updated their units pass on what all need: the value from which, with
  /// the parameter alone, each rank computes the whole new parameter. The one of fewest bytes after
  /// all products; of equals the new parameter itself, but, where the parameter's units are not at
  /// hand as one tensor (`apart`), the first that does not depend on the parameter.
  mlir::Value gathered(bool apart) const;
  /// All ops that the value and the new states need, in order.
  llvm::SmallVector<mlir::Operation *> computedApart(mlir::Value gathered) const;
  /// Whether these ops, of this form, read the parameter.
  bool readParameter(llvm::ArrayRef<mlir::Operation *> ops) const;

private:
  int64_t axis(mlir::Value value, int64_t units) const;
  /// The first op that is not the same computation for each of so many units; null where there is
  /// none.
  mlir::Operation *firstAcross(int64_t units) const;
  bool isLocal(mlir::Operation &op, int64_t units) const;
  /// Whether a uniform value is the same for all units of a tensor of its shape.
  bool isInvariant(mlir::Value value, int64_t axis) const;
  /// Whether a uniform value that is not the same for all units can be placed.
  bool canPlace(mlir::Value value, int64_t units) const;
  /// Whether each unit of the result repeats what that unit of the operand has.
  bool repeatsInside(graph::BroadcastOp op, int64_t units) const;
  void place(mlir::Value value);
  void findPlaced();
  void findUnits();
  void findCore();

  graph::OptimizerOp optimizer;
  int64_t count = 1;
  bool stackable = false;
  mlir::Operation *limiting = nullptr;
  llvm::DenseSet<mlir::Value> varying, placed, afterProducts;
  llvm::SmallVector<mlir::Operation *> coreOps, sources;
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Whether a uniform value has the same number everywhere.
bool isSplat(mlir::Value value);

/// Whether both lists, of ops of two forms in order, compute the same of a unit each.
bool areAlike(const UpdateForm &a, llvm::ArrayRef<mlir::Operation *> opsA, const UpdateForm &b,
              llvm::ArrayRef<mlir::Operation *> opsB);

} // namespace nano
