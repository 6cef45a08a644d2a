// nano-scale-results: the factors of a norm multiply rows of what products give, instead of the
// rows that they read.
//
//   %b = nano.broadcast %r dims [0]               %p = nano.matmul %x, %w
//   %m = nano.mul (f32 %x), %b             ⇒      %b = nano.broadcast %r dims [0]
//   %n = nano.cast %m : f32 → bf16                %m = nano.mul (f32 %p), %b
//   %y = nano.matmul %n, %w                       %y = nano.cast %m : f32 → bf16
//
// (r·x)·W = r·(x·W), with a number r of each row. The backward pass is rewritten with it:
//
//   ∂L/∂W = (r·x)ᵀ·dy = xᵀ·(r·dy),      ∂L/∂n = dy·Wᵀ = (1/r)·((r·dy)·Wᵀ)
//
// so that r·dy takes dy's place for both products, and n is neither written nor read: one matrix as
// wide as x less forward and, where it would be made again there, backward. What multiplies instead
// are kernels that read the products and make dy anyway, or ends of products.
//
// It runs on the differentiated program: a derivative of r·(x·W) would sum dy·(x·W) over y's
// columns for ∂L/∂r, where the norm's own sums over x's.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/Recomputed.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "ir/machine/Machine.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/fp8/Products.h"

#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_SCALERESULTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Of an element that is widened, multiplied and rounded again, what a product's end takes, as so
/// many operations of a kernel.
constexpr double operations = 4;

/// Rows that are multiplied by a number each, which products read.
struct NormedRows {
  Value x;   ///< [R, D], in the products' type
  RsqrtOp r; ///< [R], in f32; 0 for a row whose mean square is infinite, which divided by it is NaN
  Value result; ///< r·x, rounded to x's type
  SmallVector<MatmulOp> forward, weights;
  llvm::SmallSetVector<Value, 4> gradients; ///< dy, in the second factors' order
  /// Products dy·Wᵀ and sums of some, of which nothing else is read but the last ones.
  llvm::SmallSetVector<Value, 4> parts, sums;
};

/// What `value` is before a cast to f32.
Value beforeWidening(Value value) {
  auto wide = value.getDefiningOp<CastOp>();
  return wide && getElementTypeOrSelf(value.getType()).isF32() &&
                 isa<FloatType>(getElementTypeOrSelf(wide.getX().getType()))
             ? wide.getX()
             : value;
}

/// The norm's factors that `value` repeats along rows; null for others.
RsqrtOp normFactors(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || tensorType(value).getRank() != 2 ||
      broadcast.getDims() != ArrayRef<int64_t>{0} || tensorType(broadcast.getX()).getRank() != 1)
    return {};
  return broadcast.getX().getDefiningOp<RsqrtOp>();
}

/// True for a product of two matrices that does nothing besides.
bool isPlainProduct(MatmulOp op) {
  return tensorType(op).getRank() == 2 && !op.getAddend() && op.getAlpha().isExactlyValue(1.0);
}

/// True where a kernel makes the value: element by element, and not as what a product ends with in
/// the library.
bool isMadeByKernel(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasTrait<ElementwiseOp>() && !isa<ConstantOp>(op) &&
         !(isa<AddOp, CastOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
             return operand.hasOneUse() && operand.getDefiningOp<MatmulOp>();
           }));
}

/// Whether what element-wise ops make of `value` ends in a loss.
bool leadsToLoss(Value value, int most = 12) {
  return most > 0 && llvm::any_of(value.getUsers(), [&](Operation *user) {
           return isa<CrossEntropyOp>(user) ||
                  ((user->hasTrait<ElementwiseOp>() || isa<ReshapeOp>(user)) &&
                   leadsToLoss(user->getResult(0), most - 1));
         });
}

/// Fills in what reads the rows, or says why they stay as they are.
std::string findReaders(NormedRows &scaled, const DenseSet<Operation *> &narrowed) {
  for (OpOperand &use : scaled.result.getUses()) {
    auto product = dyn_cast<MatmulOp>(use.getOwner());
    if (!product || !isPlainProduct(product))
      return "not only products read them";
    if (narrowed.contains(product))
      return "a product reads them in 8 bits";
    const bool isA = use.getOperandNumber() == 0;
    if (product.getA() == product.getB())
      return "a product reads them twice";
    if (isA && !product.getTransposeA()) {
      scaled.forward.push_back(product);
      continue;
    }
    if (!product.getTransposeA() || product.getTransposeB())
      return "a product sums over their columns and more";
    scaled.weights.push_back(product);
    scaled.gradients.insert(isA ? product.getB() : product.getA());
  }
  if (scaled.forward.empty())
    return "no product of the forward pass reads them";
  for (Value gradient : scaled.gradients)
    for (Operation *user : gradient.getUsers()) {
      auto product = dyn_cast<MatmulOp>(user);
      if (!product || llvm::is_contained(scaled.weights, product))
        continue;
      if (!isPlainProduct(product) || product.getA() != gradient || product.getTransposeA() ||
          product.getB() == gradient || narrowed.contains(product))
        return "a gradient's product is of another form";
      scaled.parts.insert(product.getResult());
    }
  scaled.sums.insert(scaled.parts.begin(), scaled.parts.end());
  for (size_t i = 0; i < scaled.sums.size(); ++i) {
    if (!scaled.sums[i].hasOneUse())
      continue;
    auto add = dyn_cast<AddOp>(*scaled.sums[i].user_begin());
    if (add && llvm::all_of(add->getOperands(), [&](Value operand) {
          return operand.hasOneUse() && scaled.sums.contains(operand);
        }))
      scaled.sums.insert(add.getResult());
  }
  return "";
}

struct ScaleResults : public nano::impl::ScaleResultsBase<ScaleResults> {
  using Base::Base;

  void runOnOperation() override {
    llvm::Expected<machine::Machine> loaded = machine::load(machine);
    if (!loaded) {
      emitError(getOperation().getLoc())
          << "nano-scale-results: " << llvm::toString(loaded.takeError());
      return signalPassFailure();
    }
    rates = std::move(*loaded);
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(rewrite(program)))
        return signalPassFailure();
  }

private:
  LogicalResult rewrite(ProgramOp program) {
    FailureOr<SmallVector<fp8::Product>> chosen = fp8::chosenProducts(program);
    if (failed(chosen))
      return failure();
    DenseSet<Operation *> narrowed;
    for (const fp8::Product &product : *chosen)
      narrowed.insert(product.op);
    for (MulOp mul : llvm::to_vector(program.getOps<MulOp>()))
      for (auto [factors, x] :
           {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
        RsqrtOp r = normFactors(factors);
        if (!r || normFactors(x))
          continue;
        std::optional<NormedRows> scaled = scaledBy(mul, r, x);
        if (!scaled)
          continue;
        const std::string obstacle = obstacleTo(*scaled, narrowed);
        if (report)
          emitDetail(mul) << (obstacle.empty()
                                  ? "multiplies what products give instead of what they read"
                                  : "multiplies what products read: " + obstacle);
        if (obstacle.empty())
          move(*scaled);
        break;
      }
    for (Operation *op : left)
      eraseUnread(op);
    left.clear();
    return success();
  }

  /// Nothing where no product reads what `mul` makes.
  static std::optional<NormedRows> scaledBy(MulOp mul, RsqrtOp r, Value x) {
    NormedRows scaled{beforeWidening(x), r, mul.getResult(), {}, {}, {}, {}, {}};
    if (scaled.x.getType() != mul.getType()) {
      auto cast = llvm::find_if(mul->getUsers(), [&](Operation *user) {
        return isa<CastOp>(user) && user->getResult(0).getType() == scaled.x.getType();
      });
      if (cast == mul->user_end())
        return std::nullopt;
      scaled.result = (*cast)->getResult(0);
    }
    if (llvm::none_of(scaled.result.getUsers(), llvm::IsaPred<MatmulOp>))
      return std::nullopt;
    return scaled;
  }

  std::string obstacleTo(NormedRows &scaled, const DenseSet<Operation *> &narrowed) const {
    if (std::string text = findReaders(scaled, narrowed); !text.empty())
      return text;
    for (MatmulOp product : scaled.forward) {
      if (leadsToLoss(product.getResult()))
        return "a loss follows";
      for (Operation *user : product->getUsers())
        if (!user->hasTrait<ElementwiseOp>())
          return "what a product gives is read by no kernel";
        else if (product->hasOneUse() && isa<AddOp>(user))
          return "a product adds to what it gives";
    }
    for (Value gradient : scaled.gradients)
      if (!isMadeByKernel(gradient))
        return "a gradient is made by no kernel";
      else if (gradient.getDefiningOp()->isBeforeInBlock(scaled.r))
        return "a gradient is made before the numbers";
    // A matrix is written less in each pass. What a gradient is multiplied with is not hidden where
    // a product ends with it: 359 for 340 us of 49152 × 3072 × 768 with relu²'s gradient, in steps
    // on an H200.
    const double less =
        (scaled.weights.empty() ? 1 : 2) * rates.kernel(double(bytesOf(scaled.result)));
    double more = rates.command();
    for (Value gradient : scaled.gradients)
      more += rates.kernel(0, operations * double(tensorType(gradient).getNumElements()));
    return all || less > more ? "" : "that is predicted to be faster";
  }

  /// value·r or value·(1/r), in the value's type.
  static Value times(GraphBuilder &g, Value value, Value ofRows) {
    const RankedTensorType type = tensorType(value);
    return g.cast(g.mul(g.toF32(value), g.broadcast(ofRows, type.getShape(), {0})),
                  type.getElementType());
  }

  /// Erases an op that nothing reads, and then what only it has read.
  static void eraseUnread(Operation *op) {
    if (!op->use_empty())
      return;
    const SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      if (Operation *made = operand.getDefiningOp(); made && isa<BroadcastOp, CastOp, MulOp>(made))
        eraseUnread(made);
  }

  void move(const NormedRows &scaled) {
    RsqrtOp r = scaled.r;
    OpBuilder builder(r);
    for (MatmulOp product : scaled.forward) {
      product.getAMutable().assign(scaled.x);
      Operation *const behind = product->getNextNode();
      builder.setInsertionPointAfter(product);
      GraphBuilder g(builder, product.getLoc());
      Value y = product.getResult();
      const llvm::SmallPtrSet<Operation *, 4> readers(y.user_begin(), y.user_end());
      const Value whole = times(g, y, r.getResult());
      // What the model marks to be made again goes on with it.
      if (const Attribute region = product->getAttr(recomputeAttrName))
        for (Operation *op = product->getNextNode(); op != behind; op = op->getNextNode())
          op->setAttr(recomputeAttrName, region);
      y.replaceUsesWithIf(whole, [&](OpOperand &use) { return readers.contains(use.getOwner()); });
    }
    for (Value gradient : scaled.gradients) {
      builder.setInsertionPointAfterValue(gradient);
      GraphBuilder g(builder, gradient.getLoc());
      const Value whole = times(g, gradient, r.getResult());
      gradient.replaceUsesWithIf(whole, [&](OpOperand &use) {
        auto product = dyn_cast<MatmulOp>(use.getOwner());
        return product && (llvm::is_contained(scaled.weights, product) ||
                           scaled.parts.contains(product.getResult()));
      });
    }
    for (MatmulOp product : scaled.weights)
      for (OpOperand &operand : product->getOpOperands())
        if (operand.get() == scaled.result)
          operand.set(scaled.x);
    for (Value sum : scaled.sums)
      divide(sum, scaled, builder);
    left.insert(scaled.result.getDefiningOp());
  }

  /// Lets what reads a sum of products of r·dy read it divided by r. Of that, multiplied by r, the
  /// sum itself takes the place.
  void divide(Value sum, const NormedRows &scaled, OpBuilder &builder) {
    RsqrtOp r = scaled.r;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : sum.getUses())
      if (use.getOwner()->getNumResults() != 1 ||
          !scaled.sums.contains(use.getOwner()->getResult(0)))
        uses.push_back(&use);
    if (uses.empty())
      return;
    builder.setInsertionPointAfterValue(sum);
    GraphBuilder g(builder, sum.getLoc());
    const Value inverse = g.sqrt(r.getX()),
                rows = g.broadcast(inverse, tensorType(sum).getShape(), {0}), whole = g.toF32(sum),
                divided = g.mul(whole, rows);
    for (OpOperand *use : uses) {
      auto cast = dyn_cast<CastOp>(use->getOwner());
      if (!cast || cast.getType() != divided.getType()) {
        use->set(g.cast(divided, tensorType(sum).getElementType()));
        continue;
      }
      for (OpOperand &read : llvm::make_early_inc_range(cast.getResult().getUses())) {
        auto mul = dyn_cast<MulOp>(read.getOwner());
        if (!mul || normFactors(mul.getOperand(1 - read.getOperandNumber())) != r) {
          read.set(divided);
          continue;
        }
        mul.replaceAllUsesWith(whole);
        left.insert(mul);
      }
    }
  }

  machine::Machine rates;
  llvm::SetVector<Operation *> left; ///< ops that nothing need read any more
};

} // namespace
