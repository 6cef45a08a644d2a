// nano-recompute: the backward pass makes cheap forward values again instead of keeping them in
// memory until then.
//
// The function's results depend on the forward ops; all others are the backward pass. A forward
// value that the backward pass uses is kept (it stays in memory from one to the other) or
// recomputed from values that are kept, by this rule:
//
// 1. Arguments, states and constants are there anyway. What is computed from parameters alone (a
//    weight in the compute type) is kept: it does not grow with the sequence.
// 2. Cheap ops are element-wise ops, broadcast, reshape, slice, rotate, reductions within a row
//    and gathers from a state. Results of all other ops (products, attention, losses, scans) are
//    kept when the backward pass uses them.
// 3. A value made by a cheap op is recomputed when the values that must be kept in addition for
//    that have fewer bytes than it; of several choices of such values the one with fewest bytes
//    counts, and of equal ones the nearest. Reshapes, slices, broadcasts and casts to wider types
//    are never kept for themselves: what they show is.
// 4. A value is kept all the same when more than `max-sites` stretches of the backward pass would
//    each recompute it (rotary tables, the embedding that all layers mix in), or when that took
//    more than `max-ops` ops. So is what two reductions within a row come to of which one waits for
//    the other, when that has hardly any bytes beside the row and all may be held: a norm is made
//    again from its mean and its mean square about that. And so is a number a row, as a norm's
//    factor, that a stretch needs which does not read the row.
// 5. What the first product of the backward pass reads has just been made: it is kept.
// 6. Of max(h, 0) and its square, both of which the backward pass reads, the square is kept where
//    that saves reading h (keepSquares, which says when and why it is exact).
// 7. Of rows of a product that are normalised or turned and of what attention reads of them, both
//    of which the backward pass would read, the latter is kept (keepHeads, likewise).
//
// So of a transformer's layer remain the residual stream, queries, keys and values, the
// attention's result with its statistics, and the product before the activation, or the activation
// itself where that is relu²; norms, other rotations and activations are recomputed.
//
// 8. What still is kept and can be made again by products or attention is let go where the model
//    marks the ops that make it (`nano.recompute`; what leaves such a region is kept), and where
//    `save-bytes` says that too much is held: by most bytes for a predicted second (KeepLess). It
//    is made once, before its first use in the backward pass, and lives until the last one; so is
//    what its products read, where products of the backward pass read it too.
//
// 9. What a product of the forward pass reads is in memory there. Where a product of the backward
//    pass reads it too, `spend-bytes` of such values are kept, which else would be written twice.
//
// A stretch of the backward pass is what lies between two ops that are kernels of their own
// (products, attention, scatters); recomputed ops stand before their first use in it and are shared
// within it, not beyond: what one kernel recomputes, no other must read. A parameter's gradient
// whose product reads a recomputed value waits until the stretch that recomputes it in any case:
// the kernel that goes back through GELU makes GELU for dW as well, and reads its input once.
//
// No CSE may follow: it would undo this. Every step is linear in the number of ops.
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/Recomputed.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/DetailRemark.h"
#include "passes/Passes.h"
#include "passes/grad/CheapOps.h"
#include "passes/grad/KeepLess.h"
#include "passes/grad/KeptHeads.h"
#include "passes/grad/Squares.h"

#include "llvm/Support/DebugLog.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "nano-recompute"

namespace nano {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;
using nano::grad::isCheap;
using nano::grad::isTransparent;

namespace {

/// Ops that are kernels of their own and so end a stretch of the backward pass.
bool endsStretch(Operation *op) {
  return !isCheap(op) && !isa<ReduceOp, GatherOp, ConcatOp, LoadOp, StoreOp, AccumulateOp>(op);
}

/// The reduction within a row that a value is computed from by a few ops, if there is one.
ReduceOp reductionBehind(Value value, int most = 6) {
  Operation *op = value.getDefiningOp();
  if (auto reduce = dyn_cast_if_present<ReduceOp>(op))
    return reduce;
  if (most > 0 && op && isCheap(op))
    for (Value operand : op->getOperands())
      if (ReduceOp reduce = reductionBehind(operand, most - 1))
        return reduce;
  return {};
}

/// What `value` shows, through views and casts to wider types.
Value shownBy(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isTransparent(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Reductions of which one waits for the other, as a mean square about a mean, with so few bytes
/// beside the rows that to read them takes less than to wait once more.
DenseSet<Operation *> reductionsInTurn(Block &block) {
  constexpr int64_t leastRow = 64;
  DenseSet<Operation *> found;
  for (auto reduce : block.getOps<ReduceOp>()) {
    ReduceOp first = reductionBehind(reduce.getX());
    if (first && isCheap(reduce) && isCheap(first) && first.getType() == reduce.getType() &&
        leastRow * bytesOf(reduce.getResult()) <= bytesOf(reduce.getX())) {
      found.insert(first);
      found.insert(reduce);
    }
  }
  return found;
}

class Recomputation {
public:
  Recomputation(ProgramOp function, int64_t maxSites, int64_t maxOps, int64_t spendBytes)
      : function(function), block(function.getBody().front()), maxSites(maxSites), maxOps(maxOps),
        spendBytes(spendBytes) {}

  /// `saveBytes` is what must be held less than cheap ops alone spare; `machine` prices what that
  /// takes. Remarks say which values, as many as `next`, would go if it were more.
  LogicalResult run(int64_t saveBytes, int64_t next, const machine::Machine &machine);
  void report(bool asRemarks);

private:
  void findForward();
  LogicalResult takeRoots();
  void takeRows();
  void findNeeded();
  void pinOperands();
  void pinNumbers();
  void weigh(const DenseSet<Operation *> &inTurn);
  void keep(Value value);
  void keepAnchors(Operation *op);
  void keepShared();
  SmallVector<Operation *> sinkable(Operation *op);
  DenseSet<Value> recomputedFor(ArrayRef<Value> values);
  void delayProducts();
  void keepLess(int64_t saveBytes, int64_t next, const machine::Machine &machine);
  void tell(ArrayRef<Remade> remade, StringRef what);
  void recompute();
  Value materialize(OpBuilder &builder, Value value, DenseMap<Value, Value> &copies);

  /// Whether the backward pass has `value` without recomputing: it is kept, or it is there anyway.
  bool isThere(Value value) const { return kept.contains(value) || there.contains(value); }

  ProgramOp function;
  Block &block;
  int64_t maxSites, maxOps, spendBytes;
  DenseSet<Operation *> forward;
  /// Arguments, states, constants, and what parameters alone give.
  DenseSet<Value> there;
  /// Forward values that the backward pass uses, with the stretches of it that do.
  DenseMap<Value, SmallVector<int64_t, 2>> needed;
  /// What shows, to no kernel of their own, these values, by those stretches.
  DenseMap<Value, llvm::SmallDenseSet<int64_t, 4>> read;
  DenseSet<Value> kept;
  /// Kept however cheaply they could be recomputed.
  DenseSet<Value> pinned;
  /// Ops that the backward pass runs once more for all that reads their results there, products
  /// and attention among them, and what it has made so far of these results.
  DenseSet<Operation *> again;
  DenseMap<Value, Value> made;
  /// What kept squares and heads are made of, for the backward pass alone.
  SmallVector<Operation *> taken;
  /// Bytes to keep in addition, and ops to run, for the backward pass to have a value.
  struct Cost {
    int64_t bytes = 0, ops = 0;
    bool byKeeping = false;
  };
  DenseMap<Value, Cost> costs;
};

/// The forward ops, and what needs no keeping.
void Recomputation::findForward() {
  DenseSet<Value> live(block.getTerminator()->operand_begin(),
                       block.getTerminator()->operand_end());
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (llvm::none_of(op.getResults(), [&](Value value) { return live.contains(value); }))
      continue;
    forward.insert(&op);
    live.insert_range(op.getOperands());
  }

  there.insert(block.args_begin(), block.args_end());
  // Elements of the largest state that a value which depends on no argument depends on.
  DenseMap<Value, int64_t> stateElements;
  for (Operation &op : block.without_terminator()) {
    if (isa<LoadOp, ConstantOp>(op)) {
      there.insert(op.result_begin(), op.result_end());
      stateElements[op.getResult(0)] =
          isa<LoadOp>(op) ? tensorType(op.getResult(0)).getNumElements() : 0;
      continue;
    }
    if (!isCheap(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return !stateElements.contains(operand);
        }))
      continue;
    int64_t elements = 0;
    for (Value operand : op.getOperands())
      elements = std::max(elements, stateElements.lookup(operand));
    stateElements[op.getResult(0)] = elements;
    if (!isTransparent(&op) && tensorType(op.getResult(0)).getNumElements() <= elements)
      there.insert(op.getResult(0));
  }
}

/// Takes what can be had from a square from that, which is kept.
LogicalResult Recomputation::takeRoots() {
  if (maxOps < 1)
    return success();
  auto isForward = [&](Operation *op) { return forward.contains(op); };
  auto isThere = [&](Value value) { return there.contains(value); };
  FailureOr<SmallVector<SqrtOp>> found = keepSquares(function, {isForward, isCheap, isThere});
  if (failed(found))
    return failure();
  for (SqrtOp root : *found) {
    taken.push_back(root);
    forward.insert(root);
    pinned.insert(root.getX());
  }
  return success();
}

/// Takes the rows that heads were made of from what attention reads, which is kept.
void Recomputation::takeRows() {
  if (maxOps < 1)
    return;
  auto isForward = [&](Operation *op) { return forward.contains(op); };
  auto isThere = [&](Value value) { return there.contains(value); };
  const KeptHeads heads = keepHeads(function, {isForward, isCheap, isThere});
  llvm::append_range(taken, heads.ops);
  forward.insert_range(heads.ops);
  pinned.insert_range(heads.kept);
}

/// Pins cheap values that products of both passes read, as many as `spend-bytes` allow.
void Recomputation::pinOperands() {
  int64_t left = spendBytes;
  for (Operation &op : block.without_terminator()) {
    if (!forward.contains(&op) || !isCheap(&op) || isTransparent(&op))
      continue;
    for (Value result : op.getResults()) {
      bool isRead[2] = {}; // by products of the forward and of the backward pass
      for (Operation *user : result.getUsers())
        if (isa<MatmulOp>(user))
          isRead[forward.contains(user) ? 0 : 1] = true;
      const int64_t bytes = bytesOf(result);
      if (isRead[0] && isRead[1] && needed.contains(result) && bytes <= left &&
          pinned.insert(result).second)
        left -= bytes;
    }
  }
}

/// Pins what a reduction within a row of some numbers comes to, where a stretch needs it that does
/// not read what it is made of.
void Recomputation::pinNumbers() {
  constexpr int64_t leastNumbers = 8;
  constexpr size_t mostBehind = 32;
  DenseMap<Value, ReduceOp> found;
  for (const auto &[value, stretches] : read) {
    Operation *op = value.getDefiningOp();
    ReduceOp reduce = op && isCheap(op) ? reductionBehind(value) : ReduceOp();
    if (!reduce || leastNumbers * bytesOf(value) > bytesOf(reduce.getX()))
      continue;
    DenseSet<int64_t> others;
    llvm::SetVector<Value> behind;
    behind.insert(reduce.getX());
    for (size_t i = 0; i < behind.size(); ++i) {
      const Value next = shownBy(behind[i]);
      if (auto readers = read.find(next); readers != read.end())
        others.insert_range(readers->second);
      Operation *made = next.getDefiningOp();
      if (made && isCheap(made) && behind.size() < mostBehind)
        behind.insert(made->operand_begin(), made->operand_end());
    }
    if (llvm::any_of(stretches, [&](int64_t stretch) { return !others.contains(stretch); }))
      found[value] = reduce;
  }
  // What is made of a number that is kept is made of it again.
  for (auto [value, reduce] : found)
    if (value == reduce.getResult() || !found.contains(reduce.getResult()))
      pinned.insert(value);
}

void Recomputation::findNeeded() {
  int64_t stretch = 0;
  Operation *firstProduct = nullptr;
  for (Operation &op : block.without_terminator()) {
    if (forward.contains(&op))
      continue;
    for (Value operand : op.getOperands()) {
      if (!operand.getDefiningOp() || !forward.contains(operand.getDefiningOp()) ||
          there.contains(operand))
        continue;
      SmallVector<int64_t, 2> &stretches = needed[operand];
      if (stretches.empty() || stretches.back() != stretch)
        stretches.push_back(stretch);
      if (!endsStretch(&op))
        read[shownBy(operand)].insert(stretch);
    }
    stretch += endsStretch(&op);
    if (!firstProduct && isa<MatmulOp, ScaledMatmulOp>(op))
      firstProduct = &op;
  }
  for (auto &[value, stretches] : needed)
    if (!isCheap(value.getDefiningOp()))
      kept.insert(value);
  if (firstProduct)
    for (Value operand : firstProduct->getOperands())
      if (needed.contains(operand) && !isTransparent(operand.getDefiningOp()))
        pinned.insert(operand);
  pinOperands();
  pinNumbers();
  // What leaves a region that the model marks, so that what is inside is made again from there.
  for (Operation *op : forward) {
    const Attribute region = op->getAttr(recomputeAttrName);
    if (!region || isTransparent(op))
      continue;
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return forward.contains(user) && user->getAttr(recomputeAttrName) != region;
          }))
        pinned.insert(result);
  }
  kept.insert_range(pinned);
}

void Recomputation::keep(Value value) {
  kept.insert(value);
  costs[value] = {};
}

/// Keeps what recomputing `op` rests on, as its cost says.
void Recomputation::keepAnchors(Operation *op) {
  SmallVector<Operation *> stack{op};
  while (!stack.empty())
    for (Value operand : stack.pop_back_val()->getOperands()) {
      if (isThere(operand))
        continue;
      Cost cost = costs.lookup(operand);
      if (cost.byKeeping) {
        keep(operand);
      } else if (cost.bytes > 0) {
        costs[operand].bytes = 0;
        stack.push_back(operand.getDefiningOp());
      }
    }
}

/// Walks the forward ops in order, prices every value, and decides for those that the backward pass
/// uses. What reductions `inTurn` come to is kept.
void Recomputation::weigh(const DenseSet<Operation *> &inTurn) {
  for (Operation &op : block.without_terminator()) {
    if (!forward.contains(&op))
      continue;
    Cost again;
    llvm::SmallDenseSet<Value, 4> seen;
    for (Value operand : op.getOperands()) {
      if (isThere(operand) || !seen.insert(operand).second)
        continue;
      Cost cost = costs.lookup(operand);
      again.bytes += cost.bytes;
      again.ops = std::min(maxOps + 1, again.ops + cost.ops);
    }
    ++again.ops;
    for (Value result : op.getResults()) {
      if (there.contains(result))
        continue;
      int64_t bytes = bytesOf(result);
      bool byRecomputing = isCheap(&op) && !inTurn.contains(&op) &&
                           (isTransparent(&op) || (again.bytes < bytes && again.ops <= maxOps));
      if (byRecomputing) {
        if (kept.contains(result) && again.bytes == 0 && !pinned.contains(result))
          kept.erase(result);
        if (needed.contains(result) && !kept.contains(result))
          keepAnchors(&op);
      } else if (needed.contains(result)) {
        keep(result);
      }
      if (kept.contains(result))
        costs[result] = {};
      else if (byRecomputing)
        costs[result] = {needed.contains(result) ? 0 : again.bytes, again.ops, false};
      else
        costs[result] = {bytes, 0, true};
    }
  }
}

/// Keeps values that too many stretches of the backward pass would recompute.
void Recomputation::keepShared() {
  DenseMap<Value, SmallVector<int64_t, 2>> sites;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (!forward.contains(&op))
      continue;
    for (Value result : op.getResults()) {
      if (isThere(result))
        continue;
      SmallVector<int64_t, 2> stretches = sites.lookup(result);
      llvm::append_range(stretches, needed.lookup(result));
      if (stretches.empty())
        continue;
      llvm::sort(stretches);
      stretches.erase(llvm::unique(stretches), stretches.end());
      if (static_cast<int64_t>(stretches.size()) > maxSites && !isTransparent(&op)) {
        kept.insert(result);
        continue;
      }
      // More than maxSites + 1 of them say no more than that many.
      stretches.truncate(std::min<size_t>(stretches.size(), maxSites + 1));
      for (Value operand : op.getOperands())
        if (!isThere(operand)) {
          SmallVector<int64_t, 2> &into = sites[operand];
          llvm::append_range(into, stretches);
          llvm::sort(into);
          into.erase(llvm::unique(into), into.end());
          into.truncate(std::min<size_t>(into.size(), maxSites + 1));
        }
    }
  }
}

/// `op` with the ops that only carry its result to an accumulator, when it is a product that does
/// not do more; else nothing.
SmallVector<Operation *> Recomputation::sinkable(Operation *op) {
  if (!isa<MatmulOp, ScaledMatmulOp>(op))
    return {};
  SmallVector<Operation *> group{op};
  while (!isa<AccumulateOp>(group.back())) {
    if (group.back()->getNumResults() != 1 || !group.back()->hasOneUse())
      return {};
    Operation *user = *group.back()->user_begin();
    if (user->getBlock() != &block || !isa<ReshapeOp, AccumulateOp>(user))
      return {};
    group.push_back(user);
  }
  return group;
}

/// The forward values that are recomputed in order to have `values`.
DenseSet<Value> Recomputation::recomputedFor(ArrayRef<Value> values) {
  DenseSet<Value> result;
  SmallVector<Value> stack(values);
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (isThere(value) || !op || !forward.contains(op) || !isCheap(op) ||
        !result.insert(value).second)
      continue;
    llvm::append_range(stack, op->getOperands());
  }
  return result;
}

/// Moves the products that give parameters' gradients behind the next such stretch, when that
/// recomputes what they read.
void Recomputation::delayProducts() {
  SmallVector<SmallVector<Value>> stretches(1);
  SmallVector<Operation *> ends;
  for (Operation &op : block.without_terminator()) {
    if (forward.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      if (needed.contains(operand))
        stretches.back().push_back(operand);
    if (endsStretch(&op)) {
      ends.push_back(&op);
      stretches.emplace_back();
    }
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    SmallVector<Operation *> group = sinkable(ends[i]);
    DenseSet<Value> read = group.empty()
                               ? DenseSet<Value>()
                               : recomputedFor(SmallVector<Value>(ends[i]->getOperands()));
    if (read.empty())
      continue;
    DenseSet<Value> later;
    for (size_t next = i + 1; next < std::min(i + 3, stretches.size()); ++next)
      later.insert_range(recomputedFor(stretches[next]));
    if (llvm::none_of(read, [&](Value value) {
          return later.contains(value) && !isTransparent(value.getDefiningOp());
        }))
      continue;
    Operation *place = i + 2 < ends.size() ? ends[i + 2] : block.getTerminator();
    for (Operation *op : group)
      op->moveBefore(place);
  }
}

/// `value` as the backward pass gets it at the builder's place.
Value Recomputation::materialize(OpBuilder &builder, Value value, DenseMap<Value, Value> &copies) {
  Operation *op = value.getDefiningOp();
  const bool isOnce = again.contains(op);
  if (isThere(value) || !op || !forward.contains(op) || (!isOnce && !isCheap(op)))
    return value;
  if (Value copy = (isOnce ? made : copies).lookup(value))
    return copy;
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, materialize(builder, operand, copies));
  Operation *copy = builder.clone(*op, mapping);
  for (auto [result, own] : llvm::zip_equal(op->getResults(), copy->getResults()))
    (isOnce ? made : copies)[result] = own;
  return mapping.lookup(value);
}

void Recomputation::recompute() {
  DenseMap<Value, Value> copies;
  OpBuilder builder(function.getContext());
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (forward.contains(&op))
      continue;
    builder.setInsertionPoint(&op);
    for (OpOperand &operand : op.getOpOperands())
      operand.set(materialize(builder, operand.get(), copies));
    if (endsStretch(&op))
      copies.clear();
  }
  for (Operation *op : llvm::reverse(taken))
    if (op->use_empty()) {
      forward.erase(op);
      op->erase();
    }
}

/// Lets go of values that take products or attention to make again, where the model asks for it or
/// too much is held.
void Recomputation::keepLess(int64_t saveBytes, int64_t next, const machine::Machine &machine) {
  DenseSet<Value> held = kept;
  held.insert_range(there);
  KeepLess less(block, forward, std::move(held), machine);
  less.dropMarked();
  if (saveBytes > 0)
    less.save(saveBytes);
  again = less.again();
  for (const Remade &remade : less.remade()) {
    kept.erase(remade.value);
    there.erase(remade.value);
  }
  for (Operation &op : block)
    op.removeAttr(recomputeAttrName);
  tell(less.remade(), "made again in the backward pass");
  if (next > 0)
    tell(less.next(size_t(next)), "would be made again next, to hold less");
}

/// A remark for each model line and kind of op, which begins with `what`.
void Recomputation::tell(ArrayRef<Remade> remade, StringRef what) {
  struct Sum {
    Location location;
    StringRef name;
    int64_t count = 0, bytes = 0;
    double seconds = 0;
    bool isAsked = false;
  };
  std::vector<std::pair<std::string, Sum>> sums;
  for (const Remade &one : remade) {
    Operation *op = one.value.getDefiningOp();
    const StringRef name = op->getName().stripDialect();
    std::string key;
    llvm::raw_string_ostream(key) << name << op->getLoc() << one.isAsked;
    auto found = llvm::find_if(sums, [&](const auto &other) { return other.first == key; });
    if (found == sums.end())
      found = sums.insert(sums.end(), {key, Sum{op->getLoc(), name}});
    Sum &sum = found->second;
    ++sum.count;
    sum.bytes += one.bytes;
    sum.seconds += one.seconds;
    sum.isAsked = one.isAsked;
  }
  for (const auto &[key, sum] : sums)
    mlir::emitRemark(sum.location)
        << what << (sum.isAsked ? ", as the model asks" : "") << ": " << sum.name << " × "
        << sum.count << ", " << llvm::formatv("{0:f2}", 1e-6 * double(sum.bytes)).str()
        << " MB, in " << llvm::formatv("{0:f3}", 1e3 * sum.seconds).str() << " ms of a micro-batch";
}

LogicalResult Recomputation::run(int64_t saveBytes, int64_t next, const machine::Machine &machine) {
  findForward();
  if (failed(takeRoots()))
    return failure();
  takeRows();
  findNeeded();
  const DenseSet<Operation *> inTurn =
      saveBytes == 0 ? reductionsInTurn(block) : DenseSet<Operation *>();
  weigh(inTurn); // prices fall as values are kept: the second walk sees what the first one kept
  weigh(inTurn);
  keepShared();
  delayProducts();
  keepLess(saveBytes, next, machine);
  recompute();
  return success();
}

/// Says what stays in memory from the forward to the backward pass.
void Recomputation::report(bool asRemarks) {
  DenseSet<Value> counted;
  int64_t total = 0;
  for (Operation &op : block.without_terminator()) {
    if (!forward.contains(&op))
      continue;
    for (Value result : op.getResults()) {
      if (llvm::all_of(result.getUsers(), [&](Operation *user) {
            return forward.contains(user) || user == block.getTerminator();
          }))
        continue;
      Value root = result;
      while (isa_and_present<ReshapeOp, SliceOp>(root.getDefiningOp()))
        root = root.getDefiningOp()->getOperand(0);
      if (!root.getDefiningOp() || isa<LoadOp, ConstantOp>(root.getDefiningOp()) ||
          !counted.insert(root).second)
        continue;
      total += bytesOf(root);
      LDBG() << "keeps " << bytesOf(root) << " bytes: " << root << " " << root.getLoc();
      if (asRemarks)
        emitDetail(root.getDefiningOp())
            << "kept for the backward pass: " << bytesOf(root) << " bytes";
    }
  }
  LDBG() << "keeps " << total << " bytes in all";
  if (asRemarks)
    emitDetail(function) << "kept for the backward pass in all: " << total << " bytes";
}

struct RecomputePass : nano::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ProgramOp function = programWithRole(getOperation(), "train");
    if (!function) {
      getOperation().emitError("no function of role \"train\" to recompute in");
      return signalPassFailure();
    }
    if (saveBytes < 0) {
      getOperation().emitError("save-bytes must not be negative, is ") << saveBytes.getValue();
      return signalPassFailure();
    }
    if (spendBytes < 0) {
      getOperation().emitError("spend-bytes must not be negative, is ") << spendBytes.getValue();
      return signalPassFailure();
    }
    if (saveBytes > 0 && spendBytes > 0) {
      getOperation().emitError("save-bytes and spend-bytes exclude each other");
      return signalPassFailure();
    }
    if (next < 0) {
      getOperation().emitError("next must not be negative, is ") << next.getValue();
      return signalPassFailure();
    }
    llvm::Expected<nano::machine::Machine> rates = nano::machine::load(machine.getValue());
    if (!rates) {
      getOperation().emitError(llvm::toString(rates.takeError()));
      return signalPassFailure();
    }
    Recomputation recomputation(function, maxSites, maxOps, spendBytes);
    if (failed(recomputation.run(saveBytes, next, *rates)))
      return signalPassFailure();
    recomputation.report(report);
  }
};

} // namespace
