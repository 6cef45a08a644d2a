// nano-shift-losses: the exponentials of a cross-entropy's logits are the end of their product, and
// no kernel passes over the logits.
//
//   %z = nano.matmul %x, %w {transpose_b}               : [T, D] × [C, D]ᵀ → [T, C]
//   %l, %lse = nano.cross_entropy %z, %t                : [T, C] → [T]
//   %dz = (e^(%z − %lse)·a − onehot(%t)·b)              : a and b are numbers a row
//   %dx = nano.matmul %dz, %w;  %dw = nano.matmul %dz, %x {transpose_a}
// ⇒
//   %s = x·w[t] + 60, by rows
//   %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s       e^(z − s − m) but for the target
//   S = sum + e^(−60 − m);  l = ln S + 60 + m;  lse = l + x·w[t]
//   f = a/S;  g = a − b − f·sum, the gradient of the target's logit
//   %dx = f·(e·w) + g·w[t];  %dw = eᵀ·(f·x) + scatter_add(g·x, t)
//
// A softmax needs no largest logit: any number serves that is near enough for the exponentials that
// count to be numbers. The target's logit is one, which a product of two rows gives before all
// others are known: with 60 more, what counts is from 27 below it to 124 above, and a loss beyond
// that is told by nano.exp_matmul's `largest`. What lies further below the target's logit is less
// than 2·10⁻¹² of the sum each.
//
// It runs before losses are computed in chunks of rows, and scatters joined.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "ir/machine/Machine.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_SHIFTLOSSES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// How far above the target's logit a row's shift is.
constexpr double aboveTarget = 60;

/// factor · row, or the factor alone where there is no row [T].
struct Number {
  double factor = 0;
  Value row = {};

  bool isZero() const { return factor == 0; }
  bool operator==(const Number &) const = default;
};

/// softmax·ofSoftmax + onehot(target)·ofTarget + ofAll, each a number a row.
struct Form {
  Number ofSoftmax, ofTarget, ofAll;
};

bool isColumn(Value value) {
  auto iota = value.getDefiningOp<IotaOp>();
  return iota && iota.getDim() == 1 && tensorType(value).getRank() == 2;
}

/// What is broadcast along columns, [T]; null when nothing is.
Value repeatedRow(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getDims() == ArrayRef<int64_t>{0} ? broadcast.getX() : Value();
}

/// The logits that a cross-entropy reads.
struct Logits {
  MatmulOp product;
  int64_t columns = 0; ///< the first ones, which a target can be
};

/// Nothing for what is no product's result, or is changed on the way.
std::optional<Logits> logitsOf(Value value) {
  Logits logits{{}, tensorType(value).getDimSize(1)};
  if (auto select = value.getDefiningOp<SelectOp>()) {
    auto limit = select.getRhs().getDefiningOp<ConstantOp>(),
         none = select.getOnFalse().getDefiningOp<ConstantOp>();
    constexpr double noLogit = -1e29; // far below all that are some
    if (select.getPredicate() != Predicate::lt || !isColumn(select.getLhs()) || !limit || !none ||
        none.getValue().convertToDouble() > noLogit)
      return std::nullopt;
    logits.columns = std::min(logits.columns, int64_t(limit.getValue().convertToDouble()));
    value = select.getOnTrue();
  }
  if (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getX();
  logits.product = value.getDefiningOp<MatmulOp>();
  return logits.product ? std::optional(logits) : std::nullopt;
}

/// A cross-entropy and what comes of it.
class Loss {
public:
  Loss(CrossEntropyOp loss, Logits logits)
      : loss(loss), logits(logits), type(tensorType(logits.product.getResult())),
        rowType(tensorType(loss.getLoss())), builder(loss) {}

  /// Why its form is another; empty when it can be rewritten. Ops that may be left behind have no
  /// users.
  std::string obstacle() {
    if (std::string text = productObstacle(logits.product); !text.empty())
      return text;
    if (!logits.product.getTransposeB())
      return "its second operand is not transposed";
    if (type.getDimSize(1) % partialSumColumns != 0)
      return "its rows are no multiples of " + std::to_string(partialSumColumns) + " columns";
    if (std::string text = findReaders(); !text.empty())
      return text;
    if (readers.empty())
      return "no gradient of the logits is asked for";
    const std::optional<Form> form = formOf(gradient);
    if (!form || !form->ofAll.isZero() || form->ofSoftmax.isZero())
      return "the gradient of the logits is no softmax with a number a row and another at the "
             "target";
    gradientForm = *form;
    return "";
  }

  MatmulOp product() const { return logits.product; }
  /// The products that read the gradient of the logits, in order.
  ArrayRef<MatmulOp> gradients() const { return readers.getArrayRef(); }

  void rewrite() {
    rewriteLoss();
    for (MatmulOp reader : readers)
      reader.getTransposeA() ? rewriteSum(reader) : rewriteRows(reader);
    for (MatmulOp reader : readers)
      erase(reader);
    // The gradient of the logits is gone; what else asks for the sums' logarithm asks here.
    if (!loss.getLse().use_empty()) {
      OpBuilder before(loss);
      loss.getLse().replaceAllUsesWith(
          GraphBuilder(before, loss.getLoc()).add(loss.getLoss(), picked));
    }
    loss.getLoss().replaceAllUsesWith(total);
    erase(loss);
  }
  /// Takes back what obstacle() has made.
  void forget() {
    for (Operation *op : llvm::reverse(made))
      if (op->use_empty())
        op->erase();
  }

private:
  /// Follows the logits to the loss and to the products that read their gradient.
  std::string findReaders() {
    wide.insert(logits.product);
    for (size_t i = 0; i < wide.size(); ++i)
      for (Operation *user : wide[i]->getUsers()) {
        if (user == loss)
          continue;
        if (user->getBlock() != loss->getBlock())
          return "it is read elsewhere";
        auto matmul = dyn_cast<MatmulOp>(user);
        if (matmul) {
          const Value read = wide[i]->getResult(0);
          if (matmul.getA() != read || matmul.getB() == read || matmul.getAddend() ||
              matmul.getTransposeB() || !matmul.getAlpha().isExactlyValue(1.0) ||
              tensorType(matmul.getResult()).getRank() != 2 || (gradient && gradient != read))
            return "its gradient is read otherwise than by two products";
          gradient = read;
          readers.insert(matmul);
          continue;
        }
        if (!user->hasTrait<ElementwiseOp>() ||
            tensorType(user->getResult(0)).getShape() != type.getShape())
          return ("the logits are read by a " + user->getName().getStringRef()).str();
        wide.insert(user);
      }
    SmallVector<Operation *> sorted(wide.getArrayRef());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    wide = llvm::SetVector<Operation *>(sorted.begin(), sorted.end());
    SmallVector<MatmulOp> inOrder(readers.getArrayRef());
    llvm::sort(inOrder, [](MatmulOp a, MatmulOp b) { return a->isBeforeInBlock(b); });
    readers = llvm::SetVector<MatmulOp>(inOrder.begin(), inOrder.end());
    builder.setInsertionPoint(readers.empty() ? loss.getOperation()
                                              : inOrder.front().getOperation());
    return "";
  }

  //===- The gradient of the logits --------------------------------------------------------===//

  std::optional<Form> formOf(Value value) {
    if (auto it = forms.find(value); it != forms.end())
      return it->second;
    const std::optional<Form> form = newForm(value);
    forms[value] = form;
    return form;
  }

  std::optional<Form> newForm(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto constant = dyn_cast<ConstantOp>(op))
      return Form{{}, {}, {constant.getValue().convertToDouble()}};
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      const bool isNumber = tensorType(broadcast.getX()).getRank() == 0;
      if (!isNumber && !repeatedRow(value))
        return std::nullopt;
      return Form{{},
                  {},
                  {1, isNumber ? own(rows().broadcast(broadcast.getX(), rowType.getShape()))
                               : broadcast.getX()}};
    }
    if (auto exp = dyn_cast<ExpOp>(op))
      return isSoftmax(exp) ? std::optional(Form{{1}, {}, {}}) : std::nullopt;
    if (isa<CastOp>(op))
      return formOf(op->getOperand(0));
    if (auto select = dyn_cast<SelectOp>(op))
      return formOf(select);
    if (!isa<AddOp, SubOp, MulOp, DivOp, NegOp>(op))
      return std::nullopt;
    const std::optional<Form> a = formOf(op->getOperand(0));
    const std::optional<Form> b = isa<NegOp>(op) ? Form{{}, {}, {-1}} : formOf(op->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    const auto each = [&](auto function) {
      return Form{function(a->ofSoftmax, b->ofSoftmax), function(a->ofTarget, b->ofTarget),
                  function(a->ofAll, b->ofAll)};
    };
    const auto isOfAll = [](const Form &form) {
      return form.ofSoftmax.isZero() && form.ofTarget.isZero();
    };
    if (isa<AddOp>(op))
      return each([&](Number x, Number y) { return sum(x, y); });
    if (isa<SubOp>(op))
      return each([&](Number x, Number y) { return sum(x, {-y.factor, y.row}); });
    if (isa<DivOp>(op)) {
      if (!isOfAll(*b) || b->ofAll.isZero())
        return std::nullopt;
      const Number inverse = {1 / b->ofAll.factor,
                              b->ofAll.row ? reciprocal(b->ofAll.row) : Value()};
      return each([&](Number x, Number) { return product(x, inverse); });
    }
    if (isOfAll(*b))
      return each([&](Number x, Number) { return product(x, b->ofAll); });
    if (isOfAll(*a))
      return each([&](Number, Number y) { return product(a->ofAll, y); });
    return std::nullopt;
  }

  /// A choice of the target's column, whose softmax must have the factor that it has elsewhere; or
  /// of the columns that a target can be, where the others are 0.
  std::optional<Form> formOf(SelectOp select) {
    if (!isColumn(select.getLhs()))
      return std::nullopt;
    const std::optional<Form> x = formOf(select.getOnTrue()), y = formOf(select.getOnFalse());
    if (!x || !y)
      return std::nullopt;
    if (select.getPredicate() == Predicate::lt) {
      auto limit = select.getRhs().getDefiningOp<ConstantOp>();
      const bool isZero = y->ofSoftmax.isZero() && y->ofTarget.isZero() && y->ofAll.isZero();
      return isZero && limit && limit.getValue().convertToDouble() == double(logits.columns)
                 ? x
                 : std::nullopt;
    }
    if (select.getPredicate() != Predicate::eq ||
        repeatedRow(select.getRhs()) != loss.getTargets() || x->ofSoftmax != y->ofSoftmax ||
        !y->ofTarget.isZero())
      return std::nullopt;
    return Form{y->ofSoftmax, sum(sum(x->ofTarget, x->ofAll), {-y->ofAll.factor, y->ofAll.row}),
                y->ofAll};
  }

  /// e^(z − lse) of the loss's own.
  bool isSoftmax(ExpOp exp) {
    auto sub = exp.getX().getDefiningOp<SubOp>();
    if (!sub || repeatedRow(sub.getRhs()) != loss.getLse())
      return false;
    const std::optional<Logits> other = logitsOf(sub.getLhs());
    return other && other->product == logits.product && other->columns == logits.columns;
  }

  //===- Numbers a row ---------------------------------------------------------------------===//

  GraphBuilder rows() { return {builder, loss.getLoc()}; }
  Value rowOf(Number number) {
    GraphBuilder g = rows();
    if (!number.row)
      return own(g.constant(number.factor, rowType));
    return number.factor == 1 ? number.row : own(g.mul(number.row, number.factor));
  }
  Value reciprocal(Value row) { return own(rows().div(own(rows().constant(1, rowType)), row)); }
  Value own(Value value) {
    made.push_back(value.getDefiningOp());
    return value;
  }
  Number sum(Number a, Number b) {
    if (a.isZero() || b.isZero())
      return a.isZero() ? b : a;
    if (a.row == b.row)
      return {a.factor + b.factor, a.factor + b.factor == 0 ? Value() : a.row};
    return {1, own(rows().add(rowOf(a), rowOf(b)))};
  }
  Number product(Number a, Number b) {
    if (a.isZero() || b.isZero())
      return {};
    if (a.row && b.row) {
      // Once for each pair, so that equal products are known to be equal.
      Value &row = products[{a.row, b.row}];
      if (!row)
        row = own(rows().mul(a.row, b.row));
      return {a.factor * b.factor, row};
    }
    return {a.factor * b.factor, a.row ? a.row : b.row};
  }

  //===- What takes its place --------------------------------------------------------------===//

  void rewriteLoss() {
    OpBuilder before(loss);
    GraphBuilder g(before, loss.getLoc());
    const Value x = logits.product.getA(), w = logits.product.getB();
    picked = g.reduce(Combiner::sum, g.mul(g.toF32(x), g.toF32(rowsOf(before, w))), {1});
    auto product =
        ExpMatmulOp::create(before, before.getFusedLoc({logits.product.getLoc(), loss.getLoc()}),
                            TypeRange{type, rowType, rowType}, x, w, loss.getTargets(),
                            g.add(picked, aboveTarget), before.getI64IntegerAttr(logits.columns));
    exponentials = product.getE();
    others = product.getSum();
    const Value largest = g.add(product.getLargest(), aboveTarget);
    all = g.add(others, ExpOp::create(before, loss.getLoc(), rowType, g.neg(largest)).getResult());
    total = g.add(LogOp::create(before, loss.getLoc(), rowType, all).getResult(), largest);
  }

  /// A product with a matrix [C, D].
  void rewriteRows(MatmulOp reader) {
    OpBuilder before(reader);
    GraphBuilder g(before, reader.getLoc());
    const RankedTensorType of = tensorType(reader.getResult());
    const auto times = [&](Value matrix, Value row) {
      return g.mul(g.toF32(matrix), g.broadcast(row, of.getShape(), {0}));
    };
    const Value whole =
        MatmulOp::create(before, reader.getLoc(), of, exponentials, reader.getB()).getResult();
    const Value rows =
        g.add(times(whole, factor()), times(rowsOf(before, reader.getB()), targetsFactor()));
    reader.getResult().replaceAllUsesWith(g.cast(rows, of.getElementType()));
  }

  /// A sum over rows, with a matrix [T, D]. The rows of targets are added where the sum is f32, as
  /// those are that other tables' gradients are made of.
  void rewriteSum(MatmulOp reader) {
    OpBuilder before(reader);
    GraphBuilder g(before, reader.getLoc());
    const RankedTensorType of = tensorType(reader.getB());
    const auto times = [&](Value row) {
      return g.mul(g.toF32(reader.getB()), g.broadcast(row, of.getShape(), {0}));
    };
    const Value scaled = g.cast(times(factor()), of.getElementType()),
                added = times(targetsFactor());
    Value sums = MatmulOp::create(before, reader.getLoc(), reader.getResult().getType(),
                                  exponentials, scaled, /*transposeA=*/true);
    reader.getResult().replaceAllUsesWith(sums);
    while (Operation *next = soleReader(sums))
      sums = next->getResult(0);
    OpBuilder behind(reader.getContext());
    behind.setInsertionPointAfter(sums.getDefiningOp());
    GraphBuilder h(behind, reader.getLoc());
    const RankedTensorType table = tensorType(sums);
    const Value scattered = ScatterAddOp::create(
        behind, reader.getLoc(), RankedTensorType::get(table.getShape(), behind.getF32Type()),
        added, loss.getTargets());
    const Value wide = h.toF32(sums), both = h.add(wide, scattered);
    const Value result = h.cast(both, table.getElementType());
    sums.replaceAllUsesExcept(result, (wide == sums ? both : wide).getDefiningOp());
  }
  /// The one op that reads the sums, which takes the rows that targets can name, or f32 of them.
  Operation *soleReader(Value sums) const {
    if (!sums.hasOneUse())
      return nullptr;
    Operation *user = *sums.user_begin();
    if (auto slice = dyn_cast<SliceOp>(user))
      return slice.getDim() == 0 && slice.getStart() == 0 &&
                     tensorType(slice).getDimSize(0) >= logits.columns
                 ? user
                 : nullptr;
    const bool isWider = isa<CastOp>(user) && !tensorType(sums).getElementType().isF32() &&
                         tensorType(user->getResult(0)).getElementType().isF32();
    return isWider ? user : nullptr;
  }

  /// Of a matrix [C, D] those of the targets, [T, D].
  Value rowsOf(OpBuilder &before, Value matrix) {
    const RankedTensorType of = tensorType(matrix);
    return GatherOp::create(before, loss.getLoc(),
                            of.clone(ArrayRef<int64_t>{type.getDimSize(0), of.getDimSize(1)}),
                            matrix, loss.getTargets());
  }

  /// Erases an op without users, and what was made for it alone.
  void erase(Operation *dead) {
    llvm::SmallSetVector<Operation *, 16> unused;
    unused.insert(dead);
    while (!unused.empty()) {
      Operation *op = unused.pop_back_val();
      if (!isOpTriviallyDead(op))
        continue;
      for (Value operand : op->getOperands())
        if (Operation *before = operand.getDefiningOp(); before && before != loss)
          unused.insert(before);
      op->erase();
    }
  }

  /// f, or g.
  Value factor() {
    if (!ofRows)
      ofRows = rows().div(rowOf(gradientForm.ofSoftmax), all);
    return ofRows;
  }
  Value targetsFactor() {
    if (!ofTargets) {
      GraphBuilder g = rows();
      const Value missing = g.neg(g.mul(factor(), others));
      const Number rest = sum(gradientForm.ofSoftmax, gradientForm.ofTarget);
      ofTargets = rest.isZero() ? missing : g.add(missing, rowOf(rest));
    }
    return ofTargets;
  }

  CrossEntropyOp loss;
  Logits logits;
  RankedTensorType type, rowType;
  OpBuilder builder;                 ///< of numbers a row, before the first product
  llvm::SetVector<Operation *> wide; ///< ops of the logits and their gradient, the product first
  llvm::SetVector<MatmulOp> readers; ///< of the gradient
  Value gradient;
  Form gradientForm;
  llvm::DenseMap<Value, std::optional<Form>> forms;
  llvm::DenseMap<std::pair<Value, Value>, Value> products;
  SmallVector<Operation *> made;                  ///< for forms
  Value picked, exponentials, others, all, total; ///< x·w[t], e, sum, S, l
  Value ofRows, ofTargets;                        ///< f, g
};

struct ShiftLosses : nano::impl::ShiftLossesBase<ShiftLosses> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (losses != "auto" && losses != "product" && losses != "logits") {
      emitError(module.getLoc()) << "nano-shift-losses: losses=" << losses.getValue()
                                 << ": there are auto, product and logits";
      return signalPassFailure();
    }
    llvm::Expected<machine::Machine> loaded = machine::load(machine);
    if (!loaded) {
      emitError(module.getLoc()) << "nano-shift-losses: " << llvm::toString(loaded.takeError());
      return signalPassFailure();
    }
    rates = std::move(*loaded);
    if (losses == "logits")
      return;
    SmallVector<CrossEntropyOp> all;
    module.walk([&](CrossEntropyOp op) { all.push_back(op); });
    for (CrossEntropyOp op : all)
      shift(op);
  }

private:
  void shift(CrossEntropyOp op) {
    const std::optional<Logits> logits = logitsOf(op.getLogits());
    if (!logits)
      return;
    Loss loss(op, *logits);
    std::string obstacle = loss.obstacle();
    if (obstacle.empty() && losses == "auto")
      obstacle = predicted(loss);
    if (report)
      emitDetail(logits->product) << (obstacle.empty()
                                          ? "ends with the exponentials of its loss"
                                          : "apart from the exponentials of its loss: " + obstacle);
    if (obstacle.empty())
      loss.rewrite();
    else
      loss.forget();
  }

  /// Why the loss is left to a kernel that passes over the logits, or nothing. That reads them and
  /// writes their gradient in their place. Without it numbers a row are taken from what the product
  /// leaves, one factor is read once more for each product that reads the gradient, and the
  /// targets' rows for each. The product with its end is as fast as the library's: 970 us of 8192 ×
  /// 50304 × 768 in steps on an H200. A sixth must be saved. By the rates of an H200 it is 23% of
  /// GPT-2 124M, 20% of a Qwen3 of six layers and 21% of a mixture of experts, whose steps there
  /// take 76.2 ms and not 77.6, 50.4 and not 53.1, 57.3 and not 57.5; with 15% a Llama of 350M
  /// gains little, 143.4 and not 144.5, and with 10% GPT-2 1.5B was not seen to be faster.
  std::string predicted(Loss &loss) const {
    constexpr double margin = 5.0 / 6.0;
    const Product product = *productOf(loss.product());
    const RankedTensorType type = tensorType(product.result);
    const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1), inner = product.inner();
    const machine::ElementType element = machine::ElementType::BF16;
    if (rates.tiles(rows, columns, element) < rates.multiprocessors())
      return "it has fewer tiles than the machine has multiprocessors";
    const double logits = double(bytesOf(product.result)), factor = double(bytesOf(product.a)),
                 table = double(bytesOf(product.b)),
                 sums = logits / (sizeof(uint16_t) * partialSumColumns) * sizeof(float);
    const double apart = rates.product(rows, columns, inner, 1, element, factor + table + logits) +
                         rates.kernel(2 * logits) + rates.command();
    double together = std::max(rates.wholeProduct(rows, columns, inner, element),
                               rates.kernel(factor + table + logits + sums)) +
                      rates.kernel(2 * factor + 2 * sums) + 3 * rates.command();
    for (MatmulOp reader : loss.gradients())
      together += reader.getTransposeA()
                      ? rates.kernel(2 * factor) + rates.kernel(6 * factor + 4 * table)
                      : rates.kernel(2 * factor);
    return together < margin * apart ? "" : "too little is predicted to be saved";
  }

  machine::Machine rates;
};

} // namespace
