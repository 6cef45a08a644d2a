// nano-chunk-rows: computes wide row-wise chains (the head, its loss and the gradient of the
// logits) in chunks of rows, so that the logits exist a chunk at a time.
//
//   %z = nano.matmul %x, %w {transpose_b}          : [T, D] × [V, D]ᵀ → [T, V]
//   %l = nano.cross_entropy f(%z), %t              : [T, V] → [T]
//   %dx = nano.matmul %dz, %w                      : [T, V] × [V, D] → [T, D]
//   %dw = nano.matmul %dz, %x {transpose_a}        : [T, V]ᵀ × [T, D] → [V, D]
// ⇒
//   for each chunk of T/n rows: z, l, dz and dx of the chunk; l and dx are concatenated, dw is
//   summed by the product's addend.
//
// A chain starts at a product whose rows are much wider than its operand's. It takes in every op
// that reads or makes a tensor of at least as many elements as the product's result, and what lies
// between them (`RowChain`): any function of the logits, conversions to 8-bit floats with the
// products that read them, transposes for those. Each must compute row t of its results from row t
// of its operands, or combine rows. When one does not, the chain is left whole and a remark names
// the op.
//
// The chunks are as large as may be without raising the step's peak of memory: what all programs
// hold elsewhere is estimated (`Holdings`), and a chunk may hold what is left beside the tensors
// that live across its chain. A chain that fits is left whole.
//
// It runs before fusion, which then sees the ops of one chunk beside each other.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/fuse/BlockOrder.h"
#include "passes/fuse/Holdings.h"
#include "passes/fuse/RowChain.h"

#include <map>

namespace nano {
#define GEN_PASS_DEF_CHUNKROWS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// A product widens its rows by at least this factor to start a chain: the head does, an MLP does
/// not.
constexpr int64_t widening = 8;
/// Chunks that hold fewer bytes than this are not worth their number, whatever the peak.
constexpr int64_t leastBytes = int64_t{64} << 20;
/// Nor are chunks that hold less than this many times what each adds to the sums over all rows: the
/// weight's gradient is read and written once a chunk, by a product whose inner dimension the
/// chunk's rows are.
constexpr int64_t leastPerSum = 6;
/// Chunks at most.
constexpr int64_t mostChunks = 256;

/// Writes a chain out chunk by chunk.
class Splitter {
public:
  Splitter(RowChain &chain, int64_t chunk)
      : chain(chain), chunk(chunk), builder(chain.ops.back().first) {}

  /// Replaces the chain by its chunks, where its last op stood; what reads its results from before
  /// has to be moved behind them.
  void split() {
    for (int64_t start = 0; start < chain.rows; start += chunk)
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

  /// The rows of the chunk of a value from outside the chain.
  Value slice(Value value, RowDim where, int64_t start, Location loc) {
    if (!where)
      return value;
    Value &slice = slices[{value.getAsOpaquePointer(), where.dim}];
    if (slice)
      return slice;
    RankedTensorType type = RowChain::withRows(value.getType(), where, chunk);
    if (auto constant = value.getDefiningOp<ConstantOp>())
      slice = GraphBuilder(builder, loc).constant(constant.getValue().convertToDouble(), type);
    else
      slice = SliceOp::create(builder, loc, type, value, builder.getI64IntegerAttr(where.dim),
                              builder.getI64IntegerAttr(start / where.unit));
    return slice;
  }

  void cloneChunk(int64_t start) {
    IRMapping mapping;
    slices.clear();
    for (auto &[op, form] : chain.ops) {
      SmallVector<Value> operands;
      for (auto [operand, where] : llvm::zip(op->getOperands(), form.operands)) {
        Value mapped = mapping.lookupOrDefault(operand);
        operands.push_back(mapped == operand ? slice(operand, where, start, op->getLoc()) : mapped);
      }
      Operation *copy = op->clone();
      builder.insert(copy);
      copy->setOperands(operands);
      for (auto [result, newResult] : llvm::zip(op->getResults(), copy->getResults())) {
        newResult.setType(RowChain::withRows(result.getType(), form.result, chunk));
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
  int64_t chunk;
  OpBuilder builder;
  llvm::DenseMap<Value, SmallVector<Value>> parts;
  std::map<std::pair<const void *, int64_t>, Value> slices; ///< of the present chunk
};

struct ChunkRows : public nano::impl::ChunkRowsBase<ChunkRows> {
  using ChunkRowsBase::ChunkRowsBase;

  void runOnOperation() override {
    if (maxBytes < 0) {
      getOperation().emitError("max-bytes must not be negative, is ") << maxBytes.getValue();
      return signalPassFailure();
    }
    std::vector<RowChain> chains;
    for (auto function : getOperation().getOps<ProgramOp>())
      if (!function.isExternal())
        collect(function, chains);
    if (chains.empty())
      return;
    std::vector<int64_t> chunks = maxBytes > 0 ? forcedChunks(chains) : plannedChunks(chains);
    llvm::SetVector<Block *> changed;
    for (auto [chain, chunk] : llvm::zip(chains, chunks)) {
      if (report)
        emitDetail(chain.root) << "computed in " << chain.rows / chunk << " chunks of " << chunk
                               << " rows";
      if (chunk == chain.rows)
        continue;
      changed.insert(chain.root->getBlock());
      Splitter(chain, chunk).split();
    }
    for (Block *block : changed) {
      llvm::DenseMap<Operation *, int64_t> key;
      for (auto [index, op] : llvm::enumerate(*block))
        key[&op] = index;
      if (failed(sortBlock(*block, stateOrder(*block), key)))
        return signalPassFailure();
    }
  }

private:
  /// Finds the function's chains; a product that belongs to one does not start another.
  void collect(ProgramOp function, std::vector<RowChain> &chains) {
    size_t first = chains.size();
    for (Operation &op : function.getBody().front()) {
      if (!isRoot(&op) || llvm::any_of(ArrayRef(chains).drop_front(first),
                                       [&](const RowChain &other) { return other.contains(&op); }))
        continue;
      RowChain chain(&op);
      if (chain.collect()) {
        bool overlaps = llvm::any_of(chain.ops, [&](const auto &member) {
          return llvm::any_of(ArrayRef(chains).drop_front(first),
                              [&](const RowChain &other) { return other.contains(member.first); });
        });
        if (!overlaps)
          chains.push_back(std::move(chain));
      } else if (isLarge(&op) && (report || chain.isLogits())) {
        InFlightDiagnostic remark = chain.isLogits() ? op.emitRemark() : emitDetail(&op);
        remark << "left whole: " << chain.obstacle->getName() << " mixes rows of a tensor of "
               << bytesOf(op.getResult(0)) << " bytes";
        remark.attachNote(chain.obstacle->getLoc()) << "which is this op";
      }
    }
  }

  bool isLarge(Operation *op) {
    return bytesOf(op->getResult(0)) > (maxBytes > 0 ? maxBytes.getValue() : leastBytes);
  }

  /// A product of many rows that are wide.
  bool isRoot(Operation *op) {
    bool transposes = !isa<ExpMatmulOp>(op);
    if (auto matmul = dyn_cast<MatmulOp>(op))
      transposes = matmul.getTransposeA();
    else if (auto matmul = dyn_cast<ScaledMatmulOp>(op))
      transposes = matmul.getTransposeA();
    if (transposes)
      return false;
    RankedTensorType type = tensorType(op->getResult(0));
    return type.getRank() == 2 && type.getDimSize(0) > 1 &&
           type.getDimSize(1) >= widening * tensorType(op->getOperand(0)).getDimSize(1);
  }

  /// The largest divisor of the rows, a multiple of 128 where there is one, of which `fits` holds;
  /// else the smallest.
  static int64_t largestChunk(const RowChain &chain, llvm::function_ref<bool(int64_t)> fits) {
    int64_t step = chain.rows % 128 == 0 ? 128 : chain.alignment();
    if (chain.rows % step != 0)
      return chain.rows;
    int64_t best = 0;
    for (int64_t count = std::min(mostChunks, chain.rows / step); count >= 1; --count) {
      int64_t size = chain.rows / count;
      if (chain.rows % count == 0 && size % step == 0 && (best == 0 || fits(size)))
        best = size;
    }
    return best;
  }

  /// Chunks of which no tensor has more than `max-bytes` bytes.
  std::vector<int64_t> forcedChunks(std::vector<RowChain> &chains) {
    std::vector<int64_t> chunks;
    for (const RowChain &chain : chains) {
      int64_t rowBytes = 1;
      for (auto &[op, form] : chain.ops)
        if (form.result)
          for (Value result : op->getResults())
            rowBytes = std::max(rowBytes, bytesOf(result) / chain.rows);
      chunks.push_back(
          largestChunk(chain, [&](int64_t size) { return size * rowBytes <= maxBytes; }));
    }
    return chunks;
  }

  /// The largest chunks with which no chain holds more than is held elsewhere in any program, or
  /// than the smallest chunks of some chain must hold.
  std::vector<int64_t> plannedChunks(std::vector<RowChain> &chains) {
    struct Demand {
      int64_t beside = 0; ///< bytes that live across the chain
      int64_t rowBytes = 0, least = 0;
    };
    std::vector<Demand> demands(chains.size());
    int64_t peak = 0;
    for (auto function : getOperation().getOps<ProgramOp>()) {
      if (function.isExternal())
        continue;
      Block *block = &function.getBody().front();
      Holdings holdings(*block);
      llvm::DenseSet<Value> inner;
      for (auto [chain, demand] : llvm::zip(chains, demands)) {
        if (chain.root->getBlock() != block)
          continue;
        demand.least = leastBytes;
        for (auto &[op, form] : chain.ops)
          for (Value result : op->getResults()) {
            if (chain.isInner(result))
              inner.insert(result);
            if (form.combines)
              demand.least =
                  std::max(demand.least, leastPerSum * elementsOf(result) * int64_t{sizeof(float)});
          }
      }
      auto isOuter = [&](Value value) { return !inner.contains(value); };
      peak = std::max(peak, holdings.most(holdings.all(), isOuter));
      for (auto [chain, demand] : llvm::zip(chains, demands)) {
        if (chain.root->getBlock() != block)
          continue;
        SmallVector<Operation *> ops(llvm::make_first_range(chain.ops));
        Holdings::Span span = holdings.spanOf(ops);
        demand.beside = holdings.most(span, isOuter);
        demand.rowBytes =
            holdings.most(span, [&](Value value) { return chain.isInner(value); }) / chain.rows;
        int64_t whole = demand.rowBytes * chain.rows;
        peak = std::max(peak, demand.beside + std::min(demand.least, whole));
      }
    }
    std::vector<int64_t> chunks;
    for (auto [chain, demand] : llvm::zip(chains, demands)) {
      int64_t budget = std::max(demand.least, peak - demand.beside);
      chunks.push_back(
          largestChunk(chain, [&](int64_t size) { return size * demand.rowBytes <= budget; }));
    }
    return chunks;
  }
};

} // namespace
