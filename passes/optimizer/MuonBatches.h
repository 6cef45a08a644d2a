// Which parameters of Muon go through Newton–Schulz together.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// A parameter of one or more matrices, [rows, cols] or [count, rows, cols].
struct MuonParameter {
  graph::StateOp state;
  graph::MuonOp muon;
  mlir::RankedTensorType type;

  llvm::ArrayRef<int64_t> matrix() const { return type.getShape().take_back(2); }
  int64_t elements() const { return type.getNumElements(); }
  /// How many matrices there are along the leading axes.
  int64_t count() const { return elements() / (matrix()[0] * matrix()[1]); }
  /// The shape of so many such matrices.
  llvm::SmallVector<int64_t> stack(int64_t matrices) const {
    return {matrices, matrix()[0], matrix()[1]};
  }
  /// True when the polynomials of Newton–Schulz are the same computation for both.
  bool stepsWith(const MuonParameter &other) const;
  /// True when all of it is.
  bool fits(const MuonParameter &other) const;
};

/// Parameters whose matrices are one stack in every product.
using MuonBatch = llvm::SmallVector<MuonParameter>;

/// Collects parameters in batches, and batches in sets.
class MuonBatches {
public:
  /// A batch has at most `maxElements` numbers, unless a single parameter has more.
  explicit MuonBatches(int64_t maxElements) : maxElements(maxElements) {}

  void add(const MuonParameter &parameter);

  /// Batches that share the products of their polynomials, at most four times `maxElements`
  /// numbers.
  using Set = llvm::SmallVector<MuonBatch>;
  /// All batches, in the order of the first parameters of the sets.
  llvm::SmallVector<Set> sets() const;

private:
  int64_t maxElements;
  llvm::SmallVector<MuonBatch> batches;
};

} // namespace nano
