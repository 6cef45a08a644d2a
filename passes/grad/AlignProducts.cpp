// nano-align-products: products whose results have rows of any number of columns get rows that a
// GPU's libraries like.
//
//   %y = nano.matmul %x, %w {transpose_b}       %z = nano.constant 0 : tensor<47x768xbf16>
//     : … -> tensor<2048x50257xbf16>            %v = nano.concat %w, %z dim 0
//   %l = nano.cast %y                     ⇒     %p = nano.matmul %x, %v {transpose_b}
//   %loss = nano.cross_entropy %l, %t             : … -> tensor<2048x50304xbf16>
//                                               %l = nano.cast %p
//                                               %m = nano.select lt, %column, 50257, %l, -1e30
//                                               %loss = nano.cross_entropy %m, %t
//
// A matrix whose rows are no multiple of 16 bytes apart costs a product six to nine times its time
// (cuBLASLt on Hopper), every kernel that reads it loads single numbers, and no product in 8 bits
// takes it. So the weight gets
// rows of zeros, element-wise ops on the result go on with the columns that these give, and what is
// not element-wise sees a slice. A cross-entropy sees all columns, those beyond the weight's at
// -1e30: their weights and gradients are exactly zero. So does what combines the columns: a sum
// sees zeros there, a maximum or log-sum-exp -∞.
//
// It runs before differentiation, which then finds aligned products backward too.
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/Passes.h"
#include "passes/fp8/Policy.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

namespace nano {
#define GEN_PASS_DEF_ALIGNPRODUCTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// What a logit that no token has is set to: far below all others, and finite in what follows.
constexpr double noLogit = -1e30;

class Aligner {
public:
  Aligner(ProgramOp function, int64_t multiple) : function(function), multiple(multiple) {}

  LogicalResult run() {
    SmallVector<MatmulOp> products(function.getOps<MatmulOp>());
    for (MatmulOp product : products) {
      FailureOr<int64_t> wanted = wantedMultiple(product);
      if (failed(wanted))
        return failure();
      if (*wanted != 0)
        align(product, *wanted);
    }
    return success();
  }

private:
  /// What the rows of x·Wᵀ should be a multiple of, in elements; 0 for products that stay as they
  /// are: of few columns, of another form, or with such rows already. A GPU's libraries want 16
  /// bytes, in 8 bits 16 elements, or with scales by block whole blocks (`fp8::obstacle`).
  FailureOr<int64_t> wantedMultiple(MatmulOp product) {
    RankedTensorType type = tensorType(product.getResult());
    if (type.getRank() != 2 || product.getTransposeA() || !product.getTransposeB() ||
        product.getAddend() || type.getDimSize(1) < multiple)
      return 0;
    FailureOr<fp8::Recipe> recipe = recipeOf(product.getB());
    if (failed(recipe))
      return failure();
    const int64_t least = *recipe == fp8::Recipe::Block ? ScaledMatmulOp::blockSize
                          : *recipe == fp8::Recipe::Off ? 128 / type.getElementTypeBitWidth()
                                                        : 16;
    return type.getDimSize(1) % least == 0 ? 0 : std::lcm(multiple, least);
  }

  /// How the products of a weight run in 8 bits.
  static FailureOr<fp8::Recipe> recipeOf(Value weight) {
    LoadOp load = loadOf(weight);
    auto state = load ? SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr())
                      : StateOp();
    if (!state)
      return fp8::Recipe::Off;
    FailureOr<fp8::Policy> policy = fp8::Policy::of(state);
    if (failed(policy))
      return failure();
    return policy->recipe;
  }

  void align(MatmulOp product, int64_t wanted) {
    OpBuilder builder(product);
    GraphBuilder g(builder, product.getLoc());
    RankedTensorType type = tensorType(product.getResult());
    columns = type.getDimSize(1);
    wideColumns = int64_t(llvm::alignTo(columns, wanted));
    Value rows = g.withZeros(product.getB(), 0, wideColumns - columns);
    auto wide = cast<MatmulOp>(builder.clone(*product));
    wide.getBMutable().assign(rows);
    wide.getResult().setType(type.clone({type.getDimSize(0), wideColumns}));
    wideOf.clear();
    slices.clear();
    wideOf[product] = isReduced(product) ? masked(builder, wide, 0, product.getLoc()) : Value(wide);
    // In the block's order, so that all wide operands of an op are there before it.
    SmallVector<Operation *> replaced{product};
    for (Operation *op = product->getNextNode(); op; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value operand) { return wideOf.contains(operand); }))
        if (!goOn(op))
          replaced.push_back(op);
    // Each behind what it reads: the last ones have no users any more.
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

  static bool overColumns(ReduceOp reduce) { return llvm::is_contained(reduce.getDims(), 1); }

  /// Whether numbers of all columns are combined behind element-wise ops. What those columns that
  /// the weight does not have give is masked there, forward and backward; but what an element-wise
  /// op makes of them may overflow, and its derivative times the masked gradient, which is zero,
  /// were NaN. So the product's own columns are masked too, which stops it.
  static bool isReduced(MatmulOp product) {
    llvm::SmallSetVector<Operation *, 16> reached;
    reached.insert(product);
    for (size_t i = 0; i < reached.size(); ++i)
      for (Operation *user : reached[i]->getUsers()) {
        if (auto reduce = dyn_cast<ReduceOp>(user); reduce && overColumns(reduce))
          return true;
        if (user->hasTrait<ElementwiseOp>())
          reached.insert(user);
      }
    return false;
  }

  /// Lets an op that reads narrow values read wide ones: an element-wise op becomes wide; a
  /// cross-entropy, or what combines the columns, reads masked ones; any other a slice. False: the
  /// wide one stands in the place of this, which has no users that are not yet looked at.
  bool goOn(Operation *op) {
    OpBuilder builder(op);
    if (Operation *wide = widened(builder, op)) {
      wideOf[op->getResult(0)] = wide->getResult(0);
      return false;
    }
    auto loss = dyn_cast<CrossEntropyOp>(op);
    if (loss && wideOf.contains(loss.getLogits()))
      loss.getLogitsMutable().assign(
          masked(builder, wideOf[loss.getLogits()], noLogit, op->getLoc()));
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && overColumns(reduce))
      reduce.getXMutable().assign(masked(
          builder, wideOf[reduce.getX()],
          reduce.getCombiner() == Combiner::sum ? 0 : -std::numeric_limits<double>::infinity(),
          op->getLoc()));
    for (OpOperand &operand : op->getOpOperands())
      if (wideOf.contains(operand.get()))
        operand.set(slice(operand.get()));
    return true;
  }

  Value slice(Value narrow) {
    Value &slice = slices[narrow];
    if (!slice) {
      Value wide = wideOf[narrow];
      OpBuilder behind(wide.getContext());
      behind.setInsertionPointAfterValue(wide);
      slice = SliceOp::create(behind, wide.getLoc(), narrow.getType(), wide, 1, 0);
    }
    return slice;
  }

  /// The wide value, with `other` in the columns that the weight does not have.
  Value masked(OpBuilder &builder, Value wide, double other, Location location) {
    GraphBuilder g(builder, location);
    RankedTensorType type = tensorType(wide);
    Type integers = type.clone(builder.getI32Type());
    Value column = IotaOp::create(builder, location, integers, 1);
    return g.select(Predicate::lt, column, g.constant(double(columns), integers), wide,
                    g.constant(other, type));
  }

  /// The op on all columns, or null when it is none that can be: it is element-wise, and its
  /// operands are wide, constants, numbers of rows or columns, or repeat along the columns.
  Operation *widened(OpBuilder &builder, Operation *op) {
    if (!op->hasTrait<ElementwiseOp>() || op->getNumResults() != 1)
      return nullptr;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      Value wide = wideOf.lookup(operand);
      if (!wide)
        wide = widenedOperand(builder, operand);
      if (!wide)
        return nullptr;
      operands.push_back(wide);
    }
    Operation *wide = builder.clone(*op);
    wide->setOperands(operands);
    wide->getResult(0).setType(withColumns(op->getResult(0).getType()));
    return wide;
  }

  Value widenedOperand(OpBuilder &builder, Value operand) {
    Operation *op = operand.getDefiningOp();
    auto repeated = dyn_cast_if_present<BroadcastOp>(op);
    const bool repeats = repeated && !llvm::is_contained(repeated.getDims(), 1);
    if (!repeats && !isa_and_present<ConstantOp, IotaOp>(op))
      return nullptr;
    Operation *wide = builder.clone(*op);
    wide->getResult(0).setType(withColumns(operand.getType()));
    return wide->getResult(0);
  }

  Type withColumns(Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone({tensor.getDimSize(0), wideColumns});
  }

  ProgramOp function;
  const int64_t multiple;
  // Of the product at hand:
  int64_t columns = 0, wideColumns = 0;
  llvm::DenseMap<Value, Value> wideOf; ///< by values [T, columns], which are its first columns
  llvm::DenseMap<Value, Value> slices; ///< those columns, by the same values
};

struct AlignProducts : public nano::impl::AlignProductsBase<AlignProducts> {
  using Base::Base;

  void runOnOperation() override {
    if (multiple < 1) {
      emitError(getOperation().getLoc())
          << "nano-align-products: multiple=" << int64_t(multiple) << ": must be positive";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<ProgramOp>())
      if (failed(Aligner(function, multiple).run()))
        return signalPassFailure();
  }
};

} // namespace
