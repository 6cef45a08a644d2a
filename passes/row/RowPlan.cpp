// Assigns reductions and outputs to passes, and decides which values later passes find in memory.
#include "passes/row/RowPlan.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

namespace {
using Values = llvm::SetVector<Value>;

class Planner {
public:
  Planner(KernelFrame &frame, const RowForm &form, bool straight)
      : frame(frame), form(form), straight(straight),
        yielded(frame.task.getBody().front().getTerminator()->getOperands()) {}

  FailureOr<RowPlan> plan() {
    if (failed(placeOutputs()))
      return failure();
    for (unsigned i : fullOutputs)
      if (graph::SelectOp choice = columnChoice(yielded[i], form.columns))
        choices.insert(choice);
    for (graph::ReduceOp reduce : form.rowReduces) {
      RowPass &own = pass(passOf(reduce.getX()));
      (pickedBy(reduce) ? own.picks : own.rowReduces).push_back(reduce);
    }
    for (graph::ReduceOp reduce : form.columnReduces) {
      if (isAfterRows(reduce.getX()))
        return reduce.emitOpError("depends on another column reduction of its kernel");
      pass(passOf(reduce.getX())).columnReduces.push_back(reduce);
    }
    for (unsigned i : fullOutputs)
      pass(passOf(yielded[i]));
    // What is updated in place is stored by the last pass, when nothing reads the row any more.
    SmallVector<unsigned> inPlace;
    for (unsigned i : fullOutputs) {
      if (straight || frame.updatesInPlace(i))
        inPlace.push_back(i);
      else
        pass(passOf(yielded[i])).outputs.push_back(i);
    }
    if (!straight && !inPlace.empty())
      keepRotated(inPlace);
    if (!inPlace.empty())
      result.passes.back().outputs.append(inPlace);
    if (!straight)
      keepExpensive();
    for (RowPass &pass : result.passes)
      pass.cost = costOf(pass);
    return std::move(result);
  }

private:
  LogicalResult placeOutputs() {
    for (auto [i, value] : llvm::enumerate(yielded)) {
      int64_t elements = elementsOf(value);
      if (isAfterRows(value) && elements == form.iterations * form.columns)
        result.columnOutputs.push_back(i);
      else if (elements == form.elements() && !isAfterRows(value))
        fullOutputs.push_back(i);
      else if (elements == form.iterations * form.rows && !isAfterRows(value))
        result.rowOutputs.push_back(i);
      else
        return frame.task.emitOpError("output ")
               << i << " has " << elements << " elements where its kernel computes "
               << form.iterations << "×" << form.rows << "×" << form.columns;
    }
    return success();
  }

  RowPass &pass(unsigned i) {
    if (result.passes.size() <= i)
      result.passes.resize(i + 1);
    return result.passes[i];
  }

  /// The first pass in which the value can be computed.
  unsigned passOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return 0;
    auto [it, isNew] = passNumbers.try_emplace(value, 0);
    if (!isNew)
      return it->second;
    unsigned number = 0;
    for (Value operand : op->getOperands())
      number = std::max(number, passOf(operand));
    if (form.isRowReduce(op))
      ++number;
    return passNumbers[value] = number;
  }

  /// True when the value depends on a column reduction.
  bool isAfterRows(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (form.isColumnReduce(op))
      return true;
    auto [it, isNew] = afterRows.try_emplace(value, false);
    if (!isNew)
      return it->second;
    bool is = llvm::any_of(op->getOperands(), [&](Value operand) { return isAfterRows(operand); });
    return afterRows[value] = is;
  }

  /// Adds the values that a pass computes for `root`, given what is in memory; what only one column
  /// of the row needs is not counted.
  /// Unless `all`.
  void collect(Value root, const Values &inMemory, Values &into, bool all = false) {
    Operation *op = root.getDefiningOp();
    if (!op || inMemory.contains(root) || form.isRowReduce(op) || !into.insert(root))
      return;
    if (!all && choices.contains(op))
      return collect(cast<graph::SelectOp>(op).getOnFalse(), inMemory, into);
    for (Value operand : op->getOperands())
      collect(operand, inMemory, into, all);
  }

  bool readsOverwritten(Value value, ArrayRef<unsigned> inPlace, llvm::DenseSet<Value> &seen) {
    if (!seen.insert(value).second)
      return false;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return llvm::any_of(inPlace, [&](unsigned i) {
        return mayOverlap(frame.task.getIns()[argument.getArgNumber()], frame.task.getOuts()[i]);
      });
    if (form.isRowReduce(value.getDefiningOp()))
      return false;
    return llvm::any_of(value.getDefiningOp()->getOperands(),
                        [&](Value operand) { return readsOverwritten(operand, inPlace, seen); });
  }

  /// True where a rotation is among the lanes of each vector, which are stored together.
  bool staysInLanes(graph::RotateOp rotate) const {
    const int64_t size = rotate.getType().getShape().back();
    return frame.options.lanes % size == 0 && form.columns % frame.options.lanes == 0 &&
           arePairs(size, form.columns);
  }

  /// A rotation reads other columns than the one at hand: what it reads is kept before these are
  /// overwritten.
  void keepRotated(ArrayRef<unsigned> inPlace) {
    unsigned last = result.passes.size() - 1;
    Values values;
    for (unsigned i : inPlace)
      collect(yielded[i], {}, values, /*all=*/true);
    for (Value root : result.passes[last].roots(yielded))
      collect(root, {}, values, /*all=*/true);
    for (Value value : values) {
      auto rotate = value.getDefiningOp<graph::RotateOp>();
      llvm::DenseSet<Value> seen;
      if (!rotate || staysInLanes(rotate) || !readsOverwritten(rotate.getX(), inPlace, seen))
        continue;
      unsigned number = passOf(rotate.getX());
      if (!llvm::is_contained(pass(number).kept, rotate.getX()))
        pass(number).kept.push_back(rotate.getX());
      if (number == last)
        pass(last + 1);
    }
  }

  /// What the loop over later passes needs of a pass's values `expensive`: those that are computed
  /// from them, and perhaps others of that pass or an earlier one, and that only ops of later
  /// passes read. A value that is rounded to a narrower type counts as such.
  Values lastOf(const Values &expensive, const Values &later, unsigned number) {
    llvm::DenseMap<Value, bool> known;
    auto depends = [&](auto &self, Value value) -> bool {
      if (expensive.contains(value))
        return true;
      Operation *op = value.getDefiningOp();
      if (!op || form.isRowReduce(op))
        return false;
      auto [it, isNew] = known.try_emplace(value, false);
      if (!isNew)
        return it->second;
      bool is = llvm::any_of(op->getOperands(), [&](Value operand) { return self(self, operand); });
      return known[value] = is;
    };
    Values found;
    for (Value value : later) {
      if (passOf(value) > number || !depends(depends, value))
        continue;
      bool isLast = llvm::is_contained(yielded, value) ||
                    llvm::any_of(value.getUsers(), [&](Operation *user) {
                      return user->getNumResults() == 1 && later.contains(user->getResult(0)) &&
                             passOf(user->getResult(0)) > number;
                    });
      if (!isLast)
        continue;
      auto widened = value.getDefiningOp<graph::CastOp>();
      bool wasNarrow = widened && bytesOf(widened.getX()) < bytesOf(value);
      found.insert(wasNarrow ? widened.getX() : value);
    }
    return found;
  }

  static int64_t bytesOf(Value value) {
    return step::elementBytes(getElementTypeOrSelf(value.getType()));
  }

  /// Expensive values that a later pass needs again are kept by the first pass that computes them,
  /// or what it computes from them where that is less.
  void keepExpensive() {
    Values inMemory;
    for (unsigned i = 0; i < result.passes.size(); ++i) {
      Values now;
      for (Value root : result.passes[i].roots(yielded))
        collect(root, inMemory, now);
      Values after = inMemory;
      for (unsigned output : result.passes[i].outputs)
        after.insert(yielded[output]);
      after.insert(result.passes[i].kept.begin(), result.passes[i].kept.end());
      Values later;
      for (unsigned j = i + 1; j < result.passes.size(); ++j)
        for (Value root : result.passes[j].roots(yielded))
          collect(root, after, later);
      auto isOfColumns = [&](Value value) {
        return elementsOf(value) == form.elements() && isColumnwise(value);
      };
      Values expensive;
      for (Value value : now)
        if (later.contains(value) && isExpensive(value.getDefiningOp()) && isOfColumns(value))
          expensive.insert(value);
      auto bytes = [](const Values &values) {
        int64_t sum = 0;
        for (Value value : values)
          sum += bytesOf(value);
        return sum;
      };
      Values last = lastOf(expensive, later, i);
      bool isLess =
          !last.empty() && bytes(last) < bytes(expensive) && llvm::all_of(last, isOfColumns);
      result.passes[i].kept.append((isLess ? last : expensive).takeVector());
      inMemory = after;
      inMemory.insert(result.passes[i].kept.begin(), result.passes[i].kept.end());
    }
  }

  /// False for values that are the same in all columns of a row, which are computed once a row
  /// anyway.
  bool isColumnwise(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<graph::IotaOp>(op))
      return elementsOf(value) > 1;
    if (form.isRowReduce(op) || elementsOf(value) == 1)
      return false;
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
      return elementsOf(broadcast.getX()) > form.iterations * form.rows &&
             isColumnwise(broadcast.getX());
    return llvm::any_of(op->getOperands(), [&](Value operand) { return isColumnwise(operand); });
  }

  int64_t costOf(const RowPass &pass) {
    Values inMemory, now;
    for (RowPass &earlier : result.passes) {
      if (&earlier == &pass)
        break;
      inMemory.insert(earlier.kept.begin(), earlier.kept.end());
      for (unsigned i : earlier.outputs)
        inMemory.insert(yielded[i]);
    }
    for (Value root : pass.roots(yielded))
      collect(root, inMemory, now);
    int64_t cost = 0;
    for (Value value : now)
      cost += nano::costOf(value.getDefiningOp());
    for (graph::ReduceOp reduce : pass.rowReduces)
      cost += nano::costOf(reduce);
    return cost +
           static_cast<int64_t>(pass.kept.size() + pass.columnReduces.size() + pass.outputs.size());
  }

  KernelFrame &frame;
  const RowForm &form;
  bool straight;
  OperandRange yielded;
  RowPlan result;
  SmallVector<unsigned> fullOutputs;
  llvm::DenseSet<Operation *> choices; ///< of outputs: what one column of a row takes
  llvm::DenseMap<Value, unsigned> passNumbers;
  llvm::DenseMap<Value, bool> afterRows;
};
} // namespace

FailureOr<RowPlan> RowPlan::of(KernelFrame &frame, const RowForm &form, bool straight) {
  return Planner(frame, form, straight).plan();
}

SmallVector<Value> RowPass::roots(ValueRange yielded) const {
  SmallVector<Value> values(kept);
  for (graph::ReduceOp reduce : rowReduces)
    values.push_back(reduce.getX());
  for (graph::ReduceOp reduce : columnReduces)
    values.push_back(reduce.getX());
  for (unsigned i : outputs)
    values.push_back(yielded[i]);
  return values;
}

int64_t costOfAll(ValueRange values) {
  int64_t cost = 0;
  Values seen;
  SmallVector<Value> pending(values);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!value.getDefiningOp() || !seen.insert(value))
      continue;
    cost += costOf(value.getDefiningOp());
    llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  return cost;
}

} // namespace nano::kernels
