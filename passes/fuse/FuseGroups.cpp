// Groups of ops, and what may be one kernel.
#include "passes/fuse/FuseGroups.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::fuse {

/// Columns of a kernel that reduces along rows and sums columns, at most, and what a thread of it
/// holds for each of its own, in numbers of 32 bits: operands and sums.
constexpr int64_t mostBothColumns = 4096;
constexpr double mostBothHeld = 10;
/// Shared memory for the sums of columns of a kernel that also writes its rows transposed, beside
/// what it gathers.
constexpr int64_t mostStripBytes = 32 * 1024;

/// They are pointers in registers and streams in the cache.
const size_t Groups::maxOperands = 40;
/// The same of a kernel of single numbers: they are in registers together, of which it has 255.
constexpr size_t maxNumbers = 192;

void Groups::buildGroups() {
  int64_t index = 0;
  for (Operation &op : block) {
    Group group;
    group.ops.push_back(&op);
    group.fusible = isFusible(&op);
    if (group.fusible) {
      group.space = spaceOf(&op);
      group.columnReduces = isColumnReduce(&op);
      if (group.columnReduces)
        group.columnSizes = columnSizes(cast<ReduceOp>(op));
      group.reduces = isa<ReduceOp>(op) && !group.columnReduces;
    }
    group.firstIndex = group.lastIndex = index;
    groupOf[&op] = index;
    position.push_back(index);
    sequence.push_back(index);
    parent.push_back(index++);
    groups.push_back(std::move(group));
  }
  after = nano::stateOrder(block);
}

int64_t Groups::find(int64_t id) {
  while (parent[id] != id)
    id = parent[id] = parent[parent[id]];
  return id;
}
/// Calls `visit` with every group that reads what `id` writes.
template <typename Visit> void Groups::forEachSuccessor(int64_t id, Visit visit) {
  for (Operation *op : groups[id].ops) {
    for (Operation *user : op->getUsers())
      visit(find(user));
    if (auto it = after.find(op); it != after.end())
      for (Operation *next : it->second)
        visit(find(next));
  }
}

/// The groups that depend on `first` and stand before `second` in `sequence`; nothing when one of
/// them leads to `second`, or may not wait.
std::optional<llvm::DenseSet<int64_t>> Groups::between(int64_t first, int64_t second,
                                                       llvm::function_ref<bool(int64_t)> mayWait) {
  llvm::DenseSet<int64_t> seen;
  SmallVector<int64_t> work{first};
  bool isPossible = true;
  while (!work.empty() && isPossible) {
    int64_t id = work.pop_back_val();
    forEachSuccessor(id, [&](int64_t next) {
      isPossible &= next != second || id == first;
      if (position[next] < position[second] && next != first && seen.insert(next).second) {
        isPossible &= mayWait(next);
        work.push_back(next);
      }
    });
  }
  if (!isPossible)
    return std::nullopt;
  return seen;
}

/// Gives the joined group `second` a place that keeps `sequence` topological: what depends on
/// `first` moves behind it.
void Groups::reorder(int64_t first, int64_t second, const llvm::DenseSet<int64_t> &dependents) {
  SmallVector<int64_t> before, after;
  for (int64_t at = position[first] + 1; at < position[second]; ++at)
    if (sequence[at] >= 0)
      (dependents.contains(sequence[at]) ? after : before).push_back(sequence[at]);
  int64_t at = position[first];
  auto place = [&](int64_t id) {
    position[id] = at;
    sequence[at++] = id;
  };
  int64_t end = position[second];
  llvm::for_each(before, place);
  place(second);
  llvm::for_each(after, place);
  while (at <= end)
    sequence[at++] = -1;
}

/// The space of the joined group, if `a` and `b` can be one kernel: both have one space, or one
/// of them computes a value a row of the other.
static std::optional<Space> commonSpace(const Group &a, const Group &b, bool both) {
  if (!a.fusible || !b.fusible)
    return std::nullopt;
  // Column reductions walk over rows in another order than row reductions, but in kernels that do
  // both.
  const bool isBoth = (a.columnReduces && a.reduces) || (b.columnReduces && b.reduces);
  if (!both && !isBoth && ((a.columnReduces && b.reduces) || (b.columnReduces && a.reduces)))
    return std::nullopt;
  if (a.columnReduces && b.columnReduces && a.columnSizes != b.columnSizes)
    return std::nullopt;
  if (a.space == b.space)
    return a.space;
  for (auto [wide, narrow] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (wide->reduces || wide->space.columns > 1)
      if (narrow->space.elements() == wide->space.rows && !narrow->reduces &&
          !narrow->columnReduces && (!wide->columnReduces || wide->reduces))
        return wide->space;
  return std::nullopt;
}

/// True when one of the groups reads at other places, or as a whole, what the other computes: a
/// column reduction, the table of a gather, a value a column; also by cheap ops between, which
/// are computed where they are read.
bool Groups::readsElsewhere(int64_t a, int64_t b) {
  auto feeds = [&](int64_t from, int64_t to) {
    llvm::SmallDenseSet<Operation *> asked;
    return llvm::any_of(groups[from].ops, [&](Operation *op) {
      return !isCheap(op) && isReadElsewhere(op, from, to, asked);
    });
  };
  return feeds(a, b) || feeds(b, a);
}
/// `asked`: ops of which it is known that they are not.
bool Groups::isReadElsewhere(Operation *op, int64_t from, int64_t to,
                             llvm::SmallDenseSet<Operation *> &asked) {
  if (!asked.insert(op).second)
    return false;
  return llvm::any_of(op->getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    const int64_t id = find(user);
    return (id == to && (isColumnReduce(op) || !readsInPlace(use))) ||
           ((id == to || id == from) && isCheap(user) && isReadElsewhere(user, from, to, asked));
  });
}

/// Everything that leaves the group must be a whole tensor or one value a row.
bool Groups::outputsFit(ArrayRef<Operation *> ops, Space space, int64_t a, int64_t b) {
  size_t operands = 0;
  llvm::SmallDenseSet<Value> inputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      int64_t producer = operand.getDefiningOp() ? find(operand.getDefiningOp()) : -1;
      if (producer != a && producer != b)
        inputs.insert(operand);
    }
    bool leaves = llvm::any_of(op->getUsers(), [&](Operation *user) {
      int64_t id = find(user);
      return id != a && id != b;
    });
    if (!leaves)
      continue;
    ++operands;
    int64_t elements = tensorType(op->getResult(0)).getNumElements();
    if (elements != space.elements() && elements != space.rows && !isColumnReduce(op))
      return false;
  }
  return operands + inputs.size() <= (space.elements() == 1 ? maxNumbers : maxOperands);
}

int64_t Groups::Large::bytes() const {
  int64_t sum = 0;
  for (Value value : inputs)
    sum += bytesOf(value);
  for (Value value : outputs)
    sum += bytesOf(value);
  return sum;
}

Groups::Large Groups::largeOf(ArrayRef<int64_t> ids) {
  Large found;
  for (int64_t id : ids) {
    auto isLarge = [&](Value value) {
      return tensorType(value).getNumElements() == groups[id].space.elements();
    };
    for (Operation *op : groups[id].ops) {
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (isLarge(operand) && !(producer && llvm::is_contained(ids, find(producer))))
          found.inputs.insert(operand);
      }
      if (isLarge(op->getResult(0)) && llvm::any_of(op->getUsers(), [&](Operation *user) {
            return !llvm::is_contained(ids, find(user));
          }))
        found.outputs.insert(op->getResult(0));
    }
  }
  return found;
}

bool Groups::fitsStrips(int64_t a, int64_t b, Space space) {
  SmallVector<Operation *> ops(groups[a].ops);
  llvm::append_range(ops, groups[b].ops);
  llvm::sort(ops,
             [&](Operation *x, Operation *y) { return groupOf.lookup(x) < groupOf.lookup(y); });
  bool isTurned = false;
  int64_t sums = 0;
  llvm::SmallDenseSet<Operation *> ofRows; // row reductions, and what is computed from them
  for (Operation *op : ops) {
    auto reduce = dyn_cast<ReduceOp>(op);
    const bool isPlain =
        !reduce ||
        ((reduce.getCombiner() == Combiner::sum || reduce.getCombiner() == Combiner::max) &&
         !pickedBy(reduce));
    const bool isAfterRows = llvm::any_of(op->getOperands(), [&](Value operand) {
      return operand.getDefiningOp() && ofRows.contains(operand.getDefiningOp());
    });
    if (!isPlain || isa<RotateOp, PermuteOp>(op) ||
        (isAfterRows && spaceOf(op).elements() == space.elements()))
      return false;
    if (isColumnReduce(op) && columnSizes(reduce)[2] != space.columns)
      return false;
    sums += isColumnReduce(op) ? 1 : 0;
    if (isAfterRows || (reduce && !isColumnReduce(op)))
      ofRows.insert(op);
    isTurned |= llvm::any_of(op->getUsers(), llvm::IsaPred<TransposeOp>);
  }
  return isTurned && 4 * space.columns * sums <= mostStripBytes;
}

int64_t Groups::bytesTurnedApart(int64_t rows, int64_t sums) {
  if (fitsStrips(rows, sums, groups[rows].space))
    return 0;
  int64_t bytes = 0;
  for (int64_t id : {rows, sums}) {
    // Where a group does both already, copies of its rows are transposed.
    if (groups[id].reduces && groups[id].columnReduces)
      continue;
    for (Operation *op : groups[id].ops) {
      const auto isTranspose = llvm::IsaPred<TransposeOp>;
      if (!llvm::any_of(op->getUsers(), isTranspose))
        continue;
      const bool isReadByRows = llvm::any_of(op->getUsers(), [&](Operation *user) {
        const int64_t reader = find(user);
        return !isTranspose(user) && reader != rows && reader != sums;
      });
      bytes += bytesOf(op->getResult(0)) * (isReadByRows ? 1 : 2);
    }
  }
  return bytes;
}

bool Groups::canSumBothWays(int64_t a, int64_t b, Space space) {
  if (fitsStrips(a, b, space))
    return true;
  if (space.columns > mostBothColumns)
    return false;
  int64_t bytes = 0;
  for (Value input : largeOf({a, b}).inputs)
    bytes += bytesOf(input);
  double held = double(bytes) / double(4 * space.elements());
  for (int64_t id : {a, b}) {
    if (groups[id].columnReduces && groups[id].columnSizes[2] != space.columns)
      return false;
    for (Operation *op : groups[id].ops) {
      // What is read at other columns takes shared memory.
      if (isa<RotateOp, PermuteOp>(op))
        return false;
      held += isColumnReduce(op) ? 1 : 0;
    }
  }
  return held <= mostBothHeld;
}

Operation *Groups::ownProduct(int64_t id) {
  for (Operation *op : groups[id].ops)
    for (Value operand : op->getOperands()) {
      Operation *product = operand.getDefiningOp();
      if (isa_and_present<MatmulOp, ScaledMatmulOp>(product) &&
          tensorType(operand).getNumElements() == groups[id].space.elements() &&
          llvm::all_of(operand.getUsers(), [&](Operation *user) { return find(user) == id; }))
        return product;
    }
  return nullptr;
}

bool Groups::endApart(int64_t maker, int64_t reader) {
  if (!endProducts || groups[maker].reduces || groups[maker].columnReduces)
    return false;
  Operation *product = ownProduct(maker);
  if (!product || !ownProduct(reader))
    return false;
  const Large made = largeOf(maker);
  if (made.inputs.size() != 1 || made.inputs.front() != product->getResult(0))
    return false;
  bool isRead = false;
  for (Value value : made.outputs) {
    bool byReader = false, byOthers = false;
    for (Operation *user : value.getUsers())
      (find(user) == reader ? byReader : byOthers) = true;
    if (byReader && !byOthers)
      return false;
    isRead |= byReader;
  }
  return isRead;
}

bool Groups::areOfReductions(int64_t numbers, int64_t reader) {
  const Space space = groups[reader].space;
  if (!endProducts || groups[numbers].space.elements() != space.rows || space.columns == 1 ||
      groups[reader].reduces || groups[reader].columnReduces || !ownProduct(reader))
    return false;
  llvm::SmallSetVector<Operation *, 8> behind(llvm::from_range, groups[numbers].ops);
  for (size_t i = 0; i < behind.size(); ++i) {
    if (isa<ReduceOp>(behind[i]) && !isColumnReduce(behind[i]))
      return true;
    for (Value operand : behind[i]->getOperands())
      if (Operation *made = operand.getDefiningOp();
          made && isFusible(made) && tensorType(operand).getNumElements() == space.rows)
        behind.insert(made);
  }
  return false;
}

bool Groups::tryJoin(int64_t a, int64_t b, bool both) {
  if (a == b || areOfReductions(a, b) || areOfReductions(b, a))
    return false;
  std::optional<Space> space = commonSpace(groups[a], groups[b], both);
  if (!space || readsElsewhere(a, b) || endApart(a, b) || endApart(b, a))
    return false;
  if ((groups[a].reduces || groups[b].reduces) &&
      (groups[a].columnReduces || groups[b].columnReduces) && !canSumBothWays(a, b, *space))
    return false;
  SmallVector<Operation *> ops;
  ops.reserve(groups[a].ops.size() + groups[b].ops.size());
  std::merge(groups[a].ops.begin(), groups[a].ops.end(), groups[b].ops.begin(), groups[b].ops.end(),
             std::back_inserter(ops),
             [&](Operation *x, Operation *y) { return groupOf.lookup(x) < groupOf.lookup(y); });
  if (!outputsFit(ops, *space, a, b))
    return false;
  if (position[a] > position[b])
    std::swap(a, b);
  std::optional<llvm::DenseSet<int64_t>> dependents = between(a, b, [](int64_t) { return true; });
  if (!dependents)
    return false;
  reorder(a, b, *dependents);
  Group &target = groups[b], &source = groups[a];
  target.ops = std::move(ops);
  target.space = *space;
  target.reduces |= source.reduces;
  if (source.columnReduces)
    target.columnSizes = source.columnSizes;
  target.columnReduces |= source.columnReduces;
  target.firstIndex = std::min(target.firstIndex, source.firstIndex);
  target.lastIndex = std::max(target.lastIndex, source.lastIndex);
  source.ops.clear();
  parent[a] = b;
  return true;
}

bool Groups::tryJoinNumbers(int64_t a, int64_t b) {
  if (position[a] > position[b])
    std::swap(a, b);
  auto mayWait = [&](int64_t id) {
    auto reshape = dyn_cast<ReshapeOp>(groups[id].ops.front());
    return isNumber(id) || (reshape && reshape.getType().getNumElements() == 1);
  };
  return between(a, b, mayWait) && tryJoin(a, b);
}

bool Groups::tryJoinProducer(Operation *producer, int64_t b) {
  int64_t a = find(producer);
  if (a == b)
    return false;
  if (isCheap(producer) && producer->hasOneUse() && groups[a].ops.size() == 1) {
    Group &target = groups[b];
    target.ops.insert(llvm::lower_bound(target.ops, producer,
                                        [&](Operation *x, Operation *y) {
                                          return groupOf.lookup(x) < groupOf.lookup(y);
                                        }),
                      producer);
    groups[a].ops.clear();
    sequence[position[a]] = -1;
    parent[a] = b;
    return true;
  }
  return tryJoin(a, b);
}

size_t Groups::operandsOf(int64_t id) {
  size_t outputs = 0;
  llvm::SmallDenseSet<Value> inputs;
  for (Operation *op : groups[id].ops) {
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || find(operand.getDefiningOp()) != id)
        inputs.insert(operand);
    outputs += llvm::any_of(op->getUsers(), [&](Operation *user) { return find(user) != id; });
  }
  return inputs.size() + outputs;
}

} // namespace nano::fuse
