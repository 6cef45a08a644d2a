// Chains of ops that compute row t of wide tensors from row t of others: where the rows of each
// tensor are, and what is summed over them.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/SetVector.h"

#include <optional>

namespace nano {

/// Where the rows of a chain are in a tensor: along dimension `dim`, `unit` rows an element (more
/// than one for scales of blocks). A negative `dim`: nowhere, every chunk reads the whole tensor.
struct RowDim {
  int64_t dim = -1, unit = 1;
  explicit operator bool() const { return dim >= 0; }
  bool operator==(const RowDim &other) const = default;
};

/// How one op of a chain acts on rows.
struct RowAction {
  llvm::SmallVector<RowDim> operands;           ///< one an operand
  RowDim result;                                ///< of all results; none where they combine rows
  std::optional<graph::Combiner> combines = {}; ///< the results combine all rows like this
  /// The results are numbers that each chunk has its own of: scales of 8-bit floats made from the
  /// largest element, and that element. Outside the chain they are those of all rows.
  bool isLocal = false;
};

/// A chain: a product whose rows are wide, and every op that reads or makes a tensor of at least as
/// many elements, with what lies between them.
///
/// A chain that reaches further begins with the products before the one whose result the root
/// reads, where they widen rows too, as the last MLP's do: the tensors in between are wide for it.
/// It also takes in what acts on rows alone at both ends, where fewer bytes cross its borders then.
class RowChain {
public:
  /// `root` is a nano.matmul or nano.scaled_matmul with a result of rank 2.
  explicit RowChain(mlir::Operation *root);

  /// Collects the ops of the chain; false, and `obstacle` set, when one of them mixes rows.
  bool collect();
  /// The same for a chain that reaches further; false where there is nothing to reach.
  bool collectFurther();

  mlir::Operation *root;
  int64_t rows;
  /// In program order.
  llvm::SmallVector<std::pair<mlir::Operation *, RowAction>> ops;
  mlir::Operation *obstacle = nullptr;

  bool contains(mlir::Operation *op) const { return members.contains(op); }
  /// True when the product's result, or an element-wise function of it, has a cross-entropy.
  bool isLogits() const;
  /// True for a tensor with rows that the chain makes and that nothing else needs: it exists a
  /// chunk at a time.
  bool isInner(mlir::Value value) const;
  /// Rows that no chunk may split, because one number describes them.
  int64_t alignment() const;

  /// Whether an op of this kind can act on rows one by one, or combine them.
  static bool mayKeepRows(mlir::Operation *op);
  /// `type` with `chunk` rows.
  static mlir::RankedTensorType withRows(mlir::Type type, RowDim where, int64_t chunk);

private:
  mlir::Block *block() const { return root->getBlock(); }
  bool isWide(mlir::Value value) const;
  void add(mlir::Operation *op);
  void addBetween();
  void close();
  bool derive();
  bool addProductsBefore();
  void addSources();
  void addSinks();
  bool hasRows(mlir::Operation *op) const;

  /// How an op of some kind acts on rows of the chain; nothing when it mixes them.
  using Form = std::optional<RowAction> (RowChain::*)(mlir::Operation *op) const;
  /// That of the op's kind; null where all of the kind mix rows.
  static Form formOfKind(mlir::Operation *op);
  std::optional<RowAction> formOf(mlir::Operation *op) const;
  std::optional<RowAction> productForm(mlir::Operation *op) const;
  std::optional<RowAction> expProductForm(mlir::Operation *op) const;
  std::optional<RowAction> scaledForm(mlir::Operation *op) const;
  std::optional<RowAction> reshapeForm(mlir::Operation *op) const;
  std::optional<RowAction> reduceForm(mlir::Operation *op) const;
  std::optional<RowAction> broadcastForm(mlir::Operation *op) const;
  std::optional<RowAction> lossForm(mlir::Operation *op) const;
  std::optional<RowAction> gatherForm(mlir::Operation *op) const;
  std::optional<RowAction> transposeForm(mlir::Operation *op) const;
  std::optional<RowAction> sameForm(mlir::Operation *op) const;
  RowDim rowsOf(mlir::Operation *op) const;
  bool onlyScales(mlir::Value number) const;
  RowDim where(mlir::Value value) const;
  RowDim guess(mlir::RankedTensorType type) const;

  int64_t wideElements; ///< from which a tensor is wide
  bool reachesFurther = false;
  llvm::SetVector<mlir::Operation *> members;
  llvm::DenseMap<mlir::Value, RowDim> known; ///< of results of the chain's ops
};

} // namespace nano
