// nano-fuse: groups element-wise and reduction ops into kernels by the bytes that this saves.
//
// A group becomes one nano.fused over a space of rows × columns (all leading dimensions × the last
// one). What lies inside:
//   - ops on whole rows × columns tensors, and sums or maxima along the columns;
//   - ops on one value a row, before or after such a reduction;
//   - broadcasts, constants, scalars and casts to f32, which are copied into every group that needs
//   them; and at last what little arithmetic makes from tensors of fewer bytes.
// Rule: a producer joins its consumer's group when both have one space and nothing outside the
// group lies between them, because the value then need not cross memory: first those values that
// one group alone reads, so that what a kernel needs for itself, recomputed forward values too, is
// in it and not written out by an earlier one; two groups that read the same large tensor join when
// neither depends on the other, because it is then read once. A join never adds bytes: the only
// work that is done twice is that of the cheap ops named above. Where kernels may do both, sums of
// columns then join the group that reduces along the rows that they read, where that saves more
// than copies take of what such a kernel cannot write transposed; reductions of short vectors join
// what computes these and each other; and groups of single numbers join, whose kernels are nothing
// but launches. Last, where all groups that read another's tensor convert it to one narrower type,
// that is what is written; and where one group writes for another a tensor that an op or two make
// from narrower ones, the other computes it again.
//
// It runs after the passes that change what is computed. Products, attention, embedding gradients,
// scans and collectives stay as they are; reshapes, slices and concats stay outside as views,
// except a reshape of the leading dimensions between two ops of one group, or of a vector to the
// row that is reduced. Gathered rows that are cut into heads for nothing are whole rows first
// (WidenRows.h), rows that are moved by some places are read where they lie (ShiftedRows.h), and
// neighbouring columns that are turned as pairs are computed as such (PairedColumns.h).
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Traffic.h"
#include "ir/graph/Values.h"
#include "passes/Passes.h"
#include "passes/fuse/DecomposeReductions.h"
#include "passes/fuse/FuseGroups.h"
#include "passes/fuse/NarrowColumns.h"
#include "passes/fuse/PairedColumns.h"
#include "passes/fuse/ShiftedRows.h"
#include "passes/fuse/Softmax.h"
#include "passes/fuse/WidenRows.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/DebugLog.h"

#include <unordered_map>

#define DEBUG_TYPE "nano-fuse"

namespace nano {
#define GEN_PASS_DEF_FUSE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::fuse;
using namespace nano::graph;

namespace {

/// Groups join only when they lie within this many ops: farther apart, joining would keep other
/// tensors alive longer, and undo recomputation.
constexpr int64_t joinDistance = 96;
/// A tensor that siblings share must have at least this many bytes to be worth a join.
constexpr int64_t siblingBytes = 4096;
/// And at least one element for so many of a group's: reading a vector of columns, as a bias, once
/// less is not worth what else the groups work on being alive at one time, and out of the cache.
constexpr int64_t siblingElements = 1024;
/// Ops beside cheap ones that a group computes again at most so that a tensor need not be written.
constexpr size_t mostAgain = 2;

class Fuser : Groups {
public:
  /// `bothSums`: kernels may reduce along rows and sum columns; `endProducts`: they may compute a
  /// product that they alone read.
  Fuser(ProgramOp function, bool bothSums, bool endProducts)
      : Groups(function.getBody().front(), endProducts), bothSums(bothSums) {
    for (Operation &op : block)
      if (auto store = dyn_cast<StoreOp>(op))
        changed.insert(store.getSymbol());
      else if (auto accumulate = dyn_cast<AccumulateOp>(op))
        changed.insert(accumulate.getSymbol());
  }

  LogicalResult run() {
    copyCheapOps();
    buildGroups();
    joinProducers();
    joinSiblings();
    if (bothSums)
      joinColumnSums();
    joinVectors();
    joinNumbers();
    writeNarrow();
    computeNarrowAgain();
    return emit();
  }

private:
  /// Gives every user of a cheap op its own copy, last op first, so that copies of copies come out
  /// right.
  void copyCheapOps() {
    SmallVector<Operation *> ops(llvm::make_pointer_range(block));
    for (Operation *op : llvm::reverse(ops)) {
      if (!isCheap(op))
        continue;
      SmallVector<OpOperand *> uses(llvm::make_pointer_range(op->getResult(0).getUses()));
      llvm::SmallDenseMap<Operation *, Operation *> copies;
      for (OpOperand *use : uses) {
        if (!isFusible(use->getOwner()) || uses.size() == 1)
          continue;
        Operation *&copy = copies[use->getOwner()];
        if (!copy)
          copy = OpBuilder(use->getOwner()).clone(*op);
        use->set(copy->getResult(0));
      }
      if (op->use_empty())
        op->erase();
    }
  }

  /// Joins producers with what reads them, last op first, so that what a kernel alone needs is in
  /// it before another kernel can take it: first values of which one group is the only reader,
  /// which then disappear; then those that others read as well, which are then read once less.
  /// Further rounds find what the joins made possible.
  void joinProducers() {
    SmallVector<Operation *> ops;
    for (Operation &op : llvm::reverse(block))
      if (isFusible(&op))
        ops.push_back(&op);
    for (bool changed = true; changed;) {
      changed = false;
      for (Operation *op : ops)
        changed |= joinOnlyReader(op);
      for (Operation *op : ops)
        changed |= joinReaders(op);
    }
  }

  /// Joins `op` with the one group that reads its result.
  bool joinOnlyReader(Operation *op) {
    int64_t reader = -1;
    for (OpOperand &use : op->getResult(0).getUses()) {
      if (!isFusible(use.getOwner()) || isVectorAsRow(use.getOwner()) ||
          !(readsInPlace(use) || isCheap(op)))
        return false;
      int64_t id = find(use.getOwner());
      if (reader >= 0 && reader != id)
        return false;
      reader = id;
    }
    return reader >= 0 && (isNear(op, reader) || makesMore(op)) && tryJoinProducer(op, reader);
  }

  /// Joins `op` with every group near it that reads its result.
  bool joinReaders(Operation *op) {
    bool changed = false;
    for (OpOperand &use : op->getResult(0).getUses())
      if (isFusible(use.getOwner()) && !isVectorAsRow(use.getOwner()) &&
          (readsInPlace(use) || isCheap(op)) && isNear(op, find(use.getOwner())))
        changed |= tryJoinProducer(op, find(use.getOwner()));
    return changed;
  }

  /// True when joining `op`'s group with the later group `reader` keeps nothing alive for long.
  bool isNear(Operation *op, int64_t reader) {
    return groups[reader].lastIndex - groups[find(op)].lastIndex <= joinDistance;
  }

  /// True when what the group of `op` reads has no more bytes than the op's result: computing it
  /// where it is needed keeps no more alive.
  bool makesMore(Operation *op) {
    int64_t id = find(op), bytes = 0;
    llvm::SmallDenseSet<Value> inputs;
    for (Operation *member : groups[id].ops)
      for (Value operand : member->getOperands())
        if (!(operand.getDefiningOp() && find(operand.getDefiningOp()) == id) &&
            inputs.insert(operand).second)
          bytes += bytesOf(operand);
    return bytes <= bytesOf(op->getResult(0));
  }

  /// `small`: those that share small tensors, where one reduces them.
  void joinSiblings(bool small = false) {
    SmallVector<Value> values(block.getArguments());
    for (Operation &op : block)
      llvm::append_range(values, op.getResults());
    for (Value value : values) {
      if ((bytesOf(value) < siblingBytes) != small)
        continue;
      llvm::SmallSetVector<int64_t, 8> readers;
      for (Operation *user : value.getUsers())
        if (isFusible(user))
          readers.insert(find(user));
      SmallVector<int64_t> ids = readers.takeVector();
      llvm::sort(ids,
                 [&](int64_t x, int64_t y) { return groups[x].firstIndex < groups[y].firstIndex; });
      // With the next one that it can be a kernel with.
      for (size_t i = 0; i < ids.size(); ++i)
        for (size_t j = i + 1; j < ids.size(); ++j) {
          int64_t a = find(ids[i]), b = find(ids[j]);
          if (a == b || groups[b].firstIndex - groups[a].lastIndex > joinDistance)
            break;
          const int64_t elements = tensorType(value).getNumElements() * siblingElements;
          if (!small && elements < std::min(groups[a].space.elements(), groups[b].space.elements()))
            continue;
          if (small && !(isVector(a, value) && isVector(b, value) &&
                         (groups[a].reduces || groups[b].reduces)))
            continue;
          if (tryJoin(a, b))
            break;
        }
    }
  }

  /// Joins reductions of a vector with the group of vectors that computes it, then with what reads
  /// the same ones: an update of few numbers and its norms would be several launches otherwise. A
  /// value of every row stays with its rows.
  void joinVectors() {
    bool joined = false;
    for (Operation &op : block)
      if (isVectorAsRow(&op))
        if (Operation *producer = op.getOperand(0).getDefiningOp();
            producer && isFusible(producer) && groups[find(producer)].space == spaceOf(&op))
          joined |= tryJoinProducer(producer, find(&op));
    if (joined)
      joinSiblings(/*small=*/true);
  }
  bool isVector(int64_t id, Value value) const {
    return groups[id].space.rows == 1 && groups[id].space.columns > 1 &&
           tensorType(value).getNumElements() == groups[id].space.columns;
  }

  /// Joins groups of single numbers with the next ones that they can be a kernel with: what norms
  /// of many tensors come to would otherwise be launches of one thread each.
  void joinNumbers() {
    SmallVector<int64_t> numbers;
    llvm::copy_if(sequence, std::back_inserter(numbers),
                  [&](int64_t id) { return id >= 0 && isNumber(id); });
    for (auto [i, id] : llvm::enumerate(numbers))
      for (size_t j = i + 1; j < numbers.size(); ++j)
        if (tryJoinNumbers(find(id), find(numbers[j])))
          break;
  }

  /// Has the groups that reduce along rows sum columns too, of what they have in registers; then
  /// what such a group reads or makes may join it.
  void joinColumnSums() {
    SmallVector<int64_t> sums;
    for (auto [id, group] : llvm::enumerate(groups))
      if (group.columnReduces && !group.reduces && !group.ops.empty())
        sums.push_back(id);
    // A group that has joined may hold what another one reads.
    bool joined = false;
    for (bool changed = true; changed; joined |= changed) {
      changed = false;
      for (int64_t &id : sums)
        if (id >= 0 && joinRows(find(id))) {
          id = -1;
          changed = true;
        }
    }
    if (!joined)
      return;
    joinProducers();
    joinSiblings();
  }

  /// Joins a group that sums columns with the one that reduces along rows by which most is saved.
  bool joinRows(int64_t sums) {
    const Large large = largeOf(sums);
    llvm::SmallSetVector<int64_t, 8> holders;
    for (Value value : large.inputs) {
      if (Operation *producer = value.getDefiningOp())
        holders.insert(find(producer));
      for (Operation *user : value.getUsers())
        holders.insert(find(user));
    }
    for (Value value : large.outputs)
      for (Operation *user : value.getUsers())
        holders.insert(find(user));
    int64_t best = -1, mostBytes = siblingBytes - 1;
    for (int64_t holder : holders)
      if (int64_t bytes = bytesSaved(holder, sums, large); bytes > mostBytes) {
        best = holder;
        mostBytes = bytes;
      }
    return best >= 0 && tryJoin(best, sums, /*both=*/true);
  }

  /// Bytes that need not cross memory if `rows`, which reduces along rows, sums these columns too;
  /// 0 where they are no more than what it would have to read for that alone, which takes
  /// registers.
  int64_t bytesSaved(int64_t rows, int64_t sums, const Large &large) {
    const Group &a = groups[rows], &b = groups[sums];
    if (rows == sums || !a.reduces || a.space != b.space ||
        std::max(a.firstIndex, b.firstIndex) - std::min(a.lastIndex, b.lastIndex) > joinDistance)
      return 0;
    const Large held = largeOf(rows), all = largeOf({rows, sums});
    int64_t more = 0;
    for (Value input : all.inputs)
      more += held.inputs.contains(input) ? 0 : bytesOf(input);
    const int64_t saved = held.bytes() + large.bytes() - all.bytes() - bytesTurnedApart(rows, sums);
    return more < saved ? saved : 0;
  }

  /// Has a group write what the others make of its tensors first: where each of them converts one
  /// to the same narrower type, that one.
  void writeNarrow() {
    SmallVector<CastOp> replaced;
    for (Operation &op : block)
      if (isFusible(&op) && !isCheap(&op) && op.getNumResults() == 1 &&
          bytesOf(op.getResult(0)) >= siblingBytes)
        convertHere(&op, replaced);
    for (CastOp cast : replaced) {
      groupOf.erase(cast);
      cast->erase();
    }
  }
  void convertHere(Operation *op, SmallVector<CastOp> &replaced) {
    const int64_t id = find(op);
    SmallVector<CastOp> conversions;
    for (Operation *user : op->getUsers()) {
      if (find(user) == id)
        continue;
      auto cast = dyn_cast<CastOp>(user);
      if (!cast || !isFusible(cast) || bytesOf(cast) >= bytesOf(op->getResult(0)) ||
          (!conversions.empty() && cast.getType() != conversions.front().getType()))
        return;
      conversions.push_back(cast);
    }
    if (conversions.empty())
      return;
    CastOp first = conversions.front();
    for (CastOp conversion : conversions) {
      llvm::erase(groups[find(conversion)].ops, conversion);
      if (conversion == first)
        continue;
      conversion.replaceAllUsesWith(first.getResult());
      replaced.push_back(conversion);
    }
    groupOf[first] = groupOf.lookup(op);
    SmallVector<Operation *> &members = groups[id].ops;
    members.insert(std::next(llvm::find(members, op)), first);
  }

  /// Whether nothing overwrites the tensor behind another reader's back, as a store does a state.
  static bool isTransient(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<ReshapeOp, SliceOp, TransposeOp>(op))
        return !isa<LoadOp, ConcatOp>(op);
      value = op->getOperand(0);
    }
    return false;
  }

  /// True for the loaded value of a state that stays as it is until the program ends.
  bool isUnchanged(Value value) const {
    auto load = value.getDefiningOp<LoadOp>();
    return load && !changed.contains(load.getSymbol());
  }

  /// What its group computes an op's result from in place by element-wise ops: these, in program
  /// order, and where they begin: what the group reads, also of states for all rows, and its values
  /// a row. Nothing when they
  /// are more than `mostAgain`, or expensive.
  struct Expression {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> leaves;
  };
  std::optional<Expression> expressionOf(Operation *root) {
    const int64_t id = find(root), elements = tensorType(root->getResult(0)).getNumElements();
    Expression found;
    size_t arithmetic = 0;
    SmallVector<Operation *> pending{root};
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (!found.ops.insert(op))
        continue;
      if (!isCheap(op) &&
          (!op->hasTrait<ElementwiseOp>() || nano::isExpensive(op) || ++arithmetic > mostAgain))
        return std::nullopt;
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *producer = operand.get().getDefiningOp();
        if (!readsInPlace(operand) && !(producer && isCheap(producer)) &&
            !isUnchanged(operand.get()))
          return std::nullopt;
        const bool isOwn = producer && find(producer) == id;
        if (isOwn && (isCheap(producer) || tensorType(operand.get()).getNumElements() == elements))
          pending.push_back(producer);
        else
          found.leaves.insert(operand.get());
      }
    }
    return found;
  }

  /// True when a group may leave it to readers far behind to compute a tensor from what it reads
  /// itself: one tensor, which has no more bytes, lives instead of it. And that is in memory: what
  /// the group makes else, no product's kernel ends with.
  bool canLiveInstead(int64_t id, Value value, const Expression &expression) {
    Value whole;
    for (Value leaf : expression.leaves) {
      if (isUnchanged(leaf))
        continue;
      const bool isOnly =
          llvm::all_of(leaf.getUsers(), [&](Operation *user) { return find(user) == id; });
      if (whole || bytesOf(leaf) > bytesOf(value) || !isOnly || !isTransient(leaf))
        return false;
      whole = leaf;
    }
    return whole && llvm::any_of(groups[id].ops, [&](Operation *op) {
             return isa<ReduceOp>(op) || tensorType(op->getResult(0)).getElementTypeBitWidth() < 16;
           });
  }

  /// Has the groups that read a tensor compute it again where that moves fewer bytes: x − mean of
  /// bf16 x is four bytes an element to write and four to read, for two; what a product and a bias
  /// add up to need not be written where the product is.
  void computeNarrowAgain() {
    SmallVector<Operation *> ops(llvm::make_pointer_range(block));
    for (Operation *op : ops)
      if (isFusible(op) && !isCheap(op) && op->hasTrait<ElementwiseOp>() &&
          bytesOf(op->getResult(0)) >= siblingBytes)
        computeAgain(op);
  }
  void computeAgain(Operation *op) {
    const Value value = op->getResult(0);
    const int64_t id = find(op);
    llvm::SmallSetVector<int64_t, 4> readers;
    bool areNear = true;
    for (OpOperand &use : value.getUses()) {
      const int64_t reader = find(use.getOwner());
      if (reader == id)
        continue;
      if (!isFusible(use.getOwner()) || !readsInPlace(use))
        return;
      areNear &= isNear(op, reader);
      readers.insert(reader);
    }
    if (readers.empty())
      return;
    const std::optional<Expression> expression = expressionOf(op);
    if (!expression)
      return;
    // Near it what readers read instead does not live for long; far from it that lives where the
    // tensor else does. Nor does it keep a product from its kernel, as a bias's sum would.
    const bool readsStates =
        llvm::any_of(expression->leaves, [&](Value leaf) { return isUnchanged(leaf); });
    if ((readsStates || !areNear) && !canLiveInstead(id, value, *expression))
      return;
    int64_t saved = bytesOf(value);
    size_t ownOperands = operandsOf(id);
    for (Value leaf : expression->leaves) {
      Operation *producer = leaf.getDefiningOp();
      const bool isOwn = producer && find(producer) == id;
      bool leaves = !isOwn;
      for (Operation *user : leaf.getUsers())
        leaves |= find(user) != id;
      if (!leaves && (tensorType(leaf).getNumElements() != groups[id].space.rows ||
                      ++ownOperands > maxOperands))
        return;
      saved -= leaves ? 0 : bytesOf(leaf);
    }
    for (int64_t reader : readers) {
      if (operandsOf(reader) + expression->leaves.size() > maxOperands)
        return;
      saved += bytesOf(value);
      for (Value leaf : expression->leaves) {
        const bool isRead =
            llvm::any_of(leaf.getUsers(), [&](Operation *user) { return find(user) == reader; });
        if (!isRead && !isTransient(leaf) && !isUnchanged(leaf))
          return;
        saved -= isRead ? 0 : bytesOf(leaf);
      }
    }
    if (saved < siblingBytes)
      return;
    // As they stand in their group: copies from another one all have the index of their reader.
    SmallVector<Operation *> inOrder;
    llvm::copy_if(groups[id].ops, std::back_inserter(inOrder),
                  [&](Operation *member) { return expression->ops.contains(member); });
    for (int64_t reader : readers) {
      SmallVector<Operation *> &members = groups[reader].ops;
      auto isReader = [&](Operation *user) {
        return llvm::is_contained(user->getOperands(), value);
      };
      auto at = llvm::find_if(members, isReader);
      OpBuilder builder(*at);
      IRMapping copies;
      SmallVector<Operation *> made;
      for (Operation *each : inOrder) {
        made.push_back(builder.clone(*each, copies));
        groupOf[made.back()] = groupOf.lookup(*at);
      }
      for (Operation *member : members)
        member->replaceUsesOfWith(value, copies.lookup(value));
      members.insert(at, made.begin(), made.end());
    }
    // What nothing in its own group reads is not computed there.
    for (Operation *each : llvm::reverse(inOrder))
      if (each->use_empty()) {
        llvm::erase(groups[id].ops, each);
        each->erase();
      }
  }
  /// Moves reshapes at the rim of a group out of it: there they are views.
  void dropRimReshapes(Group &group) {
    llvm::SmallDenseSet<Operation *> members(group.ops.begin(), group.ops.end());
    auto isRim = [&](Operation *op) {
      if (!isa<ReshapeOp>(op))
        return false;
      Operation *producer = op->getOperand(0).getDefiningOp();
      return !producer || !members.contains(producer) ||
             llvm::none_of(op->getUsers(), [&](Operation *user) { return members.contains(user); });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (Operation *op : group.ops)
        if (members.contains(op) && isRim(op)) {
          members.erase(op);
          changed = true;
        }
    }
    llvm::erase_if(group.ops, [&](Operation *op) { return !members.contains(op); });
  }

  LogicalResult emit() {
    for (Group &group : groups) {
      if (!group.fusible || group.ops.empty())
        continue;
      dropRepeats(group.ops);
      dropRimReshapes(group);
      if (!group.ops.empty())
        emitGroup(group);
    }
    return sort();
  }

  void emitGroup(Group &group) {
    llvm::SmallDenseSet<Operation *> members(group.ops.begin(), group.ops.end());
    llvm::SmallSetVector<Value, 16> inputs;
    SmallVector<Value> outputs;
    SmallVector<Location> locations;
    for (Operation *op : group.ops) {
      for (Value operand : op->getOperands())
        if (!operand.getDefiningOp() || !members.contains(operand.getDefiningOp()))
          inputs.insert(operand);
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !members.contains(user); }))
        outputs.push_back(op->getResult(0));
      if (!llvm::is_contained(locations, op->getLoc()))
        locations.push_back(op->getLoc());
    }
    OpBuilder builder(group.ops.back());
    Location location = builder.getFusedLoc(locations);
    auto fused =
        FusedOp::create(builder, location, TypeRange(ValueRange(outputs)), inputs.getArrayRef());
    index[fused] = group.lastIndex;
    SmallVector<Location> argumentLocations;
    for (Value input : inputs)
      argumentLocations.push_back(input.getLoc());
    Block *body = builder.createBlock(
        &fused.getBody(), {}, TypeRange(ValueRange(inputs.getArrayRef())), argumentLocations);
    for (Operation *op : group.ops)
      op->moveBefore(body, body->end());
    builder.setInsertionPointToEnd(body);
    auto yield = YieldOp::create(builder, location, outputs);
    nano::reuseExponentials(*body);
    for (auto [position, input] : llvm::enumerate(inputs.takeVector()))
      input.replaceUsesWithIf(body->getArgument(position),
                              [&](OpOperand &use) { return members.contains(use.getOwner()); });
    for (auto [output, result] : llvm::zip(yield.getOperands(), fused.getResults()))
      output.replaceUsesWithIf(result,
                               [&](OpOperand &use) { return use.getOwner()->getBlock() != body; });
    nano::separateTargets(*body);
    LDBG() << "kernel of " << group.ops.size() << " ops over " << group.space.rows << " × "
           << group.space.columns;
  }

  /// Keeps of equal ops, such as copies of one cheap op, only the first.
  static void dropRepeats(SmallVector<Operation *> &ops) {
    constexpr auto flags = OperationEquivalence::IgnoreLocations;
    std::unordered_multimap<size_t, Operation *> seen;
    llvm::erase_if(ops, [&](Operation *op) {
      size_t hash = OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                                      OperationEquivalence::ignoreHashValue, flags);
      auto [first, last] = seen.equal_range(hash);
      auto same = std::find_if(first, last, [&](auto &entry) {
        return OperationEquivalence::isEquivalentTo(
            entry.second, op, OperationEquivalence::exactValueMatch, nullptr, flags);
      });
      if (same == last) {
        seen.emplace(hash, op);
        return false;
      }
      op->replaceAllUsesWith(same->second);
      op->erase();
      return true;
    });
  }

  /// A kernel stands where its last op stood, or as soon after as what it reads is made.
  LogicalResult sort() {
    for (Operation &op : block)
      if (!index.contains(&op))
        index[&op] = groupOf.lookup(&op);
    return nano::sortBlock(block, after, index);
  }

  bool bothSums;
  llvm::StringSet<> changed;                  ///< states that the program writes
  llvm::DenseMap<Operation *, int64_t> index; // order in the new block
};

struct Fuse : public nano::impl::FuseBase<Fuse> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(module.getContext());
    for (auto function : module.getOps<ProgramOp>()) {
      nano::Traffic before = nano::measureTraffic(function);
      nano::widenGatheredRows(function);
      nano::joinPairedColumns(function);
      nano::narrowColumns(function);
      nano::readShiftedRows(function);
      if (failed(nano::decomposeReductions(function)))
        return signalPassFailure();
      int64_t floor = nano::trafficFloor(function);
      if (failed(Fuser(function, bothSums, endProducts).run()))
        return signalPassFailure();
      nano::Traffic after = nano::measureTraffic(function);
      function.setTrafficAttr(builder.getDictionaryAttr({
          builder.getNamedAttr("kernels_before", builder.getI64IntegerAttr(before.kernels)),
          builder.getNamedAttr("bytes_before", builder.getI64IntegerAttr(before.bytes)),
          builder.getNamedAttr("kernels", builder.getI64IntegerAttr(after.kernels)),
          builder.getNamedAttr("bytes", builder.getI64IntegerAttr(after.bytes)),
          builder.getNamedAttr("bytes_floor", builder.getI64IntegerAttr(floor)),
      }));
    }
  }
};

} // namespace
