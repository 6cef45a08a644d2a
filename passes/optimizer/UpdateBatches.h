// Which parameters' matrix products are computed together.
#pragma once

#include "passes/optimizer/UpdateEmitter.h"

namespace nano {

/// A parameter and the equations that update it.
struct UpdatedParameter {
  graph::StateOp state;
  const UpdateForm *form;

  int64_t elements() const { return form->parameterType().getNumElements(); }
};

/// Parameters whose units are one stack in every product.
using UpdateBatch = llvm::SmallVector<UpdatedParameter>;

/// Collects parameters in batches, and batches in sets; first come, first served.
class UpdateBatches {
public:
  /// A batch has at most `maxElements` numbers, unless a single parameter has more.
  explicit UpdateBatches(int64_t maxElements) : maxElements(maxElements) {}

  /// A parameter whose equations have products.
  void add(const UpdatedParameter &parameter);

  /// Batches that share products, at most four times `maxElements` numbers.
  using Set = llvm::SmallVector<UpdateBatch>;
  /// All batches, in the order of the first parameters of the sets.
  llvm::SmallVector<Set> sets() const;

private:
  int64_t maxElements;
  llvm::SmallVector<UpdateBatch> batches;
};

/// Writes the cores of several forms, op by op, so that equal products of one matrix, polynomials
/// of Gram matrices for example, become one product of a stack of them all:
///
///   x : [4, 768, 768], y : [2, 3072, 768] ⇒ A : [6, 768, 768] of x·xᵀ and yᵀ·y, B = b·A + c·A·A of
///   both, the other products apart
///
/// The forms of a set; each emitter knows what its core reads, and knows its outputs afterwards.
void writeCores(mlir::OpBuilder &builder, mlir::Location location,
                llvm::ArrayRef<UpdateEmitter *> emitters);

} // namespace nano
