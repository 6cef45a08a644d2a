// Takes sums of rows apart into sums of elements that are known before their factors are.
#include "passes/cuda/EarlySums.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Sums that one becomes at most: each costs its additions, and registers while a row waits.
constexpr size_t mostSums = 3;
/// Of a constant, rounded to f32.
constexpr double roundingOfNumbers = 0x1p-24;

/// A number of every row: a constant times values of one element a row.
struct Factor {
  double constant = 1;
  SmallVector<Value> numbers;
};

class EarlySums {
public:
  explicit EarlySums(const RowForm &form) {
    for (graph::ReduceOp reduce : form.rowReduces)
      rowReduces.insert(reduce);
  }

  bool run() {
    bool changed = false;
    for (Operation *reduce : SmallVector<Operation *>(rowReduces.begin(), rowReduces.end()))
      changed |= rowReduces.contains(reduce) && takeApart(cast<graph::ReduceOp>(reduce));
    return changed;
  }

private:
  /// Row reductions that the value waits for, one behind the other.
  unsigned depthOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return 0;
    auto [it, isNew] = depths.try_emplace(value, 0);
    if (!isNew)
      return it->second;
    unsigned depth = 0;
    for (Value operand : op->getOperands())
      depth = std::max(depth, depthOf(operand));
    return depths[value] = depth + rowReduces.contains(op);
  }

  /// The number of each row, in `sums`' shape, that the value repeats along it; null if it is none.
  static Value numberOfRows(Value value, RankedTensorType sums) {
    auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
    return broadcast && broadcast.getX().getType() == sums &&
                   broadcast.getDims() == ArrayRef{int64_t(0)}
               ? broadcast.getX()
               : Value();
  }

  /// True for x − Σx/n, whose sum over the row's n elements is 0.
  static bool isDeviation(Value value, RankedTensorType sums) {
    auto sub = value.getDefiningOp<graph::SubOp>();
    const Value mean = sub ? numberOfRows(sub.getRhs(), sums) : Value();
    auto product = mean ? mean.getDefiningOp<graph::MulOp>() : graph::MulOp();
    if (!product)
      return false;
    for (auto [sum, number] : {std::pair(product.getLhs(), product.getRhs()),
                               std::pair(product.getRhs(), product.getLhs())}) {
      auto reduce = sum.getDefiningOp<graph::ReduceOp>();
      auto constant = number.getDefiningOp<graph::ConstantOp>();
      const double columns = double(cast<RankedTensorType>(value.getType()).getDimSize(1));
      if (reduce && constant && reduce.getCombiner() == graph::Combiner::sum &&
          reduce.getX() == sub.getLhs() && reduce.getDims() == ArrayRef{int64_t(1)} &&
          std::abs(constant.getValue().convertToDouble() * columns - 1) <= roundingOfNumbers)
        return true;
    }
    return false;
  }

  /// Adds factor · value, in terms of elements that are no sums or products of a row's numbers.
  void collect(Value value, Factor factor, RankedTensorType sums) {
    Operation *op = value.getDefiningOp();
    if (auto neg = dyn_cast_if_present<graph::NegOp>(op)) {
      factor.constant = -factor.constant;
      return collect(neg.getX(), std::move(factor), sums);
    }
    if (isa_and_present<graph::AddOp, graph::SubOp>(op) && depthOf(value) == latest) {
      collect(op->getOperand(0), factor, sums);
      if (isa<graph::SubOp>(op))
        factor.constant = -factor.constant;
      return collect(op->getOperand(1), std::move(factor), sums);
    }
    if (auto product = dyn_cast_if_present<graph::MulOp>(op))
      for (auto [number, rest] : {std::pair(product.getLhs(), product.getRhs()),
                                  std::pair(product.getRhs(), product.getLhs())}) {
        if (auto constant = number.getDefiningOp<graph::ConstantOp>())
          factor.constant *= constant.getValue().convertToDouble();
        else if (const Value ofRows = numberOfRows(number, sums))
          factor.numbers.push_back(ofRows);
        else
          continue;
        return collect(rest, std::move(factor), sums);
      }
    terms[value].push_back(std::move(factor));
  }

  bool takeApart(graph::ReduceOp reduce) {
    auto type = cast<RankedTensorType>(reduce.getX().getType());
    auto sums = cast<RankedTensorType>(reduce.getType());
    latest = depthOf(reduce.getX());
    if (reduce.getCombiner() != graph::Combiner::sum || latest == 0 || type.getRank() != 2 ||
        reduce.getDims() != ArrayRef{int64_t(1)} || !type.getElementType().isF32() ||
        !sums.getElementType().isF32())
      return false;
    terms.clear();
    collect(reduce.getX(), {}, sums);
    terms.remove_if([&](const auto &term) { return isDeviation(term.first, sums); });
    if (terms.size() > mostSums ||
        llvm::any_of(terms, [&](const auto &term) { return depthOf(term.first) >= latest; }))
      return false;
    OpBuilder builder(reduce);
    graph::GraphBuilder g(builder, reduce.getLoc());
    Value total = terms.empty() ? g.constant(0, sums) : Value();
    for (auto &[elements, factors] : terms) {
      Value factor;
      for (const Factor &one : factors) {
        Value product = one.numbers.empty() ? g.constant(one.constant, sums) : one.numbers.front();
        for (Value number :
             ArrayRef(one.numbers).drop_front(std::min<size_t>(1, one.numbers.size())))
          product = g.mul(product, number);
        if (!one.numbers.empty() && one.constant != 1)
          product = g.mul(product, g.constant(one.constant, sums));
        factor = factor ? g.add(factor, product) : product;
      }
      const Value sum = g.reduce(graph::Combiner::sum, elements, {1});
      rowReduces.insert(sum.getDefiningOp());
      const Value product = g.mul(factor, sum);
      total = total ? g.add(total, product) : product;
    }
    reduce.getResult().replaceAllUsesWith(total);
    erase(reduce);
    depths.clear();
    return true;
  }

  /// Erases what nothing reads any more.
  void erase(Operation *op) {
    if (!op || !op->use_empty())
      return;
    const SmallVector<Value> operands(op->getOperands());
    rowReduces.remove(op);
    op->erase();
    for (Value operand : operands)
      erase(operand.getDefiningOp());
  }

  llvm::SetVector<Operation *> rowReduces; ///< the task's, with those that are made
  unsigned latest = 0;                     ///< of the sum at hand
  llvm::DenseMap<Value, unsigned> depths;
  llvm::MapVector<Value, SmallVector<Factor>> terms; ///< by their elements
};
} // namespace

bool sumEarly(const RowForm &form) { return EarlySums(form).run(); }

} // namespace nano::kernels
