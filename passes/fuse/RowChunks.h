// Writes a chain of rows out in chunks, each of which makes its widest tensors in parts.
#pragma once

#include "passes/fuse/RowChain.h"

namespace nano {

/// Rows that are computed at once, a divisor of the chain's.
///
/// What reads the root's result turns it into something else, as logits into their gradient, and
/// products read that. The root and these ops are of a part, a divisor of the chunk; all others are
/// of the chunk, and what they read of parts is concatenated. So the root's result exists a part at
/// a time, while sums over rows are read and written once a chunk.
///
/// Parts may have lengths of their own, which shrink: what dies with a part can lie where later
/// ones will put what the chunk reads, so that only the last one's takes bytes of its own.
struct RowChunks {
  int64_t chunk = 0, part = 0;
  llvm::SmallVector<int64_t> parts = {}; ///< in order; none where each has `part` rows

  llvm::SmallVector<int64_t> partsOfChunk() const {
    return parts.empty() ? llvm::SmallVector<int64_t>(chunk / part, part) : parts;
  }
};

/// As many parts as `part` gives, all but the last as long as their bytes have room in those of the
/// last one and of what later parts hand on: `rowBytes` of a part's row die with it, `handedBytes`
/// are handed on. Multiples of `step`, a divisor of the chunk; none where equal ones take no more.
llvm::SmallVector<int64_t> shrinkingParts(const RowChunks &rows, int64_t step, int64_t rowBytes,
                                          int64_t handedBytes);

/// Which ops of a chain are of a part.
class RowParts {
public:
  explicit RowParts(const RowChain &chain);

  bool contains(mlir::Operation *op) const { return ops.contains(op); }
  /// Of the chunk, and behind the ops of its parts.
  bool isBehind(mlir::Operation *op) const { return behind.contains(op); }
  /// True for what a part makes and ops behind it read.
  bool isHandedOn(mlir::Value value) const;
  /// False where no op is behind, or one would need a number that each part has its own of.
  bool arePossible() const { return possible; }

private:
  llvm::DenseSet<mlir::Operation *> ops, behind;
  bool possible = true;
};

/// Replaces the chain by its chunks, where its last op stood or before a later op; what reads its
/// results from before has to be moved behind them.
void splitRows(RowChain &chain, const RowChunks &rows, mlir::Operation *before = nullptr);

} // namespace nano
