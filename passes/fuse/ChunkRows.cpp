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
// Where the logits take more bytes than their gradient, in 8 bits, chunks have parts: z, l and dz
// are computed a part at a time, dx and dw of all parts at once. In the bytes of a chunk without
// parts a longer one has room then, and dw is read and written less often (`RowChunks`).
//
// Where the losses of all rows meet in what is no sum before there is a gradient, as those of whole
// sequences do, there are two chains, of the losses and of the gradient, which makes the logits
// again (`RowHalves`), unless the chain fits whole.
//
// With `further` a chain that is computed in chunks takes in the last MLP, forward and backward, so
// that its tensors exist a chunk at a time too (`RowChain`), where no more bytes leave it then; and
// parts shrink, so that the logits of each lie where the gradients of later ones will.
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
#include "passes/fuse/RowChunks.h"
#include "passes/fuse/RowHalves.h"

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
/// Nor are parts of a chunk that alone hold fewer bytes than this: three commands of a part of
/// 2,048 rows of 50,304 logits take 270 µs on an H200, and 7 µs more than as parts of a longer one.
constexpr int64_t leastPartBytes = int64_t{192} << 20;
/// Nor are chunks that hold less than this many times what each adds to the sums over all rows: the
/// weight's gradient is read and written once a chunk, by a product whose inner dimension the
/// chunk's rows are.
constexpr int64_t leastPerSum = 6;
/// Chunks at most.
constexpr int64_t mostChunks = 256;

struct ChunkRows : public nano::impl::ChunkRowsBase<ChunkRows> {
  using ChunkRowsBase::ChunkRowsBase;

  void runOnOperation() override {
    if (maxBytes < 0) {
      getOperation().emitError("max-bytes must not be negative, is ") << maxBytes.getValue();
      return signalPassFailure();
    }
    if (parts < 1) {
      getOperation().emitError("parts must be positive, is ") << parts.getValue();
      return signalPassFailure();
    }
    std::vector<RowChain> chains;
    std::vector<Cut> cuts;
    for (auto function : getOperation().getOps<ProgramOp>())
      if (!function.isExternal())
        collect(function, chains, cuts);
    if (chains.empty())
      return;
    std::vector<RowChunks> chunks = maxBytes > 0 ? forcedChunks(chains) : plannedChunks(chains);
    // What need not be cut is one again. Both halves are gone then, the second with its root.
    std::vector<bool> isGone(chains.size());
    for (Cut &cut : cuts) {
      auto isWhole = [&](size_t i) { return chunks[i].part == chains[i].rows; };
      if (!isWhole(cut.first) || !isWhole(cut.first + 1))
        continue;
      cut.halves.join();
      isGone[cut.first] = isGone[cut.first + 1] = true;
    }
    for (auto [chain, of] : llvm::zip(chains, chunks))
      if (further && of.part < of.chunk)
        of.parts = shrinking(chain, of);
    llvm::SetVector<Block *> changed;
    for (auto [index, chain, of] : llvm::enumerate(chains, chunks)) {
      if (isGone[index])
        continue;
      if (report) {
        InFlightDiagnostic remark = emitDetail(chain.root);
        remark << "computed in " << chain.rows / of.chunk << " chunks of " << of.chunk << " rows";
        if (of.part < of.chunk) {
          remark << ", in parts of ";
          llvm::interleaveComma(of.parts.empty() ? ArrayRef(of.part) : of.parts, remark);
        }
      }
      if (of.part == chain.rows)
        continue;
      changed.insert(chain.root->getBlock());
      Operation *before = nullptr;
      for (const Cut &cut : cuts)
        if (index == cut.first + 1)
          before = cut.halves.nextProduct(chain);
      if (RowChain reaching(chain.root);
          further && reaching.collectFurther() && bytesLeaving(reaching) <= bytesLeaving(chain))
        splitRows(reaching, of);
      else
        splitRows(chain, of, before);
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
  /// Chains number `first` and the one behind it are halves of one.
  struct Cut {
    size_t first;
    RowHalves halves;
  };

  /// Finds the function's chains; a product that belongs to one does not start another.
  void collect(ProgramOp function, std::vector<RowChain> &chains, std::vector<Cut> &cuts) {
    size_t first = chains.size();
    for (Operation &op : function.getBody().front()) {
      if (!isRoot(&op) || llvm::any_of(ArrayRef(chains).drop_front(first),
                                       [&](const RowChain &other) { return other.contains(&op); }))
        continue;
      RowChain chain(&op);
      if (chain.collect()) {
        if (!overlaps(chain, ArrayRef(chains).drop_front(first)))
          chains.push_back(std::move(chain));
      } else if (isLarge(&op) && cut(chain, first, chains, cuts)) {
        continue;
      } else if (isLarge(&op) && (report || chain.isLogits())) {
        InFlightDiagnostic remark = chain.isLogits() ? op.emitRemark() : emitDetail(&op);
        remark << "left whole: " << chain.obstacle->getName() << " mixes rows of a tensor of "
               << bytesOf(op.getResult(0)) << " bytes";
        remark.attachNote(chain.obstacle->getLoc()) << "which is this op";
      }
    }
  }

  /// True where an op of the chain is one of others too.
  static bool overlaps(const RowChain &chain, ArrayRef<RowChain> others) {
    return llvm::any_of(chain.ops, [&](const auto &member) {
      return llvm::any_of(others,
                          [&](const RowChain &other) { return other.contains(member.first); });
    });
  }

  /// Makes two chains of logits whose losses are mixed before there is a gradient; false where that
  /// is no help. The function's chains begin with number `begin`.
  static bool cut(const RowChain &chain, size_t begin, std::vector<RowChain> &chains,
                  std::vector<Cut> &cuts) {
    if (!chain.isLogits())
      return false;
    std::optional<RowHalves> halves = RowHalves::cut(chain);
    if (!halves)
      return false;
    RowChain first(chain.root), second(halves->secondRoot());
    const ArrayRef<RowChain> others = ArrayRef(chains).drop_front(begin);
    if (!first.collect() || !second.collect() || overlaps(first, others) ||
        overlaps(second, others) || overlaps(second, first)) {
      halves->join();
      return false;
    }
    cuts.push_back({chains.size(), std::move(*halves)});
    chains.push_back(std::move(first));
    chains.push_back(std::move(second));
    return true;
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

  /// What lengths of chunks and parts are multiples of.
  static int64_t stepOf(const RowChain &chain) {
    return chain.rows % 128 == 0 ? 128 : chain.alignment();
  }

  /// The largest divisor of the rows, a multiple of 128 where there is one, of which `fits` holds;
  /// else the smallest.
  static int64_t largestChunk(const RowChain &chain, llvm::function_ref<bool(int64_t)> fits) {
    const int64_t step = stepOf(chain);
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

  /// The smallest part of a chunk that is worth its commands; the chunk where none is, or where
  /// nothing of a part goes before the chunk does.
  static int64_t leastPart(const RowChain &chain, int64_t chunk, int64_t bytes) {
    const int64_t step = stepOf(chain);
    for (int64_t count = bytes > 0 ? chunk / step : 1; count > 1; --count)
      if (chunk % count == 0 && chunk / count % step == 0 &&
          chunk / count * bytes >= leastPartBytes)
        return chunk / count;
    return chunk;
  }

  /// The lengths of a chunk's parts where what lives as long as they do may lie in what they make.
  SmallVector<int64_t> shrinking(const RowChain &chain, const RowChunks &of) const {
    const RowParts part(chain);
    Holdings holdings(*chain.root->getBlock());
    SmallVector<Operation *> ops(llvm::make_first_range(chain.ops));
    const int64_t rowBytes = partBytes(chain, part, holdings, holdings.spanOf(ops));
    return rowBytes > 0 ? shrinkingParts(of, stepOf(chain), rowBytes, handedBytes(chain, part))
                        : SmallVector<int64_t>();
  }

  /// True for what a part makes, but for transposes that products make themselves.
  bool isOfPart(const RowChain &chain, const RowParts &part, Value value) const {
    return chain.isInner(value) && part.contains(value.getDefiningOp()) && !isTurned(value);
  }

  /// Bytes of a row that parts hand on to what is behind them.
  int64_t handedBytes(const RowChain &chain, const RowParts &part) const {
    int64_t bytes = 0;
    for (auto &[op, form] : chain.ops)
      for (Value result : op->getResults())
        if (isOfPart(chain, part, result) && part.isHandedOn(result))
          bytes += bytesOf(result) / chain.rows;
    return bytes;
  }

  /// Bytes of a row that exist a part at a time.
  int64_t partBytes(const RowChain &chain, const RowParts &part, const Holdings &holdings,
                    const Holdings::Span &span) const {
    const int64_t bytes =
        holdings.most(span, [&](Value value) { return isOfPart(chain, part, value); });
    return bytes / chain.rows - handedBytes(chain, part);
  }

  /// True for the transpose of 8-bit floats that products read otherwise: they turn them.
  bool isTurned(Value value) const {
    return turns && value.getDefiningOp<TransposeOp>() &&
           llvm::all_of(value.getUsers(), llvm::IsaPred<ScaledMatmulOp>);
  }

  /// Bytes of tensors with rows that ops outside of the chain read: they are put together whole.
  static int64_t bytesLeaving(const RowChain &chain) {
    int64_t bytes = 0;
    for (const auto &[op, form] : chain.ops)
      for (Value result : op->getResults())
        if (form.result && !form.combines && !chain.isInner(result))
          bytes += bytesOf(result);
    return bytes;
  }

  /// Chunks of which no tensor has more than `max-bytes` bytes.
  std::vector<RowChunks> forcedChunks(std::vector<RowChain> &chains) {
    std::vector<RowChunks> chunks;
    for (const RowChain &chain : chains) {
      int64_t rowBytes = 1;
      for (auto &[op, form] : chain.ops)
        if (form.result)
          for (Value result : op->getResults())
            rowBytes = std::max(rowBytes, bytesOf(result) / chain.rows);
      const int64_t chunk =
          largestChunk(chain, [&](int64_t size) { return size * rowBytes <= maxBytes; });
      const bool hasParts = chunk % parts == 0 && chunk / parts % chain.alignment() == 0 &&
                            RowParts(chain).arePossible();
      chunks.push_back({chunk, hasParts ? chunk / parts : chunk});
    }
    return chunks;
  }

  /// The largest chunks with which no chain holds more than is held elsewhere in any program, or
  /// than the smallest chunks of some chain must hold.
  std::vector<RowChunks> plannedChunks(std::vector<RowChain> &chains) {
    struct Demand {
      int64_t beside = 0; ///< bytes that live across the chain
      int64_t rowBytes = 0, least = 0;
      int64_t heldBytes = 0; ///< of a row's, without those that products turn
      int64_t partBytes = 0; ///< of these, those of a part alone
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
        demand.heldBytes = holdings.most(span, [&](Value value) {
          return chain.isInner(value) && !isTurned(value);
        }) / chain.rows;
        if (const RowParts part(chain); part.arePossible())
          demand.partBytes = partBytes(chain, part, holdings, span);
        int64_t whole = demand.rowBytes * chain.rows;
        peak = std::max(peak, demand.beside + std::min(demand.least, whole));
      }
    }
    std::vector<RowChunks> chunks;
    for (auto [chain, demand] : llvm::zip(chains, demands)) {
      int64_t budget = std::max(demand.least, peak - demand.beside);
      RowChunks of;
      of.part = of.chunk =
          largestChunk(chain, [&](int64_t size) { return size * demand.rowBytes <= budget; });
      // Longer chunks in the same bytes, whose sums are read and written less often. Not one of all
      // rows: of two there is but one sum to save.
      const int64_t held = of.chunk * demand.heldBytes + of.chunk * demand.heldBytes / 64;
      largestChunk(chain, [&](int64_t size) {
        const int64_t part = leastPart(chain, size, demand.partBytes);
        const bool fits = part < size && size < chain.rows &&
                          size * demand.heldBytes - (size - part) * demand.partBytes <= held;
        if (fits && size > of.chunk)
          of = {size, part};
        return fits;
      });
      chunks.push_back(of);
    }
    return chunks;
  }
};

} // namespace
