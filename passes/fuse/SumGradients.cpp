// nano-sum-gradients: attention's gradients come with the sums of their columns.
//
//   %q, %k, %v = nano.attention_grad …         %q, %k, %v, %a, %b, %c = nano.fused(…) : … {
//   %d = nano.concat %q, %k, %v dim 1            // attention_grad, and sums over 64 tokens
//   %m = nano.reshape %d                   ⇒   %d = nano.concat %a, %b, %c dim 1
//   %s = nano.fused(%m) : … {                  %m = nano.reshape %d
//     // sums over some tokens                 %s = nano.fused(%m) : … {  // sums of these
//
// The gradient of the bias of queries, keys and values is the sum of theirs over all tokens: a
// kernel that reads all of them again for a number a column, which the kernel that computes them
// has in its hands. It runs last on tensors: kernels that read the gradients for something else
// sum the columns themselves, and products that are merged say where the gradients lie.
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GradientSums.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Traffic.h"
#include "ir/kernel/shapes/nano_attention_shape.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace nano {
#define GEN_PASS_DEF_SUMGRADIENTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// A kernel that sums columns of gradients of one attention, and these, side by side.
struct ColumnSums {
  FusedOp kernel;
  SmallVector<OpResult> gradients;
};

/// Appends the gradients of attention that lie side by side in the rows of a matrix; false where
/// others do.
bool findGradients(Value matrix, SmallVector<OpResult> &gradients) {
  Operation *op = matrix.getDefiningOp();
  if (isa_and_present<AttentionGradOp>(op)) {
    gradients.push_back(cast<OpResult>(matrix));
    return op == gradients.front().getOwner();
  }
  if (auto reshape = dyn_cast_if_present<ReshapeOp>(op)) {
    const RankedTensorType from = tensorType(reshape.getX());
    return from.getRank() > 0 && from.getDimSize(0) == tensorType(matrix).getDimSize(0) &&
           findGradients(reshape.getX(), gradients);
  }
  auto concat = dyn_cast_if_present<ConcatOp>(op);
  return concat && concat.getDim() == 1 && llvm::all_of(concat.getInputs(), [&](Value part) {
           return findGradients(part, gradients);
         });
}

/// What a kernel sums, which does nothing else: columns [T, C] of f32 from the only matrix that it
/// reads, in parts [P, C].
Value summedMatrix(FusedOp fused) {
  Block &body = fused.getBody().front();
  if (fused.getInputs().size() != 1 || fused.getNumResults() != 1 ||
      std::distance(body.begin(), body.end()) != 4)
    return {};
  const Value columns = columnSumsOf(body.getTerminator()->getOperand(0));
  auto wide = columns ? columns.getDefiningOp<CastOp>() : CastOp();
  return wide && wide.getX() == body.getArgument(0) ? fused.getInputs().front() : Value();
}

/// A kernel that adds up all parts [P, C] of sums, which it reads as [1, P, C], for nothing else.
struct Reader {
  ReshapeOp seen;
  FusedOp kernel;
  unsigned operand;
};
/// Those that read the parts, where there are no others.
std::optional<SmallVector<Reader>> readersOfSums(Value parts) {
  SmallVector<Reader> readers;
  for (Operation *user : parts.getUsers()) {
    auto seen = dyn_cast<ReshapeOp>(user);
    if (!seen || tensorType(seen).getRank() != 3 || tensorType(seen).getDimSize(0) != 1 ||
        tensorType(seen).getDimSize(1) != tensorType(parts).getDimSize(0))
      return std::nullopt;
    for (OpOperand &use : seen->getUses()) {
      auto kernel = dyn_cast<FusedOp>(use.getOwner());
      const auto addsUp = [](Operation *op) {
        auto reduce = dyn_cast<ReduceOp>(op);
        return reduce && reduce.getCombiner() == Combiner::sum &&
               reduce.getDims() == ArrayRef<int64_t>{1};
      };
      if (!kernel ||
          !llvm::all_of(kernel.getBody().getArgument(use.getOperandNumber()).getUsers(), addsUp))
        return std::nullopt;
      readers.push_back({seen, kernel, use.getOperandNumber()});
    }
  }
  return readers;
}

/// Why the kernel of the gradients does not sum their columns, or nothing.
std::string obstacleTo(const ColumnSums &sums) {
  auto gradients = cast<AttentionGradOp>(sums.gradients.front().getOwner());
  if (!tensorType(gradients.getDq()).getElementType().isBF16())
    return "they are not of bf16";
  for (Value gradient : gradients.getResults())
    if (!attentionFitsTensorCores(int(tensorType(gradient).getDimSize(2))))
      return "tensor cores do not compute them";
  const int64_t tokens = tensorType(gradients.getDq()).getDimSize(0),
                parts = tensorType(sums.kernel->getResult(0)).getDimSize(0);
  if (tokens % gradientSumTokens != 0)
    return "they are of " + std::to_string(tokens) + " tokens, no multiple of " +
           std::to_string(gradientSumTokens);
  if (tokens % (parts * gradientSumTokens) != 0 && !readersOfSums(sums.kernel->getResult(0)))
    return "not all of the sums over " + std::to_string(tokens / parts) +
           " tokens are added up by what reads them";
  return "";
}

struct SumGradients : nano::impl::SumGradientsBase<SumGradients> {
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<ProgramOp>()) {
      llvm::MapVector<Operation *, SmallVector<ColumnSums>> found;
      for (auto fused : function.getBody().front().getOps<FusedOp>()) {
        ColumnSums sums{fused, {}};
        const Value matrix = summedMatrix(fused);
        if (!matrix || !findGradients(matrix, sums.gradients))
          continue;
        const std::string obstacle = obstacleTo(sums);
        if (report)
          emitDetail(fused) << (obstacle.empty()
                                    ? "the kernel of attention's gradients sums their columns"
                                    : "reads attention's gradients again for the sums of their "
                                      "columns: " +
                                          obstacle);
        if (obstacle.empty())
          found[sums.gradients.front().getOwner()].push_back(std::move(sums));
      }
      for (auto &[gradients, sums] : found)
        join(cast<AttentionGradOp>(gradients), sums);
      if (!found.empty())
        nano::countTrafficAgain(function);
    }
  }

private:
  /// Makes one kernel of attention's gradients and the sums of their columns, and has the kernels
  /// read these.
  static void join(AttentionGradOp gradients, ArrayRef<ColumnSums> all) {
    const Location location = gradients.getLoc();
    llvm::SmallSetVector<Value, 3> summed;
    for (const ColumnSums &sums : all)
      summed.insert(sums.gradients.begin(), sums.gradients.end());
    const llvm::SmallSetVector<Value, 8> inputs(llvm::from_range, gradients->getOperands());
    SmallVector<Type> types(gradients->getResultTypes());
    for (Value gradient : summed)
      types.push_back(typeOfGradientSums(gradient));

    OpBuilder builder(gradients);
    auto joined = FusedOp::create(builder, location, types, inputs.getArrayRef());
    Block *body =
        builder.createBlock(&joined.getBody(), {}, TypeRange(ValueRange(inputs.getArrayRef())),
                            SmallVector<Location>(inputs.size(), location));
    IRMapping inside;
    inside.map(inputs.getArrayRef(), body->getArguments());
    SmallVector<Value> yielded(builder.clone(*gradients, inside)->getResults());
    for (Value gradient : summed)
      yielded.push_back(sumsOfGradient(builder, location, inside.lookup(gradient)));
    YieldOp::create(builder, location, yielded);

    for (const ColumnSums &sums : all) {
      SmallVector<Value> parts;
      for (Value gradient : sums.gradients)
        parts.push_back(joined.getResult(gradients->getNumResults() +
                                         (llvm::find(summed, gradient) - summed.begin())));
      sumAgain(sums.kernel, parts);
    }
    gradients.replaceAllUsesWith(joined.getResults().take_front(gradients->getNumResults()));
    gradients.erase();
  }

  /// Has a kernel that sums columns read sums of them, each [T / gradientSumTokens, H, D].
  static void sumAgain(FusedOp kernel, ArrayRef<Value> sums) {
    OpBuilder builder(kernel);
    GraphBuilder g(builder, kernel.getLoc());
    const RankedTensorType type = tensorType(kernel.getResult(0));
    const int64_t parts = type.getDimSize(0), columns = type.getDimSize(1),
                  rows = tensorType(sums.front()).getDimSize(0);
    SmallVector<Value> matrices;
    for (Value each : sums)
      matrices.push_back(g.reshape(each, {rows, tensorType(each).getNumElements() / rows}));
    Value matrix = matrices.front();
    if (matrices.size() > 1)
      matrix = ConcatOp::create(builder, kernel.getLoc(), type.clone({rows, columns}), matrices, 1);
    if (rows % parts != 0) { // there are as many parts as these are, from now on
      SmallVector<Reader> readers = *readersOfSums(kernel.getResult(0));
      for (auto &[before, reader, operand] : readers) {
        const Value seen = g.reshape(matrix, {1, rows, columns});
        reader->setOperand(operand, seen);
        reader.getBody().getArgument(operand).setType(seen.getType());
        if (before->use_empty())
          before->erase();
      }
      kernel.erase();
      return;
    }
    Value result = matrix;
    if (rows > parts) {
      const Value seen = g.reshape(matrix, {parts, rows / parts, columns});
      auto again = FusedOp::create(builder, kernel.getLoc(), type, seen);
      Block *block = builder.createBlock(&again.getBody(), {}, seen.getType(), kernel.getLoc());
      YieldOp::create(
          builder, kernel.getLoc(),
          GraphBuilder(builder, kernel.getLoc()).reduce(Combiner::sum, block->getArgument(0), {1}));
      result = again.getResult(0);
    }
    kernel.replaceAllUsesWith(ValueRange(result));
    kernel.erase();
  }
};

} // namespace
