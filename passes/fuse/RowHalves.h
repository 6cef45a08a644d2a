// A chain of rows of which one half waits for all rows of the other.
#pragma once

#include "passes/fuse/RowChain.h"

#include <optional>

namespace nano {

/// Where a function of all rows' losses that is no sum, as of the log-probabilities of whole
/// sequences, stands between the losses and their gradient, no chunk can go on to its gradient
/// before all have their losses. Two chains can, of which the second makes the logits again:
///
///   %z = matmul %x, %w; %l, %s = cross_entropy %z, %t         the same
///   %d = f(all of %l)                                   ⇒     the same
///   %g = h(%z, %s, %d); products of %g                        %y = matmul %x, %w; of %y the rest
class RowHalves {
public:
  /// Cuts a chain at its obstacle, the op that mixes rows. Nothing, and nothing changed, where that
  /// reads or makes what is wide itself, or where no such tensor is needed behind it.
  static std::optional<RowHalves> cut(const RowChain &chain);

  /// The product that the second chain begins with.
  mlir::Operation *secondRoot() const { return copies.front().second; }
  /// The first product, of others, that waits for the obstacle; null where there is none. Before it
  /// the second chain's chunks stand: what they read is made by kernels that end there.
  mlir::Operation *nextProduct(const RowChain &second) const;
  /// Leaves the program as it was.
  void join();

private:
  mlir::Operation *between = nullptr;
  /// Ops before the obstacle, and what stands for them behind it, in program order.
  llvm::SmallVector<std::pair<mlir::Operation *, mlir::Operation *>> copies;
};

} // namespace nano
