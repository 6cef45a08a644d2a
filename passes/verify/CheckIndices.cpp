// nano-check-indices: every index of a gather, a scatter_add or a cross_entropy lies in its table,
// by proof or by a check while the program runs.
//
// What ir/graph/IntegerRanges.h proves needs no check. Of other ops the program takes the nearest
// indices that lie inside, so that no kernel, forward or backward, ever reads or writes beside a
// table, and returns one of the original ones beside its loss: the largest, taken as unsigned
// numbers, which is out of range if any is. Whoever reads the loss reads it too, and ends the run.
// It comes before differentiation, whose scatters read the same indices.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/IntegerRanges.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"
#include "passes/verify/Indices.h"

#include "llvm/ADT/MapVector.h"

namespace nano {
#define GEN_PASS_DEF_CHECKINDICES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// "gather: its indices, 300 to 556"
std::string subject(Operation *op, const Indices &indices, const IntegerRange &range) {
  return (op->getName().stripDialect() + ": its " + indices.noun + ", " + toString(range)).str();
}

/// The checks of one program.
class Checker {
public:
  Checker(ProgramOp function, int64_t vocabulary, bool report)
      : function(function), builder(function.getContext()), ranges(function, vocabulary),
        report(report) {}

  /// Returns failure, with an error at the op, where an index is certain to be outside.
  LogicalResult run();

private:
  LogicalResult visit(Operation *op, const Indices &indices);
  /// min(max(indices, 0), bound − 1).
  Value inside(Value indices, int64_t bound, Location location);
  /// One of the indices, [1]: the largest as unsigned numbers.
  Value largest(Value indices, Location location);
  /// Returns the checked numbers beside the program's result.
  void returnChecked();

  ProgramOp function;
  OpBuilder builder;
  IntegerRanges ranges;
  bool report;
  /// What was made of indices and a bound, and the first op that needs it.
  llvm::MapVector<std::pair<Value, int64_t>, std::pair<Value, Operation *>> checked;
};

LogicalResult Checker::run() {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
    if (std::optional<Indices> indices = indicesOf(&op))
      if (failed(visit(&op, *indices)))
        return failure();
  returnChecked();
  return success();
}

LogicalResult Checker::visit(Operation *op, const Indices &indices) {
  const Value original = indices.operand->get();
  const IntegerRange range = ranges.of(original);
  const std::string ofBound = " its " + std::to_string(indices.bound) + " " + indices.of.str();
  if (range.isWithin(indices.bound)) {
    if (report)
      op->emitRemark() << subject(op, indices, range) << ", lie in" << ofBound
                       << ": nothing is checked";
    return success();
  }
  if (range.isCertainlyOutside(indices.bound)) {
    const bool isNever = range.low >= indices.bound || range.high < 0;
    return emitModelError(op) << subject(op, indices, range)
                              << (isNever ? ", lie outside of" : ", go beyond") << ofBound;
  }
  op->emitRemark() << subject(op, indices, range) << ", may lie outside of" << ofBound
                   << ": each is checked while the program runs";
  auto [found, isNew] = checked.try_emplace({original, indices.bound}, Value(), op);
  if (isNew) {
    builder.setInsertionPointAfterValue(original);
    found->second.first = inside(original, indices.bound, op->getLoc());
  }
  indices.operand->set(found->second.first);
  return success();
}

Value Checker::inside(Value indices, int64_t bound, Location location) {
  GraphBuilder g(builder, location);
  const Type type = indices.getType();
  const Value least = MaxOp::create(builder, location, type, indices, g.constant(0, type));
  return MinOp::create(builder, location, type, least,
                       g.constant(static_cast<double>(bound - 1), type));
}

Value Checker::largest(Value indices, Location location) {
  GraphBuilder g(builder, location);
  const RankedTensorType type = tensorType(indices), one = type.clone({1});
  const int64_t count = type.getNumElements();
  // Signed numbers are ordered as unsigned ones are where each is 2³¹ from there.
  const Value moved = g.add(indices, g.constant(INT32_MIN, type));
  const Value running = ScanOp::create(builder, location, type, Combiner::max, moved);
  const Value last = SliceOp::create(builder, location, one, running, 0, count - 1);
  return g.add(last, g.constant(INT32_MIN, one));
}

void Checker::returnChecked() {
  if (checked.empty())
    return;
  Operation *end = function.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  llvm::MapVector<Value, Value> numbers;
  SmallVector<Value> parts;
  const auto role = function.getRoleAttr();
  for (const auto &[key, made] : checked) {
    const auto &[indices, bound] = key;
    Operation *op = made.second;
    Value &number = numbers[indices];
    if (!number)
      number = largest(indices, op->getLoc());
    parts.push_back(number);
    OpBuilder declarations(function);
    IndexCheckOp::create(declarations, op->getLoc(), op->getName().stripDialect(), role.getValue(),
                         bound);
  }
  Value all = parts.front();
  if (parts.size() > 1) {
    const auto type =
        RankedTensorType::get({static_cast<int64_t>(parts.size())}, builder.getI32Type());
    all = ConcatOp::create(builder, function.getLoc(), type, parts, builder.getI64IntegerAttr(0));
  }
  SmallVector<Value> results(end->getOperands());
  results.push_back(all);
  end->setOperands(results);
  function.setType(
      builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
}

struct CheckIndices : public nano::impl::CheckIndicesBase<CheckIndices> {
  using CheckIndicesBase::CheckIndicesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const int64_t vocabulary = vocabularyOf(module);
    for (auto function : llvm::to_vector(module.getOps<ProgramOp>())) {
      const auto role = function.getRoleAttr();
      const bool isProgram =
          role && llvm::is_contained({"train", "validate", "generate", "decode"}, role.getValue());
      if (!isProgram || !function.getBody().hasOneBlock())
        continue;
      if (failed(Checker(function, vocabulary, report).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
