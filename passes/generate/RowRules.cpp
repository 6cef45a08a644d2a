// The rules of ops that move and compute rows apart from each other.
#include "passes/generate/RowRules.h"
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/Custom.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowFunctions.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace nano::generate {

/// A tensor type with another size of one dimension.
static RankedTensorType resized(Type type, int64_t dim, int64_t size) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[size_t(dim)] = size;
  return tensor.clone(shape);
}

static RankedTensorType typeOfPart(Type type, Part part) {
  return part.isWhole() ? cast<RankedTensorType>(type) : resized(type, part.dim, 1);
}

RowProgram::RowProgram(ProgramOp all, ProgramOp row)
    : all(all), row(row), builder(row.getContext()) {
  onTokens.insert(all.getArgument(0));
  for (Operation &op : all.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value value) { return onTokens.contains(value); }))
      onTokens.insert(op.result_begin(), op.result_end());
}

std::nullopt_t RowProgram::refuse(Operation *op, const Twine &reason) {
  where = op;
  why = reason.str();
  return std::nullopt;
}

//===- Going over the program ---------------------------------------------===//

bool RowProgram::derive() {
  Operation *end = all.getBody().front().getTerminator();
  const Value logits = end->getOperand(0);
  if (!need(logits, {0, 0}) || !markAll())
    return false;
  builder.setInsertionPointToEnd(&row.getBody().front());
  GraphBuilder g(builder, row.getLoc());
  const Type type = row.getArgument(1).getType();
  const int64_t last = tensorType(all.getArgument(0)).getDimSize(0) - 1;
  position = MaxOp::create(builder, row.getLoc(), type, row.getArgument(1), g.constant(0, type));
  position = MinOp::create(builder, row.getLoc(), type, position, g.constant(double(last), type));
  makeAll();
  ReturnOp::create(builder, end->getLoc(), made(logits, {0, 0}));
  for (auto [before, after] : replaced)
    before.replaceAllUsesWith(after);
  return true;
}

bool RowProgram::need(Value value, Part part) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && part != Part{0, 0} && (part.isWhole() || part.dim != 0 || part.shift > 0)) {
    refuse(all, "it needs later tokens, or all of them");
    return false;
  }
  if (!parts[value].lookup(part.dim, part.shift) &&
      llvm::none_of(parts[value].list, [&](const auto &known) { return known.first == part; }))
    parts[value].list.push_back({part, Value()});
  return true;
}

/// From the last op to the first, which is behind all its users.
bool RowProgram::markAll() {
  for (Operation &op : llvm::reverse(all.getBody().front()))
    for (OpResult result : op.getResults()) {
      // Rules ask for other values only, and, for an earlier row, for the row at hand.
      for (size_t i = 0; i < parts[result].list.size(); ++i) {
        const std::optional<Rule> rule = ruleOf(result, parts[result].list[i].first);
        if (!rule)
          return false;
        for (auto [operand, part] : rule->operands)
          if (!need(operand, part))
            return false;
      }
    }
  const Value tokens = all.getArgument(0);
  if (!parts[tokens].list.empty())
    return need(tokens, {0, 0});
  return true;
}

void RowProgram::makeAll() {
  auto make = [&](Value value, function_ref<std::optional<Rule>(Part)> rule) {
    // The row at hand first: earlier ones are kept with it.
    Parts &list = parts[value];
    llvm::stable_sort(list.list, [](const auto &a, const auto &b) {
      return a.first.shift == 0 && b.first.shift != 0;
    });
    for (size_t i = 0; i < parts[value].list.size(); ++i) {
      const std::optional<Rule> how = rule(parts[value].list[i].first);
      SmallVector<Value> operands;
      for (auto [operand, part] : how->operands)
        operands.push_back(made(operand, part));
      const Value result = how->make(operands);
      parts[value].list[i].second = result;
    }
  };
  make(all.getArgument(0), [&](Part part) {
    if (part.shift != 0)
      return earlierRule(all.getArgument(0), part);
    return std::optional<Rule>(
        Rule{{}, [this](ArrayRef<Value>) -> Value { return row.getArgument(0); }});
  });
  for (Operation &op : llvm::make_early_inc_range(all.getBody().front()))
    for (OpResult result : op.getResults())
      make(result, [&](Part part) { return ruleOf(result, part); });
}

std::optional<Rule> RowProgram::ruleOf(OpResult result, Part part) {
  if (part.isWhole())
    return wholeRule(result);
  if (part.shift != 0 && onTokens.contains(result))
    return earlierRule(result, part);
  return rowRule(result, part);
}

Rule RowProgram::cloned(Operation *op, SmallVector<std::pair<Value, Part>> operands, Type type) {
  return {std::move(operands), [this, op, type](ArrayRef<Value> made) {
            Operation *clone = builder.clone(*op);
            clone->setOperands(made);
            clone->getResult(0).setType(type);
            return clone->getResult(0);
          }};
}

std::optional<Rule> RowProgram::wholeRule(OpResult result) {
  Operation *op = result.getOwner();
  if (onTokens.contains(result))
    return refuse(op, "all its rows are needed, which depend on tokens");
  if (op->getNumResults() != 1)
    return refuse(op, "it has several results, of which all rows are needed");
  SmallVector<std::pair<Value, Part>> operands;
  for (Value operand : op->getOperands())
    operands.push_back({operand, Part()});
  return cloned(op, std::move(operands), result.getType());
}

//===- Rows ---------------------------------------------------------------===//

Value RowProgram::index(int64_t shift, Location location) {
  return shift == 0 ? position : GraphBuilder(builder, location).add(position, double(shift));
}

Value RowProgram::rowAt(Value rows, Value index, Location location) {
  GraphBuilder g(builder, location);
  const RankedTensorType type = tensorType(rows);
  const int64_t count = type.getDimSize(0), width = type.getNumElements() / count;
  const Type number = index.getType();
  index = MaxOp::create(builder, location, number, index, g.constant(0, number));
  index = MinOp::create(builder, location, number, index, g.constant(double(count - 1), number));
  if (!type.getElementType().isInteger(32)) {
    const Value table = g.reshape(rows, {count, width});
    const Value found = GatherOp::create(builder, location, type.clone({1, width}), table, index);
    return g.reshape(found, resized(type, 0, 1).getShape());
  }
  // A sum with zeros for all other rows.
  const Value at = IotaOp::create(builder, location, type, 0);
  const Value one =
      g.select(Predicate::eq, at, g.broadcast(index, {count}, {0}), rows, g.constant(0, type));
  const Value sums = ScanOp::create(builder, location, type, Combiner::sum, one);
  return SliceOp::create(builder, location, type.clone({1}), sums, 0, count - 1);
}

/// The order of a value's dimensions in which it is kept.
static SmallVector<int64_t> keptOrder(int64_t rank, bool positionsLast) {
  SmallVector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (positionsLast)
    std::rotate(order.begin(), order.begin() + 1, order.end());
  return order;
}

Value RowProgram::loadKept(Value value, bool positionsLast) {
  const Location location = value.getLoc();
  const RankedTensorType given = tensorType(value);
  const SmallVector<int64_t> order = keptOrder(given.getRank(), positionsLast);
  const RankedTensorType type =
      given.clone(llvm::map_to_vector(order, [&](int64_t dim) { return given.getDimSize(dim); }));
  auto [known, isNew] = keptRows.try_emplace({value, unsigned(positionsLast)});
  if (isNew) {
    OpBuilder ofAll(all.getContext());
    ofAll.setInsertionPointAfterValue(value);
    Value stored = value;
    if (positionsLast)
      stored = PermuteOp::create(ofAll, location, type, value, order);
    const auto zero =
        InitAttr::get(builder.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
    OpBuilder declarations(all);
    auto state =
        StateOp::create(declarations, location, "cache." + std::to_string(keptRows.size() - 1),
                        type, Role::Cache, zero, FlatSymbolRefAttr());
    state->remove();
    SymbolTable(all->getParentOfType<ModuleOp>()).insert(state, Block::iterator(all));
    known->second.state = state.getSymName().str();
    GraphBuilder(ofAll, location).store(stored, known->second.state);
  }
  return GraphBuilder(builder, location).load(known->second.state, type);
}

Value RowProgram::kept(Value value, Value rowOfIt, bool positionsLast) {
  if (Value known = keptRows.lookup({value, unsigned(positionsLast)}).rows)
    return known;
  const Location location = value.getLoc();
  const Value before = loadKept(value, positionsLast);
  const RankedTensorType type = tensorType(before);
  const ArrayRef<int64_t> shape = type.getShape();
  const int64_t along = positionsLast ? type.getRank() - 1 : 0;
  GraphBuilder g(builder, location);
  SmallVector<int64_t> dims = keptOrder(type.getRank(), false);
  if (positionsLast) {
    dims.pop_back();
    rowOfIt = g.reshape(rowOfIt, shape.drop_back());
  }
  const RankedTensorType integers = type.clone(shape, builder.getI32Type());
  const Value at = IotaOp::create(builder, location, integers, along);
  const Value rows = g.select(Predicate::eq, at, g.broadcast(position, shape, {along}),
                              g.broadcast(rowOfIt, shape, dims), before);
  Kept &kept = keptRows[{value, unsigned(positionsLast)}];
  g.store(rows, kept.state);
  return kept.rows = rows;
}

std::optional<Rule> RowProgram::earlierRule(Value value, Part part) {
  Operation *op = value.getDefiningOp();
  if (part.shift > 0)
    return refuse(op, "a later row of it is needed");
  const RankedTensorType type = tensorType(value);
  const Type element = type.getElementType();
  const bool isInteger = element.isInteger(32);
  if (part.dim != 0 || !(isInteger ? type.getRank() == 1 : element.isF32() || element.isBF16()))
    return refuse(op ? op : all,
                  "earlier rows of it are needed, and only those of f32, bf16 and "
                  "one-dimensional i32 tensors along their first dimension are kept");
  return Rule{{{value, Part{0, 0}}}, [this, value, part](ArrayRef<Value> operands) {
                const Location location = value.getLoc();
                const Value rows = kept(value, operands[0]);
                return rowAt(rows, index(part.shift, location), location);
              }};
}

std::optional<Rule> RowProgram::rowRule(OpResult result, Part part) {
  Operation *op = result.getOwner();
  const RankedTensorType type = typeOfPart(result.getType(), part);
  if (isa<ConstantOp>(op))
    return cloned(op, {}, type);
  if (auto iota = dyn_cast<IotaOp>(op)) {
    if (int64_t(iota.getDim()) != part.dim)
      return cloned(op, {}, type);
    return Rule{{}, [this, op, type, part](ArrayRef<Value>) {
                  GraphBuilder g(builder, op->getLoc());
                  const Value number =
                      g.broadcast(index(part.shift, op->getLoc()), type.getShape(), {part.dim});
                  return g.cast(number, type.getElementType());
                }};
  }
  if (op->hasTrait<ElementwiseOp>() ||
      ((isa<RotateOp, ArgsortOp>(op) || rowFunctionOf(op)) && part.dim + 1 < type.getRank())) {
    SmallVector<std::pair<Value, Part>> operands;
    for (Value operand : op->getOperands())
      operands.push_back({operand, part});
    return cloned(op, std::move(operands), type);
  }
  const auto along = [&](Value operand, int64_t dim, int64_t shift) {
    return SmallVector<std::pair<Value, Part>>{{operand, Part{dim, shift}}};
  };
  return llvm::TypeSwitch<Operation *, std::optional<Rule>>(op)
      .Case([&](BroadcastOp broadcast) -> std::optional<Rule> {
        const Value x = broadcast.getX();
        const auto *found = llvm::find(broadcast.getDims(), part.dim);
        const int64_t dim = found - broadcast.getDims().begin();
        if (found == broadcast.getDims().end() ||
            tensorType(x).getDimSize(dim) != tensorType(result).getDimSize(part.dim))
          return cloned(op, {{x, Part()}}, type);
        return cloned(op, along(x, dim, part.shift), type);
      })
      .Case([&](ReshapeOp reshape) -> std::optional<Rule> {
        // The dimension lies between the same elements on both sides.
        const ArrayRef<int64_t> from = tensorType(reshape.getX()).getShape(),
                                to = tensorType(result).getShape();
        const auto product = [](ArrayRef<int64_t> sizes) {
          return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
        };
        const int64_t before = product(to.take_front(size_t(part.dim)));
        for (int64_t dim = 0; dim < int64_t(from.size()); ++dim)
          if (from[size_t(dim)] == to[size_t(part.dim)] &&
              product(from.take_front(size_t(dim))) == before)
            return cloned(op, along(reshape.getX(), dim, part.shift), type);
        return refuse(op, "it puts several positions into one row, or one into several");
      })
      .Case([&](SliceOp slice) -> std::optional<Rule> {
        if (int64_t(slice.getDim()) != part.dim)
          return cloned(op, along(slice.getX(), part.dim, part.shift), type);
        Rule rule{along(slice.getX(), part.dim, part.shift + int64_t(slice.getStart())),
                  [](ArrayRef<Value> operands) { return operands[0]; }};
        return rule;
      })
      .Case([&](PermuteOp permute) -> std::optional<Rule> {
        return cloned(op, along(permute.getX(), permute.getOrder()[size_t(part.dim)], part.shift),
                      type);
      })
      .Case([&](TransposeOp transpose) -> std::optional<Rule> {
        const int64_t rank = type.getRank();
        const int64_t dim = part.dim < rank - 2 ? part.dim : 2 * rank - 3 - part.dim;
        return cloned(op, along(transpose.getX(), dim, part.shift), type);
      })
      .Case([&](ReduceOp reduce) -> std::optional<Rule> {
        int64_t dim = 0;
        for (int64_t left = part.dim; llvm::is_contained(reduce.getDims(), dim) || left-- > 0;)
          ++dim;
        return cloned(op, along(reduce.getX(), dim, part.shift), type);
      })
      .Case([&](GatherOp gather) -> std::optional<Rule> {
        if (part.dim != 0)
          return refuse(op, "positions are columns of its table");
        return cloned(op, {{gather.getTable(), Part()}, {gather.getIds(), Part{0, part.shift}}},
                      type);
      })
      .Case([&](MatmulOp) { return matmulRule(op, part); })
      .Case([&](AttentionOp) { return attentionRule(result, part); })
      .Case([&](ConcatOp) { return concatRule(op, part); })
      .Case([&](LoadOp) { return tableRule(op, part); })
      .Case([&](ScanOp) { return scanRule(op, part); })
      .Case([&](RecurrenceOp) { return recurrenceRule(op, part); })
      .Case<BandScoresOp, BandProductOp>([&](auto) { return bandRule(op, part); })
      .Case([&](CustomOp) { return customRule(result, part); })
      .Default([&](Operation *) -> std::optional<Rule> {
        return refuse(op, "no rule says what it does row by row");
      });
}

std::optional<Rule> RowProgram::concatRule(Operation *op, Part part) {
  auto concat = cast<ConcatOp>(op);
  const RankedTensorType type = typeOfPart(concat.getType(), part);
  SmallVector<std::pair<Value, Part>> operands;
  SmallVector<int64_t> starts;
  int64_t start = 0;
  const bool isAlong = int64_t(concat.getDim()) == part.dim;
  for (Value input : concat.getInputs()) {
    operands.push_back({input, Part{part.dim, part.shift - (isAlong ? start : 0)}});
    starts.push_back(start);
    start += tensorType(input).getDimSize(int64_t(concat.getDim()));
  }
  if (!isAlong)
    return cloned(op, std::move(operands), type);
  return Rule{std::move(operands), [this, op, type, part, starts](ArrayRef<Value> rows) {
                GraphBuilder g(builder, op->getLoc());
                const RankedTensorType integers = type.clone(type.getShape(), builder.getI32Type());
                const Value at =
                    g.broadcast(index(part.shift, op->getLoc()), type.getShape(), {part.dim});
                Value chosen = rows[0];
                for (size_t i = 1; i < rows.size(); ++i)
                  chosen = g.select(Predicate::ge, at, g.constant(double(starts[i]), integers),
                                    rows[i], chosen);
                return chosen;
              }};
}

std::optional<Rule> RowProgram::tableRule(Operation *op, Part part) {
  auto load = cast<LoadOp>(op);
  const RankedTensorType type = tensorType(load);
  const Type element = type.getElementType();
  if (part.dim != 0 ||
      !(element.isF32() || element.isBF16() || (element.isInteger(32) && type.getRank() == 1)))
    return refuse(op, "positions are no rows of it");
  return Rule{{}, [this, op, part](ArrayRef<Value>) {
                const Location location = op->getLoc();
                return rowAt(builder.clone(*op)->getResult(0), index(part.shift, location),
                             location);
              }};
}

std::optional<Rule> RowProgram::scanRule(Operation *op, Part part) {
  auto scan = cast<ScanOp>(op);
  return Rule{
      {{scan.getX(), part}}, [this, op](ArrayRef<Value> operands) {
        auto scan = cast<ScanOp>(op);
        const Location location = op->getLoc();
        GraphBuilder g(builder, location);
        const RankedTensorType type = tensorType(scan.getResult());
        const int64_t count = type.getDimSize(0);
        // What lies behind the position adds nothing.
        const double nothing = scan.getCombiner() == Combiner::max ? INT32_MIN : 0;
        const Value at = IotaOp::create(builder, location, type, 0);
        const Value rows = g.select(Predicate::le, at, g.broadcast(position, {count}, {0}),
                                    kept(scan.getX(), operands[0]), g.constant(nothing, type));
        const Value found = ScanOp::create(builder, location, type, scan.getCombiner(), rows);
        return SliceOp::create(builder, location, type.clone({1}), found, 0, count - 1).getResult();
      }};
}

//===- Kernels of the model's own -----------------------------------------===//

std::optional<Rule> RowProgram::customRule(OpResult result, Part part) {
  auto custom = cast<CustomOp>(result.getOwner());
  if (custom.getRow().empty())
    return refuse(custom, "kernel '" + custom.getName() +
                              "' does not say what a row of its results comes from (.byRows)");
  if (part.dim != 0)
    return refuse(custom, "positions are no rows of it");
  if (part.shift != 0 && !custom.getKeptInputs().empty())
    return refuse(custom, "an earlier row of it is needed, which reads those before");
  SmallVector<std::pair<Value, Part>> operands;
  for (auto [number, operand] : llvm::enumerate(custom.getInputs())) {
    const auto input = static_cast<int64_t>(number);
    const bool hasRows = llvm::is_contained(custom.getRowInputs(), input) ||
                         llvm::is_contained(custom.getKeptInputs(), input);
    operands.push_back({operand, hasRows ? part : Part()});
  }
  Operation *op = custom;
  const unsigned which = result.getResultNumber();
  return Rule{std::move(operands), [this, op, which, part](ArrayRef<Value> made) {
                return customRows(op, made, part.shift)[which];
              }};
}

SmallVector<Value> RowProgram::customRows(Operation *op, ArrayRef<Value> operands, int64_t shift) {
  SmallVector<Value> &rows = called[{op, shift}];
  if (!rows.empty())
    return rows;
  auto custom = cast<CustomOp>(op);
  Block &block = custom.getRow().front();
  IRMapping mapping;
  for (auto [number, operand] : llvm::enumerate(operands)) {
    const bool isKept = llvm::is_contained(custom.getKeptInputs(), static_cast<int64_t>(number));
    mapping.map(block.getArgument(number),
                isKept ? kept(custom.getInputs()[number], operand) : operand);
  }
  mapping.map(block.getArguments().back(), index(shift, op->getLoc()));
  for (Operation &inner : block.without_terminator())
    builder.clone(inner, mapping);
  for (Value row : block.getTerminator()->getOperands())
    rows.push_back(mapping.lookup(row));
  return rows;
}

} // namespace nano::generate
