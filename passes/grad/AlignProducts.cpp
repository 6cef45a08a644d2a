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
// takes it. So the weight gets rows of zeros, and what is computed of the result goes on with the
// columns that these give: element-wise ops, also of several such results and with a number a
// column, which gets zeros behind it. A cross-entropy sees those beyond the weight's at -1e30, a
// sum of columns at 0 and a maximum or log-sum-exp at -∞; sums over the rows lose their last
// columns again; all else sees a slice. Weights and gradients of the columns beyond are exactly
// zero: where more is computed than a loss, what flows back into a product is cut off at its
// columns, and where an op has no finite value or derivative everywhere, its value is, and what
// flows back into a number of each row too.
//
// It runs before differentiation, which then finds aligned products backward too.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/Passes.h"
#include "passes/fp8/Policy.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
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
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
      auto product = dyn_cast<MatmulOp>(op);
      FailureOr<int64_t> wanted = product ? wantedMultiple(product) : 0;
      if (failed(wanted))
        return failure();
      if (*wanted != 0)
        align(product, *wanted);
      else if (llvm::any_of(op.getOperands(), [&](Value x) { return wideOf.contains(x); }))
        goOn(&op);
    }
    if (cutsGradients || isWild)
      for (Aligned product : products)
        cutGradient(product.wide.getResult(), product.columns);
    if (isWild)
      for (auto [numbers, columns] : ofRows)
        cutGradient(numbers, columns);
    // Each behind what it reads: the last ones have no users any more.
    for (Value value : llvm::reverse(narrow)) {
      if (!value.use_empty())
        value.replaceAllUsesWith(sliceOf(value));
      value.getDefiningOp()->erase();
    }
    return success();
  }

private:
  /// The product of all columns, and how many its weight has.
  struct Aligned {
    MatmulOp wide;
    int64_t columns;
  };

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
    LoadOp load = weightOf(weight);
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
    const int64_t columns = type.getDimSize(1), all = int64_t(llvm::alignTo(columns, wanted));
    Value rows = g.withZeros(product.getB(), 0, all - columns);
    auto wide = cast<MatmulOp>(builder.clone(*product));
    wide.getBMutable().assign(rows);
    wide.getResult().setType(type.clone({type.getDimSize(0), all}));
    products.push_back({wide, columns});
    remember(product.getResult(), wide.getResult());
  }

  void remember(Value value, Value wide) {
    narrow.push_back(value);
    wideOf[value] = wide;
  }

  /// Lets the reader of a narrow value read the wide one: element-wise ops become wide and are read
  /// so in turn, a cross-entropy and reductions read masked columns; others a slice.
  void goOn(Operation *op) {
    OpBuilder builder(op);
    if (auto loss = dyn_cast<CrossEntropyOp>(op); loss && wideOf.contains(loss.getLogits())) {
      const Value logits = loss.getLogits();
      loss.getLogitsMutable().assign(
          masked(builder, wideOf[logits], columnsOf(logits), noLogit, op->getLoc()));
      return;
    }
    if (Operation *wide = widened(builder, op)) {
      Value all = wide->getResult(0);
      // What is not finite there would reach neighbours in kernels that divide several numbers at
      // once, as they do for sigmoids.
      if (!isTame(op)) {
        isWild = true;
        all = masked(builder, all, columnsOf(op->getResult(0)), 0, op->getLoc());
      }
      remember(op->getResult(0), all);
      return;
    }
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      reduceWide(builder, reduce);
      return;
    }
    for (OpOperand &operand : op->getOpOperands())
      if (wideOf.contains(operand.get()))
        operand.set(sliceOf(operand.get()));
  }

  Value sliceOf(Value value) {
    Value &slice = slices[value];
    if (!slice) {
      const Value wide = wideOf[value];
      OpBuilder behind(wide.getContext());
      behind.setInsertionPointAfterValue(wide);
      slice = SliceOp::create(behind, wide.getLoc(), value.getType(), wide, 1, 0);
    }
    return slice;
  }

  /// The reduction of all columns, those beyond at what changes nothing; of what is picked from a
  /// row they are behind the choice, which is seen as such only where it is what is summed.
  void reduceWide(OpBuilder &builder, ReduceOp reduce) {
    const Value x = reduce.getX(), wide = wideOf[x];
    const bool isSum = reduce.getCombiner() == Combiner::sum;
    cutsGradients = true;
    if (!llvm::is_contained(reduce.getDims(), 1)) {
      OpBuilder behind(reduce->getContext());
      behind.setInsertionPointAfter(reduce);
      const RankedTensorType type = tensorType(reduce);
      auto all = cast<ReduceOp>(builder.clone(*reduce));
      all.getXMutable().assign(wide);
      all.getResult().setType(type.clone({columnsOf(wide)}));
      reduce.replaceAllUsesWith(
          SliceOp::create(behind, reduce.getLoc(), type, all.getResult(), 0, 0).getResult());
      reduce.erase();
      return;
    }
    if (pickedBy(reduce)) {
      auto choice = wide.getDefiningOp<SelectOp>();
      builder.setInsertionPoint(choice);
      choice.getOnTrueMutable().assign(
          masked(builder, choice.getOnTrue(), columnsOf(x), 0, choice.getLoc()));
      reduce.getXMutable().assign(wide);
      return;
    }
    const double least = -std::numeric_limits<double>::infinity();
    reduce.getXMutable().assign(
        masked(builder, wide, columnsOf(x), isSum ? 0 : least, reduce.getLoc()));
  }

  /// Has nothing flow back into the columns beyond: what is not finite there, as the derivative of
  /// a logarithm at 0, would reach the others through the product's own derivatives, or through the
  /// sum that is the derivative of a number of each row.
  static void cutGradient(Value wide, int64_t columns) {
    OpBuilder builder(wide.getContext());
    builder.setInsertionPointAfterValue(wide);
    const Value cut = masked(builder, wide, columns, 0, wide.getLoc());
    wide.replaceAllUsesExcept(cut, cut.getDefiningOp());
  }

  static int64_t columnsOf(Value value) { return tensorType(value).getDimSize(1); }

  /// x, and in the columns from `columns` on the number.
  static Value masked(OpBuilder &builder, Value x, int64_t columns, double number,
                      Location location) {
    GraphBuilder g(builder, location);
    RankedTensorType type = tensorType(x);
    Type integers = type.clone(builder.getI32Type());
    Value column = IotaOp::create(builder, location, integers, 1);
    return g.select(Predicate::lt, column, g.constant(double(columns), integers), x,
                    g.constant(number, type));
  }

  /// True for an element-wise op whose value and derivatives are finite wherever its operands are
  /// of the order of usual ones, zeros among them.
  static bool isTame(Operation *op) {
    if (auto function = dyn_cast<UnaryFunctionInterface>(op)) {
      const FunctionTraits traits = function.traits();
      return traits.isExact || (std::isfinite(traits.low) && std::isfinite(traits.high));
    }
    if (auto quotient = dyn_cast<DivOp>(op)) {
      auto divisor = quotient->getOperand(1).getDefiningOp<ConstantOp>();
      return divisor && !isZero(divisor);
    }
    return isa<AddOp, SubOp, MulOp, MaxOp, MinOp, SelectOp, CastOp, StopGradientOp>(op) ||
           !isa<FloatType>(tensorType(op->getResult(0)).getElementType());
  }

  /// The op on all columns, or null when it is none that can be: it is element-wise, and its other
  /// operands are wide too, constants, numbers of columns, or the same in all columns of a row.
  Operation *widened(OpBuilder &builder, Operation *op) {
    if (!op->hasTrait<ElementwiseOp>() || op->getNumResults() != 1)
      return nullptr;
    // Whole numbers divided by the zeros beyond would end the program.
    if (isa<DivOp, RemOp>(op) && !isa<FloatType>(tensorType(op->getResult(0)).getElementType()))
      return nullptr;
    int64_t all = 0;
    for (Value operand : op->getOperands())
      if (const Value wide = wideOf.lookup(operand)) {
        if (all != 0 && all != columnsOf(wide))
          return nullptr;
        all = columnsOf(wide);
      }
    if (!llvm::all_of(op->getOperands(), [&](Value x) { return wideOf.contains(x) || repeats(x); }))
      return nullptr;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      const Value wide = wideOf.lookup(operand);
      operands.push_back(wide ? wide : repeated(builder, operand, all));
    }
    Operation *wide = builder.clone(*op);
    wide->setOperands(operands);
    wide->getResult(0).setType(withColumns(op->getResult(0).getType(), all));
    return wide;
  }

  /// True for what has as many columns as are wanted: a constant, the number of the row or column,
  /// a number of each row, or one of each column.
  static bool repeats(Value operand) {
    return isa_and_present<BroadcastOp, ConstantOp, IotaOp>(operand.getDefiningOp());
  }

  Value repeated(OpBuilder &builder, Value operand, int64_t all) {
    IRMapping mapping;
    bool isOfRows = false; // what flows back to it is summed over the columns
    if (auto broadcast = operand.getDefiningOp<BroadcastOp>()) {
      isOfRows = isa<FloatType>(tensorType(operand).getElementType());
      const Value x = broadcast.getX();
      const ArrayRef<int64_t> dims = broadcast.getDims();
      const int64_t dim = llvm::find(dims, 1) - dims.begin();
      if (dim < int64_t(dims.size()) && tensorType(x).getDimSize(dim) != 1) {
        mapping.map(x, GraphBuilder(builder, x.getLoc())
                           .withZeros(x, dim, all - tensorType(x).getDimSize(dim)));
        cutsGradients = true;
        isOfRows = false;
      }
    }
    Operation *wide = builder.clone(*operand.getDefiningOp(), mapping);
    wide->getResult(0).setType(withColumns(operand.getType(), all));
    if (isOfRows)
      ofRows.emplace_back(wide->getResult(0), columnsOf(operand));
    return wide->getResult(0);
  }

  static Type withColumns(Type type, int64_t columns) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone({tensor.getDimSize(0), columns});
  }

  ProgramOp function;
  const int64_t multiple;
  SmallVector<Aligned> products;
  SmallVector<Value> narrow; ///< values [T, columns] that are first columns of wide ones
  llvm::DenseMap<Value, Value> wideOf, slices;
  SmallVector<std::pair<Value, int64_t>> ofRows; ///< broadcasts to wide values, and their columns
  bool cutsGradients = false;                    ///< more is computed of them than losses and rows
  bool isWild = false;                           ///< an op on them is not finite everywhere
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
