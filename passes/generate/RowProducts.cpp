// One row of products and of attention, as sums of products that become part of kernels.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/IntegerRanges.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/generate/RowRules.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::generate {

std::optional<Rule> RowProgram::matmulRule(Operation *op, Part part) {
  auto matmul = cast<MatmulOp>(op);
  const RankedTensorType type = tensorType(matmul);
  const int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape());
  shape[size_t(part.dim)] = 1;
  // Dimensions of a and b that the result's is, after they are transposed.
  const bool isRow = part.dim == rank - 2, isColumn = part.dim == rank - 1;
  const Part ofA{isRow && matmul.getTransposeA() ? rank - 1 : part.dim, part.shift},
      ofB{isColumn && matmul.getTransposeB() ? rank - 2 : part.dim, part.shift};
  SmallVector<std::pair<Value, Part>> operands = {{matmul.getA(), isColumn ? Part() : ofA},
                                                  {matmul.getB(), isRow ? Part() : ofB}};
  if (matmul.getAddend())
    operands.push_back({matmul.getAddend(), part});
  if (rank != 2 || !isRow || matmul.getTransposeA())
    return cloned(op, std::move(operands), type.clone(shape));
  return Rule{std::move(operands), [this, op](ArrayRef<Value> made) {
                return rowProduct(op, made[0], made[1], made.size() > 2 ? made[2] : Value());
              }};
}

Value RowProgram::rowProduct(Operation *op, Value x, Value weight, Value addend) {
  auto matmul = cast<MatmulOp>(op);
  GraphBuilder g(builder, op->getLoc());
  const ArrayRef<int64_t> shape = tensorType(weight).getShape();
  const int64_t inner = matmul.getTransposeB() ? 1 : 0, columns = shape[size_t(1 - inner)];
  const Value row = g.reshape(g.toF32(x), {shape[size_t(inner)]});
  const Value products = g.mul(g.toF32(weight), g.broadcast(row, shape, {inner}));
  Value sums = g.reshape(g.reduce(Combiner::sum, products, {inner}), {1, columns});
  if (matmul.getAlpha().convertToDouble() != 1)
    sums = g.mul(sums, matmul.getAlpha().convertToDouble());
  if (addend) {
    const double beta = matmul.getBeta().convertToDouble();
    const Value more = g.toF32(addend);
    sums = g.add(sums, beta == 1 ? more : g.mul(more, beta));
  }
  return g.cast(sums, tensorType(matmul).getElementType());
}

/// Whether element t of `value`, i32 [T], is known to be at most t, for every t.
bool RowProgram::isAtMostPosition(Value value) const {
  const IntegerRanges ranges(all, 0);
  SmallVector<Value> pending = {value};
  // Values that must all be so for the asked one to be so.
  while (!pending.empty()) {
    const Value at = pending.pop_back_val();
    Operation *op = at.getDefiningOp();
    if (auto iota = dyn_cast_if_present<IotaOp>(op); iota && iota.getDim() == 0)
      continue;
    if (isa_and_present<MaxOp>(op)) {
      pending.append(op->operand_begin(), op->operand_end());
      continue;
    }
    if (auto select = dyn_cast_if_present<SelectOp>(op)) {
      pending.append({select.getOnTrue(), select.getOnFalse()});
      continue;
    }
    // Of a minimum one operand is enough.
    if (auto least = dyn_cast_if_present<MinOp>(op)) {
      const bool isLeft = isa_and_present<IotaOp>(least.getLhs().getDefiningOp());
      pending.push_back(isLeft ? least.getLhs() : least.getRhs());
      continue;
    }
    if (auto sub = dyn_cast_if_present<SubOp>(op); sub && ranges.of(sub.getRhs()).low >= 0) {
      pending.push_back(sub.getLhs());
      continue;
    }
    if (ranges.of(at).high <= 0)
      continue;
    return false;
  }
  return true;
}

std::optional<Rule> RowProgram::attentionRule(OpResult result, Part part) {
  auto attention = cast<AttentionOp>(result.getOwner());
  if (part.dim != 0)
    return refuse(attention, "positions are heads or columns of it");
  if (!isAtMostPosition(attention.getLast()))
    return refuse(attention, "a query may see later keys");
  SmallVector<std::pair<Value, Part>> operands;
  for (Value operand : attention->getOperands())
    operands.push_back({operand, part});
  Operation *op = attention;
  const unsigned number = result.getResultNumber();
  return Rule{std::move(operands),
              [this, op, number](ArrayRef<Value> made) { return attend(op, made, number); }};
}

/// The score function on all keys and heads: scores [H, T].
static Value scored(OpBuilder &builder, AttentionOp attention, Value scores, Value query) {
  if (attention.getScore().empty())
    return scores;
  const Location location = attention.getLoc();
  GraphBuilder g(builder, location);
  const RankedTensorType type = tensorType(scores),
                         integers = type.clone(type.getShape(), builder.getI32Type());
  Block &block = attention.getScore().front();
  IRMapping mapping;
  mapping.map(block.getArgument(0), scores);
  mapping.map(block.getArgument(1), g.broadcast(query, type.getShape(), {1}));
  // Keys are columns, heads rows.
  for (unsigned argument : {2, 3})
    mapping.map(block.getArgument(argument),
                IotaOp::create(builder, location, integers, 3 - argument).getResult());
  for (Operation &op : block.without_terminator()) {
    Operation *clone = builder.clone(op, mapping);
    for (OpResult value : clone->getResults())
      value.setType(tensorType(value).clone(type.getShape()));
  }
  return mapping.lookup(block.getTerminator()->getOperand(0));
}

Value RowProgram::attend(Operation *op, ArrayRef<Value> operands, unsigned result) {
  auto attention = cast<AttentionOp>(op);
  auto &[y, lse] = attended[op];
  if (y)
    return result == 0 ? y : lse;
  const Location location = op->getLoc();
  GraphBuilder g(builder, location);
  const RankedTensorType keyType = tensorType(attention.getK());
  const int64_t T = keyType.getDimSize(0), groups = keyType.getDimSize(1),
                size = keyType.getDimSize(2), heads = tensorType(attention.getQ()).getDimSize(1),
                shared = heads / groups, valueSize = tensorType(attention.getV()).getDimSize(2);
  // Both products are sums along rows: of k [T, groups, size], of v [groups, valueSize, T]. Between
  // their dimensions are the heads of a group, where it has several.
  SmallVector<int64_t> ofK = {T, groups, shared, size}, ofV = {groups, shared, valueSize, T},
                       keys = {0, 1, 3}, queries = {1, 2, 3}, values = {0, 2, 3},
                       weights = {0, 1, 3};
  if (shared == 1) {
    ofK.erase(ofK.begin() + 2);
    ofV.erase(ofV.begin() + 1);
    keys = values = {0, 1, 2};
    queries = {1, 2};
    weights = {0, 2};
  }
  const int64_t last = int64_t(ofK.size()) - 1;
  const Value q = g.reshape(g.toF32(operands[0]), ArrayRef<int64_t>(ofK).drop_front());
  const Value k = g.toF32(kept(attention.getK(), operands[1])),
              v = g.toF32(kept(attention.getV(), operands[2], /*positionsLast=*/true));
  Value scores = g.mul(g.broadcast(q, ofK, queries), g.broadcast(k, ofK, keys));
  scores = g.reshape(g.reduce(Combiner::sum, scores, {last}), {T, heads});
  const auto f32 = tensorType(scores).clone({heads, T});
  scores = PermuteOp::create(builder, location, f32, scores, ArrayRef<int64_t>{1, 0});
  scores = g.mul(scores, attention.getScale().convertToDouble());
  scores = scored(builder, attention, scores, position);
  const RankedTensorType type = tensorType(scores),
                         integers = type.clone(type.getShape(), builder.getI32Type());
  const Value key = IotaOp::create(builder, location, integers, 1);
  const auto bound = [&](Value position) { return g.broadcast(position, type.getShape(), {1}); };
  const Value none = g.constant(-1e30, type);
  scores = g.select(Predicate::ge, key, bound(operands[3]), scores, none);
  scores = g.select(Predicate::le, key, bound(operands[4]), scores, none);
  const auto alongRows = [&](Value row) { return g.broadcast(row, type.getShape(), {0}); };
  const Value most = g.reduce(Combiner::max, scores, {1});
  const Value parts = ExpOp::create(builder, location, type, g.sub(scores, alongRows(most)));
  const Value sum = g.reduce(Combiner::sum, parts, {1});
  SmallVector<int64_t> ofWeights = {groups, shared, T};
  if (shared == 1)
    ofWeights = {groups, T};
  const Value shares = g.reshape(g.div(parts, alongRows(sum)), ofWeights);
  const Value mixed = g.reduce(
      Combiner::sum, g.mul(g.broadcast(shares, ofV, weights), g.broadcast(v, ofV, values)), {last});
  const Type wanted = tensorType(attention.getQ()).getElementType();
  y = g.reshape(g.cast(mixed, wanted), {1, heads, valueSize});
  const Value log = LogOp::create(builder, location, sum.getType(), sum);
  lse = g.reshape(g.add(most, log), {1, heads});
  return result == 0 ? y : lse;
}

} // namespace nano::generate
