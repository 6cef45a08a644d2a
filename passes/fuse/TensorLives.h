// When the tensors of a program live and how many bytes do so at once, once kernels are final.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace nano {

/// The tensors of a block that have buffers of their own, from the op that makes one to the last
/// that reads it or a view of it. Parts of a concat live as long as the whole, which is one buffer.
/// What is loaded, stored or returned lies elsewhere. That an op may overwrite what it reads last
/// is left out: what is computed is more than will be, by about as much everywhere.
///
/// Ops are known by where they stood when this was made.
class TensorLives {
public:
  explicit TensorLives(mlir::Block &block);

  struct Life {
    int64_t begin = 0, end = -1, bytes = 0;
  };
  /// Of the tensor that `value` is a view of; empty for what has no buffer of its own.
  Life of(mlir::Value value) const;

  /// The most bytes that live at once.
  int64_t most() const;
  /// True when no more than `limit` bytes live at any time at which more would live than do now, if
  /// the values were parts of one tensor, which lives as soon and as long as any of them.
  bool fit(llvm::ArrayRef<mlir::Value> values, int64_t limit) const;
  /// From now on they are parts of one.
  void join(llvm::ArrayRef<mlir::Value> values);

private:
  mlir::Value ownerOf(mlir::Value value) const;
  /// The joined life, and for each time of it the bytes that do not live now.
  std::pair<Life, std::vector<int64_t>> joined(llvm::ArrayRef<mlir::Value> values) const;

  llvm::DenseMap<mlir::Value, mlir::Value> wholes; ///< of a part of a concat
  llvm::DenseMap<mlir::Value, Life> lives;
  std::vector<int64_t> live; ///< bytes by time
};

} // namespace nano
