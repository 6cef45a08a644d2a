// Chains of rows that reach further than the root's result: through the products before it, and to
// what acts on rows alone at both ends.
#include "passes/fuse/RowChain.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Products widen rows by at least this factor to be reached for.
constexpr int64_t leastWidening = 2;

bool isProduct(Operation *op) { return isa<MatmulOp, ScaledMatmulOp>(op); }

/// The products that `value` is computed from by ops that keep rows.
SmallVector<Operation *> productsBefore(Value value) {
  SmallVector<Operation *> found;
  llvm::SmallDenseSet<Operation *> seen;
  SmallVector<Value> stack{value};
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isProduct(op))
      found.push_back(op);
    else if (RowChain::mayKeepRows(op))
      llvm::append_range(stack, op->getOperands());
  }
  return found;
}

/// The tensor that a cast to a wider type or another shape shows.
Value shownBy(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp, ReshapeOp>(op) || bytesOf(op->getOperand(0)) > bytesOf(value))
      break;
    value = op->getOperand(0);
  }
  return value;
}

} // namespace

bool RowChain::hasRows(Operation *op) const {
  return llvm::any_of(op->getResults(),
                      [&](Value result) { return bool(guess(tensorType(result))); });
}

/// Adds the products that make wide rows of narrow ones for the one that the root's rows come from.
bool RowChain::addProductsBefore() {
  Operation *last = nullptr;
  for (Operation *op : productsBefore(root->getOperand(0)))
    if (op->getBlock() == block() && (!last || last->isBeforeInBlock(op)))
      last = op;
  if (!last)
    return false;
  const SmallVector<Operation *> first = productsBefore(last->getOperand(0));
  for (Operation *op : first) {
    const RankedTensorType type = tensorType(op->getResult(0));
    if (type.getRank() != 2 || type.getDimSize(0) != rows ||
        type.getNumElements() < leastWidening * tensorType(last->getResult(0)).getNumElements())
      return false;
    wideElements = std::min(wideElements, type.getNumElements());
    add(op);
  }
  return !first.empty();
}

/// Adds what gives members alone their rows, unless it ends a product or reads more than it makes.
void RowChain::addSources() {
  llvm::SmallDenseSet<Operation *> added;
  auto isInside = [&](Operation *op) { return members.contains(op) || added.contains(op); };
  Operation *last = members.front(), *begin = &block()->front();
  for (Operation *op : members)
    last = last->isBeforeInBlock(op) ? op : last;
  SmallVector<Operation *> order;
  for (Operation *op = last;; op = op->getPrevNode()) {
    if (!isInside(op) && !isProduct(op) && mayKeepRows(op) && hasRows(op) && !op->use_empty() &&
        llvm::all_of(op->getUsers(), isInside) &&
        llvm::none_of(op->getOperands(), [&](Value operand) {
          Operation *maker = operand.getDefiningOp();
          return maker && isProduct(maker) && !isInside(maker);
        })) {
      added.insert(op);
      order.push_back(op);
    }
    if (op == begin)
      break;
  }
  // Bytes that members read and nothing else does.
  auto bytesRead = [&](bool withAdded) {
    auto isIn = [&](Operation *op) {
      return members.contains(op) || (withAdded && added.contains(op));
    };
    llvm::SmallDenseSet<Value> read;
    int64_t bytes = 0;
    for (Operation &op : *block())
      if (isIn(&op))
        for (Value operand : op.getOperands()) {
          const Value shown = shownBy(operand);
          Operation *maker = shown.getDefiningOp();
          if (!maker || isIn(maker) || !hasRows(maker) || isa<LoadOp, ConstantOp>(maker) ||
              !read.insert(shown).second)
            continue;
          if (llvm::all_of(shown.getUsers(), [&](Operation *user) {
                return isIn(user) || user->isBeforeInBlock(root);
              }))
            bytes += bytesOf(shown);
        }
    return bytes;
  };
  if (bytesRead(true) <= bytesRead(false))
    for (Operation *op : order)
      add(op);
}

/// Adds what acts on the rows that leave the chain, where fewer bytes leave it then.
void RowChain::addSinks() {
  Operation *first = members.front();
  for (Operation *op : members)
    first = op->isBeforeInBlock(first) ? op : first;
  llvm::SmallDenseSet<Operation *> added, depends;
  SmallVector<Operation *> order;
  for (Operation *op = first; op; op = op->getNextNode()) {
    if (members.contains(op))
      continue;
    bool reads = false, waits = false;
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      reads |= maker && (members.contains(maker) || added.contains(maker));
      waits |= maker && depends.contains(maker);
    }
    if (!reads && !waits)
      continue;
    if (!waits && !isProduct(op) && mayKeepRows(op) && hasRows(op)) {
      added.insert(op);
      order.push_back(op);
    } else {
      depends.insert(op);
    }
  }
  auto bytesLeft = [&](bool withAdded) {
    auto isIn = [&](Operation *op) {
      return members.contains(op) || (withAdded && added.contains(op));
    };
    llvm::SmallDenseSet<Value> counted;
    int64_t bytes = 0;
    for (Operation &op : *block())
      if (isIn(&op) && hasRows(&op))
        for (Value result : op.getResults())
          if (const Value shown = shownBy(result);
              !llvm::all_of(result.getUsers(), isIn) && counted.insert(shown).second)
            bytes += bytesOf(shown);
    return bytes;
  };
  if (bytesLeft(true) < bytesLeft(false))
    for (Operation *op : order)
      add(op);
}

bool RowChain::collectFurther() {
  reachesFurther = true;
  add(root);
  if (!addProductsBefore())
    return false;
  for (size_t before = 0; before != members.size() && !obstacle;) {
    before = members.size();
    close();
    if (obstacle)
      break;
    addSources();
    addSinks();
  }
  return !obstacle && derive();
}
