// Functions that a template of the device library calls: score regions of attention, and what
// follows a product.
#pragma once

#include "ir/graph/ProductForm.h"
#include "passes/emit/KernelEmitter.h"

namespace nano::kernels {

/// The memrefs that a value of a task's body is written to.
llvm::SmallVector<mlir::Value> memrefsOf(step::TaskOp task, mlir::Value result);

/// How many rows of the table that a task writes to `places`, from the first on, hold all that the
/// program reads of it: all of them where that is not known. A row of what is dropped, which nobody
/// reads, may be the sum of very many.
int64_t rowsRead(step::TaskOp task, llvm::ArrayRef<mlir::Value> places);

/// A sum of f32 that lies where one of its summands did, which nothing else reads: the epilogue
/// adds the other one to memory, and waits for nothing to be loaded.
struct SumInPlace {
  mlir::Value summand;
  mlir::BlockArgument replaced;
};
/// Those among an epilogue's results.
llvm::DenseMap<mlir::Value, SumInPlace> sumsInPlace(step::TaskOp task);
/// What a task's epilogue reads, without what it adds to.
llvm::SmallVector<mlir::Value>
epilogueReads(step::TaskOp task, const llvm::DenseMap<mlir::Value, SumInPlace> &inPlace);

/// What an epilogue writes: the memrefs of each result.
struct EpilogueResults {
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> places;
  llvm::DenseSet<mlir::Value> sums;      ///< those of partial sums of rows
  llvm::DenseSet<mlir::Value> numbers;   ///< those whose rows are none of vectors: sums and maxima
  llvm::SmallVector<int64_t> added;      ///< results that are added to what is in their place
  std::optional<int64_t> columnSum = {}; ///< the result whose rows the template adds up
  llvm::SmallVector<int64_t> largest;    ///< results that are the largest of blocks
  bool storesOthers = false;             ///< whether it stores more than products and sums of rows
};
EpilogueResults resultsOf(step::TaskOp task,
                          const llvm::DenseMap<mlir::Value, SumInPlace> &inPlace);

/// A score region as a function of numbers. Errors, at the op: one that is not element-wise.
mlir::LogicalResult scoreFunction(mlir::Region &region, llvm::StringRef name,
                                  mlir::OpBuilder &moduleBuilder);
/// What follows the task's products as a function of some neighbours of a row.
mlir::LogicalResult epilogueFunction(step::TaskOp task, llvm::StringRef name,
                                     mlir::OpBuilder &moduleBuilder);

} // namespace nano::kernels
