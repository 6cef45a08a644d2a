// nano-chunk-rows: computes wide row-wise chains in chunks of rows, so that their intermediates
// stay small.
//
//   %z = nano.matmul %x, %w {transpose_b}       : [T, D] × [V, D]ᵀ → [T, V]      T/n rows at a
//   time, for each chunk: %l = nano.cross_entropy %z, %t              : [T, V] → [T]              ⇒
//   z, l, dz of the chunk; dx and l are concatenated, %dx = nano.matmul %dz, %w                   :
//   [T, V] × [V, D] → [T, D]       dW is summed by the product's addend %dw = nano.matmul %dz, %x
//   {transpose_a}     : [T, V]ᵀ × [T, D] → [V, D]
//
// A chain starts at a product whose rows are much wider than its operand's and whose result is
// larger than `max-bytes`. It takes in every op that reads or makes a tensor of at least that many
// elements, and what lies between them. Each must compute row t of its results from row t of its
// operands, or sum over rows. When one does not, the chain is left whole and a remark names the op.
// It runs before fusion, which then sees the ops of one chunk beside each other.
#include "ir/graph/GraphBuilder.h"
#include "passes/Passes.h"
#include "passes/fuse/BlockOrder.h"

#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_CHUNKROWS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

int64_t bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getNumElements() * type.getElementTypeBitWidth() / 8 : 0;
}

/// A product widens its rows by at least this factor to start a chain: the head does, an MLP does
/// not.
constexpr int64_t widening = 8;

/// How one op of a chain is computed chunk by chunk.
struct RowForm {
  SmallVector<bool> rowOperand; ///< one an operand: sliced, or the same for every chunk
  bool sums = false;            ///< the results are sums over rows; else they have rows
};

/// How `op` acts on rows when the chain has `rows` of them; nothing when it mixes rows.
std::optional<RowForm> rowForm(Operation *op, int64_t rows) {
  RowForm form;
  form.rowOperand.assign(op->getNumOperands(), true);
  auto startsWithRows = [&](Value value) {
    RankedTensorType type = tensorType(value);
    return type.getRank() > 0 && type.getDimSize(0) == rows;
  };
  if (auto iota = dyn_cast<IotaOp>(op))
    return iota.getDim() == 0 ? std::nullopt : std::optional(form);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    bool hasRows = !broadcast.getDims().empty() && broadcast.getDims().front() == 0 &&
                   startsWithRows(broadcast.getX());
    form.rowOperand[0] = hasRows;
    return startsWithRows(broadcast) ? std::optional(form) : std::nullopt;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    form.sums = llvm::is_contained(reduce.getDims(), 0);
    return form.sums && reduce.getCombiner() != Combiner::sum ? std::nullopt : std::optional(form);
  }
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    if (tensorType(matmul.getA()).getRank() != 2)
      return std::nullopt;
    if (matmul.getTransposeA()) {
      form.sums = true;
      bool good = startsWithRows(matmul.getA()) && !matmul.getTransposeB() && !matmul.getAddend();
      return good ? std::optional(form) : std::nullopt;
    }
    form.rowOperand[1] = false;
    return startsWithRows(matmul.getA()) ? std::optional(form) : std::nullopt;
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    form.rowOperand[0] = false;
    return form;
  }
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getDim() == 0 ? std::nullopt : std::optional(form);
  if (op->hasTrait<ElementwiseOp>() || isa<CrossEntropyOp, RotateOp>(op))
    return llvm::all_of(op->getResults(), startsWithRows) ? std::optional(form) : std::nullopt;
  return std::nullopt;
}

/// One chain of ops over wide rows.
class Chain {
public:
  Chain(MatmulOp root, int64_t maxBytes)
      : root(root), maxBytes(maxBytes), rows(tensorType(root).getDimSize(0)) {}

  /// Collects the chain's ops; false (and `obstacle` set) when one of them mixes rows.
  bool collect() {
    add(root);
    for (bool changed = true; changed;) {
      size_t before = ops.size();
      for (size_t i = 0; i < ops.size(); ++i) {
        for (Value result : ops[i]->getResults())
          if (isWide(result))
            for (Operation *user : result.getUsers())
              add(user);
        for (Value operand : ops[i]->getOperands())
          if (isWide(operand) && operand.getDefiningOp())
            add(operand.getDefiningOp());
      }
      addBetween();
      changed = ops.size() != before;
    }
    std::vector<Operation *> sorted(ops.begin(), ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : sorted) {
      std::optional<RowForm> form = rowForm(op, rows);
      // A sum is complete after the last chunk only.
      if (form && form->sums &&
          llvm::any_of(op->getUsers(), [&](Operation *user) { return ops.contains(user); }))
        form.reset();
      if (!form) {
        obstacle = op;
        return false;
      }
      ordered.emplace_back(op, *form);
    }
    return true;
  }

  /// Replaces the chain by its chunks, where its last op stood; what reads its results from before
  /// moves behind them.
  LogicalResult split() {
    int64_t chunk = chunkRows();
    OpBuilder builder(ordered.back().first);
    llvm::DenseMap<Value, SmallVector<Value>> parts;
    for (int64_t start = 0; start < rows; start += chunk)
      cloneChunk(builder, start, chunk, parts);
    for (auto &[op, form] : ordered)
      for (Value result : op->getResults()) {
        SmallVector<Value> &values = parts[result];
        Value whole = values.back();
        if (!form.sums &&
            llvm::any_of(result.getUsers(), [&](Operation *user) { return !ops.contains(user); }))
          whole = ConcatOp::create(builder, op->getLoc(), result.getType(), values,
                                   builder.getI64IntegerAttr(0));
        result.replaceUsesWithIf(whole,
                                 [&](OpOperand &use) { return !ops.contains(use.getOwner()); });
      }
    Block *chainBlock = block();
    for (auto &[op, form] : llvm::reverse(ordered))
      op->erase();
    llvm::DenseMap<Operation *, int64_t> key;
    for (auto [index, op] : llvm::enumerate(*chainBlock))
      key[&op] = index;
    return nano::sortBlock(*chainBlock, nano::stateOrder(*chainBlock), key);
  }

  Operation *obstacle = nullptr;

private:
  Block *block() const { return MatmulOp(root)->getBlock(); }

  bool isWide(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() > 0 && type.getDimSize(0) == rows &&
           type.getNumElements() >= tensorType(MatmulOp(root).getResult()).getNumElements();
  }

  void add(Operation *op) {
    if (op->getBlock() == block() && !op->hasTrait<OpTrait::IsTerminator>())
      ops.insert(op);
  }

  /// Adds what depends on the chain and what the chain depends on at once.
  void addBetween() {
    llvm::SmallDenseSet<Operation *> depends;
    SmallVector<Operation *> candidates;
    for (Operation &op : *block()) {
      bool reached = ops.contains(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
                       return depends.contains(operand.getDefiningOp());
                     });
      if (!reached)
        continue;
      depends.insert(&op);
      if (!ops.contains(&op))
        candidates.push_back(&op);
    }
    llvm::SmallDenseSet<Operation *> needed;
    for (Operation *op : llvm::reverse(candidates))
      if (llvm::any_of(op->getUsers(), [&](Operation *user) {
            return ops.contains(user) || needed.contains(user);
          }))
        needed.insert(op);
    for (Operation *op : needed)
      add(op);
  }

  /// Rows of a chunk: the largest divisor of the rows, of 128 where there is one, that keeps every
  /// tensor within the limit.
  int64_t chunkRows() const {
    int64_t rowBytes = 1;
    for (auto &[op, form] : ordered)
      for (Value result : op->getResults())
        if (!form.sums)
          rowBytes = std::max(rowBytes, bytesOf(result) / rows);
    int64_t limit = std::max<int64_t>(1, maxBytes / rowBytes);
    int64_t best = 1, bestAligned = 0;
    for (int64_t size = 1; size <= std::min(limit, rows); ++size)
      if (rows % size == 0) {
        best = size;
        if (size % 128 == 0)
          bestAligned = size;
      }
    return bestAligned ? bestAligned : best;
  }

  void cloneChunk(OpBuilder &builder, int64_t start, int64_t chunk,
                  llvm::DenseMap<Value, SmallVector<Value>> &parts) {
    IRMapping mapping;
    llvm::DenseMap<Value, Value> slices;
    auto withRows = [&](Value value) {
      SmallVector<int64_t> shape(tensorType(value).getShape());
      shape[0] = chunk;
      return tensorType(value).clone(shape);
    };
    for (auto &[op, form] : ordered) {
      SmallVector<Value> operands;
      for (auto [operand, isRow] : llvm::zip(op->getOperands(), form.rowOperand)) {
        Value value = mapping.lookupOrDefault(operand);
        if (isRow && value == operand) {
          Value &slice = slices[operand];
          if (!slice)
            slice = SliceOp::create(builder, op->getLoc(), withRows(operand), operand,
                                    builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(start));
          value = slice;
        }
        operands.push_back(value);
      }
      Operation *copy = op->clone();
      builder.insert(copy);
      copy->setOperands(operands);
      for (auto [result, newResult] : llvm::zip(op->getResults(), copy->getResults())) {
        if (!form.sums)
          newResult.setType(withRows(result));
        Value value = newResult;
        if (form.sums && start > 0)
          value = accumulate(builder, copy, parts[result].back());
        mapping.map(result, value);
        parts[result].push_back(value);
      }
    }
  }

  /// The sum of a chunk's result and of those before it.
  static Value accumulate(OpBuilder &builder, Operation *copy, Value before) {
    if (auto matmul = dyn_cast<MatmulOp>(copy)) {
      matmul.getAddendMutable().assign(before);
      return matmul;
    }
    return AddOp::create(builder, copy->getLoc(), before.getType(), before, copy->getResult(0));
  }

  MatmulOp root;
  int64_t maxBytes, rows;
  llvm::SetVector<Operation *> ops;
  SmallVector<std::pair<Operation *, RowForm>> ordered;
};

struct ChunkRows : public nano::impl::ChunkRowsBase<ChunkRows> {
  using ChunkRowsBase::ChunkRowsBase;

  void runOnOperation() override {
    if (maxBytes < 1) {
      getOperation().emitError("max-bytes must be at least 1, is ") << maxBytes.getValue();
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      llvm::SmallDenseSet<Operation *> left;
      while (MatmulOp root = findRoot(function, left)) {
        Chain chain(root, maxBytes);
        if (chain.collect()) {
          if (failed(chain.split()))
            return signalPassFailure();
          continue;
        }
        left.insert(root);
        root.emitRemark("left whole: ")
            << chain.obstacle->getName() << " mixes rows of a tensor of " << bytesOf(root)
            << " bytes";
      }
    }
  }

  /// The first product whose rows are wide and that no earlier attempt left whole.
  MatmulOp findRoot(func::FuncOp function, const llvm::SmallDenseSet<Operation *> &left) {
    for (auto matmul : function.getOps<MatmulOp>()) {
      RankedTensorType type = tensorType(matmul);
      bool widens = type.getRank() == 2 && !matmul.getTransposeA() &&
                    type.getDimSize(1) >= widening * tensorType(matmul.getA()).getDimSize(1);
      if (widens && type.getDimSize(0) > 1 && bytesOf(matmul) > maxBytes && !left.contains(matmul))
        return matmul;
    }
    return {};
  }
};

} // namespace
