// nano-scale-weights: a number that multiplies all that a product gives, or columns of it,
// multiplies the rows of its weight instead.
//
//   %c = nano.cast %w : f32 → bf16                %n = nano.select lt, %row, 1536, 1, %s
//   %y = nano.matmul %x, %c {transpose_b}         %b = nano.broadcast %n dims [0]
//     : … -> tensor<49152x2304xbf16>              %u = nano.mul %w, %b
//   %v = nano.slice %y dim 1 at 1536        ⇒     %c = nano.cast %u : f32 → bf16
//   %f = nano.cast %v                             %y = nano.matmul %x, %c {transpose_b}
//   %z = nano.mul %s, %f                          %v = nano.slice %y dim 1 at 1536
//                                                 %z = nano.cast %v
//
// s·(x·wᵀ) = x·(s·w)ᵀ, computed in f32 before the weight is rounded for the product. With as many
// rows as a step has tokens, w is the smaller of the two by far: neither the forward pass nor the
// gradient reads and writes the columns once more, and the gradient of s is a sum over w's
// elements. In a narrow type one rounding is less.
//
// It runs before differentiation, which then finds the gradients of s and w too.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/fp8/Policy.h"

#include "mlir/IR/IRMapping.h"

namespace nano {
#define GEN_PASS_DEF_SCALEWEIGHTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// So many times as large as its weight a product's columns are at least: what the weight and its
/// gradient cost more is then a small part of what the columns cost less.
constexpr int64_t leastRatio = 4;

/// Columns of a product, which nothing but one multiplication reads, by a number.
struct Scaled {
  MulOp mul;
  Value number; ///< rank 0
  Value columns;
  MatmulOp product;
  int64_t first = 0, count = 0;
};

/// The one element that a broadcast repeats; null where `value` is none of one element.
Value repeatedNumber(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && tensorType(broadcast.getX()).getRank() == 0 ? broadcast.getX() : Value();
}

/// True for a cast that loses nothing.
bool isWider(CastOp cast) {
  auto from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getX().getType())),
       to = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getResult().getType()));
  return from && to && from.getWidth() < to.getWidth();
}

/// Which columns of [rows, columns] a slice of the reshaped matrix is; none where it is no whole
/// columns.
std::optional<std::pair<int64_t, int64_t>> columnsOf(SliceOp slice, int64_t rows) {
  const ArrayRef<int64_t> shape = tensorType(slice.getX()).getShape();
  if (shape.front() != rows || slice.getDim() != 1)
    return std::nullopt;
  int64_t behind = 1;
  for (int64_t size : shape.drop_front(2))
    behind *= size;
  return std::pair(int64_t(slice.getStart()) * behind,
                   tensorType(slice.getResult()).getDimSize(1) * behind);
}

/// Fills in the product that `columns` comes from, and which of its columns these are, if nothing
/// else reads them.
bool findProduct(Scaled &scaled) {
  SliceOp slice;
  Value value = scaled.columns;
  while (!value.getDefiningOp<MatmulOp>()) {
    Operation *op = value.getDefiningOp();
    if (!op || (!slice && !value.hasOneUse()))
      return false;
    if (auto cast = dyn_cast<CastOp>(op); cast && !slice && isWider(cast))
      value = cast.getX();
    else if (auto reshape = dyn_cast<ReshapeOp>(op))
      value = reshape.getX();
    else if (auto part = dyn_cast<SliceOp>(op); part && !slice)
      value = (slice = part).getX();
    else
      return false;
    if (slice && value != slice.getX() && !value.hasOneUse())
      return false;
  }
  scaled.product = value.getDefiningOp<MatmulOp>();
  const RankedTensorType type = tensorType(value);
  if (type.getRank() != 2)
    return false;
  if (!slice) {
    scaled.count = type.getDimSize(1);
    return value.hasOneUse();
  }
  const auto own = columnsOf(slice, type.getDimSize(0));
  if (!own)
    return false;
  std::tie(scaled.first, scaled.count) = *own;
  return llvm::all_of(slice.getX().getUsers(), [&](Operation *user) {
    auto other = dyn_cast<SliceOp>(user);
    const auto columns = other ? columnsOf(other, type.getDimSize(0)) : std::nullopt;
    return other == slice || (columns && (columns->first + columns->second <= scaled.first ||
                                          scaled.first + scaled.count <= columns->first));
  });
}

/// True where the product's weight can take the number, and is worth it: a trained one, whose
/// gradient is computed anyway, which nothing else reads in the product's type. What measures
/// scales and what is compiled with them decide alike: only scales that the model gives are of the
/// weight without the number.
FailureOr<bool> isScalable(const Scaled &scaled) {
  MatmulOp product = scaled.product;
  if (product.getTransposeA() || !product.getTransposeB() || product.getAddend() ||
      !product.getB().hasOneUse())
    return false;
  LoadOp load = loadOf(product.getB());
  auto state =
      load ? SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr()) : StateOp();
  if (!state || !state.isTrained())
    return false;
  FailureOr<fp8::Policy> policy = fp8::Policy::of(state);
  if (failed(policy))
    return failure();
  const RankedTensorType weight = tensorType(product.getB());
  const int64_t rows = tensorType(product).getDimSize(0);
  return !policy->given && rows * scaled.count >= leastRatio * weight.getNumElements();
}

/// The weight before the cast for its product, which a reshape may follow.
Value beforeRounding(Value weight) {
  Value value = weight;
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  auto rounding = value.getDefiningOp<CastOp>();
  return rounding ? rounding.getX() : weight;
}

void moveNumber(const Scaled &scaled) {
  MatmulOp product = scaled.product;
  MulOp mul = scaled.mul;
  const Location loc = mul.getLoc();
  OpBuilder builder(product);
  GraphBuilder g(builder, loc);
  llvm::SetVector<Operation *> ops;
  isOfParameters(scaled.number, ops);
  IRMapping mapping;
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  const Value weight = product.getB();
  const Value rows = g.reshape(g.toF32(beforeRounding(weight)), tensorType(weight).getShape());
  const RankedTensorType type = tensorType(rows);
  const int64_t all = type.getDimSize(0), end = scaled.first + scaled.count;
  Value number = g.toF32(mapping.lookup(scaled.number));
  if (scaled.count < all) {
    // A number a row, 1 where it stays as it is: the weight and its gradient are one kernel each.
    const auto ofRows = RankedTensorType::get(all, type.getElementType());
    const Value row = IotaOp::create(builder, loc, RankedTensorType::get(all, builder.getI32Type()),
                                     /*dim=*/0),
                one = g.constant(1, ofRows);
    auto below = [&](int64_t limit, Value first, Value second) {
      return g.select(Predicate::lt, row, g.constant(double(limit), row.getType()), first, second);
    };
    number = g.broadcast(number, all);
    if (scaled.first > 0)
      number = below(scaled.first, one, number);
    if (end < all)
      number = below(end, number, one);
    number = g.broadcast(number, type.getShape(), 0);
  }
  const Value whole = g.mul(rows, number);
  product.getBMutable().assign(g.cast(whole, tensorType(weight).getElementType()));
  mul.replaceAllUsesWith(scaled.columns);
}

struct ScaleWeights : public nano::impl::ScaleWeightsBase<ScaleWeights> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<MulOp> muls;
    getOperation().walk([&](MulOp op) { muls.push_back(op); });
    for (MulOp mul : muls) {
      FailureOr<bool> isMoved = move(mul);
      if (failed(isMoved))
        return signalPassFailure();
      if (*isMoved)
        mul.erase();
    }
  }

  FailureOr<bool> move(MulOp mul) {
    for (auto [factor, columns] :
         {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
      Scaled scaled{mul, repeatedNumber(factor), columns, {}};
      llvm::SetVector<Operation *> ops;
      if (!scaled.number || !findProduct(scaled) || !isOfParameters(scaled.number, ops))
        continue;
      FailureOr<bool> scalable = isScalable(scaled);
      if (failed(scalable))
        return failure();
      if (!*scalable)
        continue;
      if (report)
        emitDetail(mul) << "multiplies " << scaled.count << " of "
                        << tensorType(scaled.product.getB()).getDimSize(0)
                        << " rows of the product's weight instead, once for "
                        << tensorType(scaled.product).getDimSize(0) << " rows of its result";
      moveNumber(scaled);
      return true;
    }
    return false;
  }
};

} // namespace
