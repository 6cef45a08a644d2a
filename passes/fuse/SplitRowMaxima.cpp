// Cuts a kernel that reads a matrix product and finds the largest of its rows into two.
#include "passes/fuse/SplitRowMaxima.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

bool isRowMaximum(ReduceOp reduce) {
  return reduce.getCombiner() == Combiner::max && reduce.getDims() == ArrayRef<int64_t>{1} &&
         tensorType(reduce.getX()).getRank() == 2;
}

bool hasRowMaxima(FusedOp fused) {
  return llvm::all_of(fused.getBody().front().getOps<ReduceOp>(), isRowMaximum);
}

/// The kernel that looks for the largest of a row of all numbers, of which `view` is one; null when
/// what reads it does something else.
static FusedOp readerOf(Operation *view) {
  auto reshape = dyn_cast<ReshapeOp>(view);
  if (!reshape || !reshape->hasOneUse() || tensorType(reshape).getRank() != 2 ||
      tensorType(reshape).getDimSize(0) != 1)
    return {};
  OpOperand &use = *reshape->use_begin();
  auto reader = dyn_cast<FusedOp>(use.getOwner());
  if (!reader)
    return {};
  const Value argument = reader.getBody().getArgument(use.getOperandNumber());
  const bool isLargest = llvm::all_of(argument.getUsers(), [](Operation *user) {
    auto reduce = dyn_cast<ReduceOp>(user);
    return reduce && isRowMaximum(reduce);
  });
  return isLargest ? reader : FusedOp();
}

std::string findRowMaxima(FusedOp fused, SmallVectorImpl<ReduceOp> &maxima) {
  for (auto reduce : fused.getBody().front().getOps<ReduceOp>()) {
    if (columnSumsOf(reduce))
      continue;
    if (!isRowMaximum(reduce) || !tensorType(reduce).getElementType().isF32())
      return "its kernel reduces otherwise than to the largest of rows in f32";
    const RankedTensorType whole = tensorType(reduce.getX());
    if (whole.getDimSize(0) % partialSumRows != 0 || whole.getDimSize(1) % partialMaxColumns != 0)
      return "its maximum is of no blocks of " + std::to_string(partialSumRows) + " rows and " +
             std::to_string(partialMaxColumns) + " columns";
    if (!llvm::all_of(reduce->getUsers(), llvm::IsaPred<YieldOp>))
      return "its kernel reads a maximum";
    maxima.push_back(reduce);
  }
  for (auto [result, value] :
       llvm::zip_equal(fused.getResults(), fused.getBody().front().getTerminator()->getOperands()))
    if (llvm::is_contained(maxima, value.getDefiningOp()) &&
        !llvm::all_of(result.getUsers(), [](Operation *user) { return bool(readerOf(user)); }))
      return "its maxima of rows are read for more than the largest of all";
  return "";
}

std::string splitRowMaxima(FusedOp fused, Value product, RowSumParts &parts) {
  SmallVector<ReduceOp> maxima;
  if (std::string obstacle = findRowMaxima(fused, maxima); !obstacle.empty())
    return obstacle;
  const auto isMaximum = [&](Value value) {
    return llvm::is_contained(maxima, value.getDefiningOp());
  };
  const RankedTensorType whole = tensorType(maxima.front().getX()),
                         all = tensorType(maxima.front());
  const int64_t rows = whole.getDimSize(0) / partialSumRows,
                columns = whole.getDimSize(1) / partialMaxColumns;
  const OperandRange yielded = fused.getBody().front().getTerminator()->getOperands();
  SmallVector<Type> types(fused.getResultTypes());
  for (auto [type, value] : llvm::zip_equal(types, yielded))
    if (isMaximum(value))
      type = all.clone({rows, columns});
  OpBuilder builder(fused);
  parts.sums = FusedOp::create(builder, fused.getLoc(), types, fused.getInputs());
  parts.sums->setDiscardableAttrs(fused->getDiscardableAttrDictionary());
  IRMapping mapping;
  fused.getBody().cloneInto(&parts.sums.getBody(), mapping);
  for (ReduceOp maximum : maxima) {
    auto copy = cast<ReduceOp>(mapping.lookup(maximum.getOperation()));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(copy);
    GraphBuilder g(builder, copy.getLoc());
    copy.replaceAllUsesWith(g.reduce(
        Combiner::max, g.reshape(copy.getX(), {rows, partialSumRows, columns, partialMaxColumns}),
        {1, 3}));
    copy.erase();
  }
  if (std::string obstacle =
          epilogueObstacle(parts.sums.getBody().front(), mapping.lookup(product));
      !obstacle.empty()) {
    parts.erase();
    return obstacle;
  }

  SmallVector<Value> blocks;
  for (auto [result, value] : llvm::zip_equal(parts.sums.getResults(), yielded))
    if (isMaximum(value))
      blocks.push_back(result);
  const Location loc = maxima.front().getLoc();
  const SmallVector<Type> ofRows(blocks.size(), all.clone({rows}));
  parts.rows = FusedOp::create(builder, loc, ofRows, blocks);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&parts.rows.getBody(), {}, ValueRange(blocks).getTypes(),
                                     SmallVector<Location>(blocks.size(), loc));
  GraphBuilder g(builder, loc);
  SmallVector<Value> largest;
  for (BlockArgument argument : block->getArguments())
    largest.push_back(g.reduce(Combiner::max, argument, {1}));
  YieldOp::create(builder, loc, largest);
  for (auto [result, value] : llvm::zip_equal(parts.sums.getResults(), yielded)) {
    const auto *found = llvm::find(blocks, result);
    parts.results.push_back(found == blocks.end() ? Value(result)
                                                  : parts.rows.getResult(found - blocks.begin()));
  }
  parts.ofBlocks = true;
  return "";
}

void readBlockMaxima(FusedOp fused, const RowSumParts &parts) {
  for (auto [result, instead] : llvm::zip_equal(fused.getResults(), parts.results)) {
    if (result.getType() == instead.getType())
      continue;
    for (Operation *view : llvm::make_early_inc_range(result.getUsers())) {
      const RankedTensorType all = tensorType(instead);
      const Type type = all.clone({1, all.getNumElements()});
      readerOf(view).getBody().getArgument(view->use_begin()->getOperandNumber()).setType(type);
      view->setOperand(0, instead);
      view->getResult(0).setType(type);
    }
  }
}

} // namespace nano
