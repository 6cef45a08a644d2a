// Which kernels sum the columns of attention's gradients.
#include "ir/graph/GradientSums.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

AttentionGradOp gradientsWithSums(Block &body) {
  auto gradients = dyn_cast<AttentionGradOp>(body.front());
  return gradients && !llvm::hasSingleElement(body.without_terminator()) ? gradients
                                                                         : AttentionGradOp();
}

Value summedGradient(Value value) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getCombiner() != Combiner::sum || reduce.getDims() != ArrayRef<int64_t>{1})
    return {};
  auto parts = reduce.getX().getDefiningOp<ReshapeOp>();
  auto wide = parts ? parts.getX().getDefiningOp<CastOp>() : CastOp();
  if (!wide || !wide.getX().getDefiningOp<AttentionGradOp>())
    return {};
  const ArrayRef<int64_t> from = tensorType(wide).getShape(), to = tensorType(parts).getShape();
  const bool isOfTokens = to.size() == 4 && to[1] == gradientSumTokens &&
                          to[0] * to[1] == from[0] && to.drop_front(2) == from.drop_front();
  return isOfTokens ? wide.getX() : Value();
}

RankedTensorType typeOfGradientSums(Value gradient) {
  const ArrayRef<int64_t> shape = tensorType(gradient).getShape();
  return RankedTensorType::get({shape[0] / gradientSumTokens, shape[1], shape[2]},
                               Float32Type::get(gradient.getContext()));
}

Value sumsOfGradient(OpBuilder &builder, Location location, Value gradient) {
  GraphBuilder g(builder, location);
  const ArrayRef<int64_t> shape = tensorType(gradient).getShape();
  return g.reduce(Combiner::sum,
                  g.reshape(g.toF32(gradient),
                            {shape[0] / gradientSumTokens, gradientSumTokens, shape[1], shape[2]}),
                  {1});
}

std::string gradientSumsObstacle(Block &body) {
  AttentionGradOp gradients = gradientsWithSums(body);
  const auto yielded = body.getTerminator()->getOperands();
  size_t sums = 0;
  for (Value value : yielded)
    if (summedGradient(value))
      ++sums;
    else if (value.getDefiningOp() != gradients)
      return "a result is neither one of attention's gradients nor the sums of one's columns";
  for (Value gradient : gradients.getResults())
    if (!llvm::is_contained(yielded, gradient))
      return "one of attention's gradients is no result";
  // A sum takes three ops.
  const auto others = std::distance(body.begin(), body.end()) - 2;
  return size_t(others) == 3 * sums ? ""
                                    : "it computes more than attention's gradients and the sums of "
                                      "their columns";
}

} // namespace nano
