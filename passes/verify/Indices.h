// The ops that take rows or columns of a table by number, and how many there are.
#pragma once

#include "ir/graph/Custom.h"
#include "ir/graph/Nano.h"
#include "ir/graph/Program.h"
#include "ir/graph/TableOps.h"

#include <optional>

namespace nano {

/// The indices of an op: those in [0, bound) are right.
struct Indices {
  mlir::OpOperand *operand;
  int64_t bound;
  llvm::StringRef noun, of; ///< what messages call them and what they count: "indices", "rows"
};

/// The indices of a gather, a scatter_add, a cross_entropy or a kernel of the model's own; nothing
/// for other ops.
inline std::optional<Indices> indicesOf(mlir::Operation *op) {
  if (auto gather = llvm::dyn_cast<graph::GatherOp>(op))
    return Indices{&gather.getIdsMutable(), gather.getTable().getType().getDimSize(0), "indices",
                   "rows"};
  if (auto scatter = llvm::dyn_cast<graph::ScatterAddOp>(op))
    return Indices{&scatter.getIdsMutable(), scatter.getResult().getType().getDimSize(0), "indices",
                   "rows"};
  if (auto loss = llvm::dyn_cast<graph::CrossEntropyOp>(op))
    return Indices{&loss.getTargetsMutable(), loss.getLogits().getType().getDimSize(1), "targets",
                   "columns"};
  if (auto product = llvm::dyn_cast<graph::ExpMatmulOp>(op))
    return Indices{&product.getTargetsMutable(), int64_t(product.getColumns()), "targets",
                   "columns"};
  if (auto custom = llvm::dyn_cast<graph::CustomOp>(op); custom && !custom.getIndexed().empty())
    return Indices{&op->getOpOperand(static_cast<unsigned>(custom.getIndexed()[0])),
                   custom.getIndexed()[1], "indices", "rows"};
  return std::nullopt;
}

/// `vocab_size` of the training, which tokens are below; 0 where nothing says it.
inline int64_t vocabularyOf(mlir::ModuleOp module) {
  const mlir::DictionaryAttr training = graph::trainingOf(module);
  auto size = training ? training.getAs<mlir::IntegerAttr>("vocab_size") : mlir::IntegerAttr();
  return size ? size.getInt() : 0;
}

} // namespace nano
