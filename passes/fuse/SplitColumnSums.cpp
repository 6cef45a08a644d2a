// Cuts a kernel that reads a matrix product and sums its columns into two.
#include "passes/fuse/SplitColumnSums.h"
#include "passes/fuse/SplitRowMaxima.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

bool hasColumnSums(FusedOp fused) {
  return llvm::any_of(fused.getBody().front().getOps<ReduceOp>(),
                      [](ReduceOp reduce) { return bool(columnSumsOf(reduce)); });
}

/// The one reduction, or why there is none that an epilogue can begin.
static std::string findSum(FusedOp fused, ReduceOp &sum) {
  for (auto reduce : fused.getBody().front().getOps<ReduceOp>()) {
    if (isRowMaximum(reduce))
      continue;
    if (!columnSumsOf(reduce) || !tensorType(reduce).getElementType().isF32())
      return "its kernel reduces otherwise than to sums of columns in f32";
    if (sum)
      return "its kernel has more than one sum of columns";
    sum = reduce;
  }
  if (!llvm::all_of(sum->getUsers(), llvm::IsaPred<YieldOp>))
    return "its kernel reads a sum of columns";
  if (tensorType(sum.getX()).getDimSize(1) % partialSumRows != 0)
    return "its sums of columns are of no multiples of " + std::to_string(partialSumRows) + " rows";
  return "";
}

std::string splitColumnSums(FusedOp fused, Value product, RowSumParts &parts) {
  ReduceOp sum;
  if (std::string obstacle = findSum(fused, sum); !obstacle.empty())
    return obstacle;
  const bool hasMaximum = llvm::any_of(fused.getBody().front().getOps<ReduceOp>(), isRowMaximum);
  if (SmallVector<ReduceOp> maxima; hasMaximum)
    if (std::string obstacle = findRowMaxima(fused, maxima); !obstacle.empty())
      return obstacle;
  const Value matrix = columnSumsOf(sum);
  const RankedTensorType whole = tensorType(matrix), total = tensorType(sum);
  const int64_t rows = whole.getDimSize(0) / partialSumRows, columns = whole.getDimSize(1);
  const RankedTensorType partial = total.clone({rows, columns});

  const OperandRange yielded = fused.getBody().front().getTerminator()->getOperands();
  SmallVector<Type> types(fused.getResultTypes());
  for (auto [type, value] : llvm::zip_equal(types, yielded))
    if (value == sum.getResult())
      type = partial;
  OpBuilder builder(fused);
  parts.sums = FusedOp::create(builder, fused.getLoc(), types, fused.getInputs());
  parts.sums->setDiscardableAttrs(fused->getDiscardableAttrDictionary());
  IRMapping mapping;
  fused.getBody().cloneInto(&parts.sums.getBody(), mapping);
  auto copy = cast<ReduceOp>(mapping.lookup(sum.getOperation()));
  auto seen = copy.getX().getDefiningOp<ReshapeOp>();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(copy);
    GraphBuilder g(builder, copy.getLoc());
    copy.replaceAllUsesWith(
        g.reduce(Combiner::sum, g.reshape(seen.getX(), {rows, partialSumRows, columns}), {1}));
  }
  copy.erase();
  if (seen->use_empty())
    seen.erase();
  RowSumParts ofMaxima;
  if (std::string obstacle =
          hasMaximum ? splitRowMaxima(parts.sums, mapping.lookup(product), ofMaxima)
                     : epilogueObstacle(parts.sums.getBody().front(), mapping.lookup(product));
      !obstacle.empty()) {
    parts.erase();
    return obstacle;
  }
  SmallVector<Value> results(parts.sums.getResults());
  if (hasMaximum) {
    results = ofMaxima.results;
    parts.sums.erase();
    parts.sums = ofMaxima.sums;
    parts.maxima = ofMaxima.rows;
    parts.ofBlocks = true;
  }

  // The same sums of as many rows, from those of partialSumRows.
  const auto first = llvm::find(yielded, sum.getResult()) - yielded.begin();
  const int64_t count = total.getDimSize(0);
  const Value seenAgain = GraphBuilder(builder, sum.getLoc())
                              .reshape(parts.sums.getResult(first), {count, rows / count, columns});
  parts.rows = FusedOp::create(builder, sum.getLoc(), total, seenAgain);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&parts.rows.getBody(), {}, seenAgain.getType(), sum.getLoc());
  YieldOp::create(
      builder, sum.getLoc(),
      GraphBuilder(builder, sum.getLoc()).reduce(Combiner::sum, block->getArgument(0), {1}));

  for (auto [result, value] : llvm::zip_equal(results, yielded))
    parts.results.push_back(value == sum.getResult() ? parts.rows.getResult(0) : result);
  parts.ofColumns = true;
  return "";
}

} // namespace nano
