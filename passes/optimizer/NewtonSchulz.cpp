// Newton–Schulz: the products of each step, their polynomials stacked.
#include "passes/optimizer/NewtonSchulz.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

static ArrayRef<int64_t> matrixOf(Value stack) { return tensorType(stack).getShape().take_back(2); }

static bool isTall(Value stack) { return matrixOf(stack)[0] > matrixOf(stack)[1]; }

SmallVector<Value> orthogonalize(OpBuilder &builder, Location location, ArrayRef<Value> stacks,
                                 MuonOp muon) {
  GraphBuilder g(builder, location);
  const double a = muon.getCoefficients()[0], b = muon.getCoefficients()[1],
               c = muon.getCoefficients()[2];
  /// alpha·left·right + beta·addend
  auto sum = [&](double alpha, Value left, Value right, double beta, Value addend) -> Value {
    return MatmulOp::create(builder, location, addend.getType(), left, right, addend, false, false,
                            APFloat(alpha), APFloat(beta));
  };
  auto polynomialOf = [&](Value gram) { return sum(c, gram, gram, b, gram); };

  SmallVector<Value> xs(stacks);
  for (int64_t step = 0; step < static_cast<int64_t>(muon.getSteps()); ++step) {
    SmallVector<Value> grams = llvm::map_to_vector(
        xs, [&](Value x) { return g.matmul(x, x, isTall(x), !isTall(x), muon.getComputeType()); });
    SmallVector<Value> polynomials;
    if (xs.size() == 1) {
      polynomials.push_back(polynomialOf(grams.front()));
    } else {
      const int64_t side = matrixOf(grams.front())[0];
      int64_t count = 0;
      SmallVector<Value> parts;
      for (Value gram : grams) {
        const int64_t matrices = tensorType(gram).getNumElements() / (side * side);
        parts.push_back(g.reshape(gram, {matrices, side, side}));
        count += matrices;
      }
      RankedTensorType type = tensorType(grams.front()).clone({count, side, side});
      Value all = polynomialOf(
          ConcatOp::create(builder, location, type, parts, builder.getI64IntegerAttr(0)));
      int64_t start = 0;
      for (auto [gram, part] : llvm::zip_equal(grams, parts)) {
        Value slice =
            SliceOp::create(builder, location, part.getType(), all, builder.getI64IntegerAttr(0),
                            builder.getI64IntegerAttr(start));
        polynomials.push_back(g.reshape(slice, tensorType(gram).getShape()));
        start += tensorType(part).getDimSize(0);
      }
    }
    for (auto [x, polynomial] : llvm::zip_equal(xs, polynomials))
      x = isTall(x) ? sum(1, x, polynomial, a, x) : sum(1, polynomial, x, a, x);
  }
  return xs;
}

} // namespace nano
