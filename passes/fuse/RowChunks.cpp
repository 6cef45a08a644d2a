// Copies of a chain's ops for some rows, and what puts their results together again.
#include "passes/fuse/RowChunks.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"

#include <map>

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Writes a chain out chunk by chunk.
class Splitter {
public:
  Splitter(RowChain &chain, const RowChunks &rows, Operation *before)
      : chain(chain), rows(rows), builder(before) {
    if (rows.part < rows.chunk)
      ofPart.emplace(chain);
  }

  void split() {
    for (int64_t start = 0; start < chain.rows; start += rows.chunk)
      cloneChunk(start);
    for (auto &[op, form] : chain.ops)
      for (Value result : op->getResults()) {
        auto leaves = [&](OpOperand &use) { return !chain.contains(use.getOwner()); };
        if (llvm::any_of(result.getUses(), leaves))
          result.replaceUsesWithIf(whole(op, form, result), leaves);
      }
    for (auto &[op, form] : llvm::reverse(chain.ops))
      op->erase();
  }

private:
  /// A result of the chain, from its parts.
  Value whole(Operation *op, const RowAction &form, Value result) {
    ArrayRef<Value> values = parts[result];
    if (form.isLocal)
      return ofAllRows(result);
    if (!form.combines)
      return ConcatOp::create(builder, op->getLoc(), result.getType(), values,
                              builder.getI64IntegerAttr(form.result.dim));
    return GraphBuilder(builder, op->getLoc())
        .cast(values.back(), tensorType(result).getElementType());
  }

  /// A number that each chunk has its own of, for all rows.
  Value ofAllRows(Value value) {
    const auto *member = llvm::find_if(
        chain.ops, [&](const auto &member) { return member.first == value.getDefiningOp(); });
    if (member == chain.ops.end())
      return value;
    auto &[op, form] = *member;
    if (form.combines)
      return parts[value].back();
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, ofAllRows(operand));
    return builder.clone(*op, mapping)->getResult(0);
  }

  /// Some rows of a value from outside the chain.
  Value slice(Value value, RowDim where, int64_t start, int64_t size, Location loc) {
    if (!where)
      return value;
    Value &slice = slices[{value.getAsOpaquePointer(), where.dim}];
    if (slice)
      return slice;
    RankedTensorType type = RowChain::withRows(value.getType(), where, size);
    if (auto constant = value.getDefiningOp<ConstantOp>())
      slice = GraphBuilder(builder, loc).constant(constant.getValue().convertToDouble(), type);
    else
      slice = SliceOp::create(builder, loc, type, value, builder.getI64IntegerAttr(where.dim),
                              builder.getI64IntegerAttr(start / where.unit));
    return slice;
  }

  void cloneChunk(int64_t start) {
    IRMapping mapping;
    if (!ofPart)
      return cloneOps(start, rows.chunk, [](Operation *) { return true; }, mapping);
    auto isBefore = [&](Operation *op) { return !ofPart->contains(op) && !ofPart->isBehind(op); };
    cloneOps(start, rows.chunk, isBefore, mapping);
    const SmallVector<int64_t> sizes = rows.partsOfChunk();
    int64_t at = 0;
    for (const int64_t size : sizes) {
      slices.clear();
      IRMapping part;
      for (auto &[op, form] : chain.ops)
        for (Value result : op->getResults())
          if (isBefore(op) && llvm::any_of(result.getUsers(),
                                           [&](Operation *user) { return ofPart->contains(user); }))
            part.map(result, form.isLocal ? mapping.lookup(result)
                                          : slice(mapping.lookup(result), form.result, at, size,
                                                  op->getLoc()));
      cloneOps(start + at, size, [&](Operation *op) { return ofPart->contains(op); }, part);
      at += size;
    }
    for (auto &[op, form] : chain.ops)
      for (Value result : op->getResults())
        if (ofPart->isHandedOn(result))
          mapping.map(result, ConcatOp::create(
                                  builder, op->getLoc(),
                                  RowChain::withRows(result.getType(), form.result, rows.chunk),
                                  ArrayRef(parts[result]).take_back(sizes.size()),
                                  builder.getI64IntegerAttr(form.result.dim)));
    cloneOps(start, rows.chunk, [&](Operation *op) { return ofPart->isBehind(op); }, mapping);
  }

  /// Copies the ops that `takes` says, for `size` rows; `mapping` says what they read of others,
  /// and then also what they make.
  void cloneOps(int64_t start, int64_t size, llvm::function_ref<bool(Operation *)> takes,
                IRMapping &mapping) {
    slices.clear();
    for (auto &[op, form] : chain.ops) {
      if (!takes(op))
        continue;
      SmallVector<Value> operands;
      for (auto [operand, where] : llvm::zip(op->getOperands(), form.operands))
        operands.push_back(mapping.contains(operand)
                               ? mapping.lookup(operand)
                               : slice(operand, where, start, size, op->getLoc()));
      Operation *copy = op->clone();
      builder.insert(copy);
      copy->setOperands(operands);
      for (auto [result, newResult] : llvm::zip(op->getResults(), copy->getResults())) {
        newResult.setType(RowChain::withRows(result.getType(), form.result, size));
        Value value = newResult;
        SmallVector<Value> &before = parts[result];
        if (form.combines)
          value = combine(copy, *form.combines, before.empty() ? Value() : before.back());
        mapping.map(result, form.isLocal ? Value(newResult) : value);
        before.push_back(value);
      }
    }
  }

  /// What a chunk's result and those before it combine to; sums of products are kept in f32.
  Value combine(Operation *copy, Combiner combiner, Value before) {
    GraphBuilder g(builder, copy->getLoc());
    Value result = copy->getResult(0);
    auto sumInto = [&](auto product) {
      product.getResult().setType(tensorType(result).clone(builder.getF32Type()));
      if (before)
        product.getAddendMutable().assign(before);
    };
    if (auto matmul = dyn_cast<MatmulOp>(copy))
      sumInto(matmul);
    else if (auto matmul = dyn_cast<ScaledMatmulOp>(copy))
      sumInto(matmul);
    else if (before && combiner == Combiner::max)
      return MaxOp::create(builder, copy->getLoc(), before, result);
    else if (before)
      return g.add(before, result);
    return result;
  }

  RowChain &chain;
  RowChunks rows;
  OpBuilder builder;
  std::optional<RowParts> ofPart; ///< nothing where a chunk has no parts
  llvm::DenseMap<Value, SmallVector<Value>> parts;
  std::map<std::pair<const void *, int64_t>, Value> slices; ///< of the present rows
};

} // namespace

namespace nano {

RowParts::RowParts(const RowChain &chain) {
  for (const auto &[op, form] : chain.ops) {
    auto follows = [&](const llvm::DenseSet<Operation *> &made) {
      return llvm::any_of(op->getOperands(),
                          [&](Value operand) { return made.contains(operand.getDefiningOp()); });
    };
    if (op == chain.root)
      ops.insert(op);
    else if (follows(behind) || (follows(ops) && isa<MatmulOp, ScaledMatmulOp>(op)))
      behind.insert(op);
    else if (follows(ops))
      ops.insert(op);
  }
  // What is as wide, and no product, is made where it is read.
  const int64_t wide = tensorType(chain.root->getResult(0)).getNumElements();
  for (const auto &[op, form] : llvm::reverse(chain.ops))
    if (!behind.contains(op) && !isa<MatmulOp, ScaledMatmulOp>(op) &&
        tensorType(op->getResult(0)).getNumElements() >= wide &&
        llvm::all_of(op->getUsers(), [&](Operation *user) { return ops.contains(user); }))
      ops.insert(op);
  possible = !behind.empty();
  for (const auto &[op, form] : chain.ops)
    for (Value result : op->getResults())
      possible &= !isHandedOn(result) || bool(form.result);
}

bool RowParts::isHandedOn(Value value) const {
  return ops.contains(value.getDefiningOp()) &&
         llvm::any_of(value.getUsers(), [&](Operation *user) { return behind.contains(user); });
}

SmallVector<int64_t> shrinkingParts(const RowChunks &rows, int64_t step, int64_t rowBytes,
                                    int64_t handedBytes) {
  const size_t count = size_t(rows.chunk / rows.part);
  for (int64_t last = step; count > 1 && last < rows.part; last += step) {
    // From the last one to the first.
    SmallVector<int64_t> parts{last};
    int64_t later = last;
    auto longest = [&] { return (last * rowBytes + later * handedBytes) / rowBytes / step * step; };
    while (parts.size() + 1 < count) {
      parts.push_back(longest());
      later += parts.back();
    }
    int64_t first = rows.chunk - later;
    if (first <= 0 || first > longest())
      continue;
    // The first one reaches farthest: who places buffers by size leaves room for all then.
    const int64_t reach = rows.chunk * handedBytes + last * rowBytes;
    while (first * (handedBytes + rowBytes) < reach && parts.back() > step) {
      first += step;
      parts.back() -= step;
    }
    parts.push_back(first);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  return {};
}

void splitRows(RowChain &chain, const RowChunks &rows, Operation *before) {
  Splitter(chain, rows, before ? before : chain.ops.back().first).split();
}

} // namespace nano
