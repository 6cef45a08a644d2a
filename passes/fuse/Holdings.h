// How many bytes of transient tensors a function will hold, estimated before fusion.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace nano {

/// The tensors of a block that will have a buffer, and when.
///
/// A stretch is what lies between two ops that are library calls or kernels of their own; one is a
/// stretch by itself too. A tensor has a buffer from the stretch that makes it to the last one that
/// reads it, or a view of it, when such an op makes or reads it or when it leaves its stretch; the
/// others disappear in fused kernels. Constants, broadcasts and widening casts are made anew where
/// they are read. What is stored or returned lies in the state or output.
class Holdings {
public:
  explicit Holdings(mlir::Block &block);

  using Filter = llvm::function_ref<bool(mlir::Value)>;
  using Span = std::pair<int64_t, int64_t>;

  /// The first and last stretch of some ops.
  Span spanOf(llvm::ArrayRef<mlir::Operation *> ops) const;
  Span all() const { return {0, int64_t(isKernel.size()) - 1}; }
  /// Most bytes that the tensors which `counts` says hold at once in a stretch of `span`.
  int64_t most(Span span, Filter counts) const;

private:
  struct Holding {
    mlir::Value value;
    int64_t begin, end, bytes;
  };
  llvm::DenseMap<mlir::Operation *, int64_t> stretchOf;
  std::vector<bool> isKernel; ///< of a stretch: fused ops, which may overwrite what they read
  std::vector<Holding> holdings;
};

} // namespace nano
