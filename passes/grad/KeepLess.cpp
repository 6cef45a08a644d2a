// Prices of values by the rates of a machine, and the choice by bytes freed for a second.
#include "passes/grad/KeepLess.h"

#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/Recomputed.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Values.h"
#include "passes/grad/CheapOps.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace nano::graph;

namespace nano {

using grad::isCheap;
using grad::isTransparent;

namespace {

/// Keys that a query sees on average, as the schedule takes it too; documents decide.
constexpr int64_t assumedKeys = 512;

/// The value that `value` is a look at.
Value rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isTransparent(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

} // namespace

KeepLess::KeepLess(Block &block, const DenseSet<Operation *> &forward, DenseSet<Value> heldValues,
                   const machine::Machine &machine)
    : block(block), forward(forward), held(std::move(heldValues)), machine(machine) {
  int64_t place = 0;
  for (Operation &op : block)
    places[&op] = place++;
  Operation *first = nullptr; // product of the backward pass
  for (Operation &op : block.without_terminator()) {
    const bool isForward = forward.contains(&op);
    for (Value operand : op.getOperands())
      if (isForward)
        lastForward[rootOf(operand)] = places.lookup(&op);
      else
        touch(operand, places.lookup(&op));
    if (!isForward && isa<MatmulOp, ScaledMatmulOp>(op)) {
      const bool isFirst = !first;
      if (isFirst)
        first = &op;
      if (isFirst || llvm::any_of(op.getOperands(), [&](Value operand) {
            Operation *maker = operand.getDefiningOp();
            return maker && !forward.contains(maker) &&
                   llvm::is_contained(first->getOperands(), operand);
          }))
        firstProducts = places.lookup(&op);
    }
    if (isForward)
      for (Value result : op.getResults())
        if (held.contains(result) && !isBase(result))
          values.push_back(result);
  }
  double moved = 0;
  for (Value value : values)
    moved += bytesFromParameters(value);
  if (moved > 0)
    secondsFromParameters = (machine.command() + machine.kernel(moved)) / moved;
}

double KeepLess::bytesFromParameters(Value value) const {
  llvm::SetVector<Operation *> ops;
  if (!isOfParameters(value, ops))
    return 0;
  double read = 0;
  for (Operation *op : ops)
    if (isa<LoadOp>(op))
      read += double(bytesOf(op->getResult(0)));
  return read > 0 ? read + double(bytesOf(value)) : 0;
}

bool KeepLess::isBase(Value value) const {
  Operation *op = value.getDefiningOp();
  return !op || isa<LoadOp, ConstantOp>(op) || !forward.contains(op);
}

bool KeepLess::isShared(Value value) const {
  return held.contains(value) || made.contains(value.getDefiningOp());
}

void KeepLess::touch(Value value, int64_t place) {
  SmallVector<Value> stack{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!stack.empty()) {
    Value next = stack.pop_back_val();
    if (isBase(next))
      continue;
    Operation *op = next.getDefiningOp();
    if (isShared(next)) {
      Range &range = backward[next];
      const bool isEarlier = range.isEmpty() || place < range.first;
      range.add(place);
      // It is made at its first use.
      if (held.contains(next) || !isEarlier)
        continue;
    }
    if (seen.insert(op).second)
      llvm::append_range(stack, op->getOperands());
  }
}

/// Whether a product of the backward pass reads what the forward pass makes.
bool KeepLess::isReadByBackwardProduct(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return !forward.contains(user) && isa<MatmulOp, ScaledMatmulOp>(user);
  });
}

/// Whether nothing but element-wise ops lie between a product and `value`, of which none reads
/// another tensor of rows: the kernel that computes the product ends with them.
bool KeepLess::endsProduct(Value value) const {
  Operation *product = nullptr;
  SmallVector<Value> stack{value};
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (isa<MatmulOp, ScaledMatmulOp>(op)) {
      if (product && product != op)
        return false;
      product = op;
      continue;
    }
    if (!isCheap(op) || isa<ReduceOp>(op))
      return false;
    for (Value operand : op->getOperands()) {
      if (isa_and_present<ConstantOp>(operand.getDefiningOp()))
        continue;
      if (isBase(operand) || isShared(operand))
        return false;
      stack.push_back(operand);
    }
  }
  return product &&
         tensorType(product->getResult(0)).getNumElements() == tensorType(value).getNumElements();
}

double KeepLess::secondsOf(Operation *op) const {
  double bytes = 0;
  for (Value value : op->getOperands())
    bytes += double(bytesOf(value));
  for (Value value : op->getResults())
    bytes += double(bytesOf(value));
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    const RankedTensorType a = tensorType(matmul.getA()), c = tensorType(matmul.getResult());
    const int64_t rank = c.getRank(), m = c.getDimSize(rank - 2), n = c.getDimSize(rank - 1);
    const int64_t k = a.getDimSize(rank - (matmul.getTransposeA() ? 2 : 1));
    return machine.command() + machine.product(m, n, k, c.getNumElements() / (m * n),
                                               a.getElementType().isF32()
                                                   ? machine::ElementType::F32
                                                   : machine::ElementType::BF16,
                                               bytes);
  }
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    const RankedTensorType q = tensorType(attention.getQ());
    const double keys = double(std::min(q.getDimSize(0), assumedKeys));
    const double elements = double(q.getNumElements()) + // of queries, and of results
                            double(tensorType(attention.getY()).getNumElements());
    return machine.command() +
           machine.kernel(bytes, 2 * elements * keys, machine::Arithmetic::Attention);
  }
  return machine.command() + machine.kernel(bytes);
}

KeepLess::Making KeepLess::makingOf(Value value) const {
  Making making;
  if (const double moved = bytesFromParameters(value); moved > 0) {
    making.seconds = secondsFromParameters * moved;
    return making;
  }
  double moved = 0; // by element-wise kernels
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallDenseSet<Value> from;
  SmallVector<Operation *> stack{value.getDefiningOp()};
  seen.insert(stack.front());
  if (isCheap(stack.front()) && !endsProduct(value))
    moved += double(bytesOf(value));
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val();
    if (!isMemoryEffectFree(op)) {
      making.isPossible = false;
      return making;
    }
    if (!isCheap(op)) {
      making.seconds += secondsOf(op);
      making.ops.push_back(op);
    }
    for (Value operand : op->getOperands()) {
      if (isBase(operand) || isShared(operand)) {
        if (isCheap(op) && !isa_and_present<ConstantOp>(operand.getDefiningOp()))
          moved += double(bytesOf(operand));
        if (!isBase(operand) && from.insert(operand).second)
          making.from.push_back(operand);
        continue;
      }
      // What the backward pass reads too would be written for it in any case.
      if (!isCheap(op) && isCheap(operand.getDefiningOp()) &&
          !isTransparent(operand.getDefiningOp())) {
        if (isReadByBackwardProduct(operand))
          making.shared.push_back(operand.getDefiningOp());
        else
          moved += double(bytesOf(operand));
      }
      if (seen.insert(operand.getDefiningOp()).second)
        stack.push_back(operand.getDefiningOp());
    }
  }
  if (moved > 0)
    making.seconds += machine.command() + machine.kernel(moved);
  return making;
}

std::vector<int64_t> KeepLess::profile() const {
  std::vector<int64_t> live(places.size() + 1, 0);
  auto add = [&](int64_t first, int64_t last, int64_t bytes) {
    live[size_t(first)] += bytes;
    live[size_t(last) + 1] -= bytes;
  };
  for (Value value : values) {
    const int64_t bytes = bytesOf(value), begin = places.lookup(value.getDefiningOp()),
                  end = std::max(begin, lastForward.lookup(value));
    const Range use = backward.lookup(value);
    if (held.contains(value)) {
      add(begin, std::max(end, use.last), bytes);
      continue;
    }
    add(begin, end, bytes);
    if (!use.isEmpty())
      add(use.first, use.last, bytes);
  }
  int64_t sum = 0;
  for (int64_t &bytes : live)
    bytes = sum += bytes;
  return live;
}

int64_t KeepLess::peak() const {
  const std::vector<int64_t> live = profile();
  return *std::max_element(live.begin(), live.end());
}

int64_t KeepLess::freedAt(int64_t place, Value value, const Making &making) const {
  const Range use = backward.lookup(value);
  auto covers = [&](const Range &range) { return range.first <= place && place <= range.last; };
  if (use.first <= firstProducts || place <= lastForward.lookup(value) || place > use.last ||
      covers(use) || place < places.lookup(value.getDefiningOp()))
    return 0;
  int64_t freed = bytesOf(value);
  for (Value source : making.from) {
    const Range own = backward.lookup(source);
    const bool isHeld = held.contains(source);
    // Held until then, or made by then, which it had not been.
    const bool costs =
        isHeld ? place > std::max(lastForward.lookup(source), own.last) && place <= use.first
               : place >= use.first && place < own.first;
    if (costs)
      freed -= bytesOf(source);
  }
  return freed;
}

void KeepLess::drop(Value value, bool isAsked) {
  const Making making = makingOf(value);
  chosen.push_back({value, bytesOf(value), making.seconds, isAsked});
  held.erase(value);
  made.insert(value.getDefiningOp());
  made.insert_range(making.ops);
  made.insert_range(making.shared);
  const int64_t place = backward.lookup(value).first;
  for (Value operand : value.getDefiningOp()->getOperands())
    touch(operand, place);
}

void KeepLess::dropMarked() {
  auto regionOf = [](Operation *op) { return op->getAttr(recomputeAttrName); };
  // Whether ops of its region alone read a value in the forward pass, in whatever view of it.
  auto isInside = [&](Value value) {
    const Attribute region = regionOf(value.getDefiningOp());
    SmallVector<Value> views{value};
    while (!views.empty())
      for (Operation *user : views.pop_back_val().getUsers()) {
        const bool isForward = forward.contains(user);
        if (user == block.getTerminator() || (isForward && regionOf(user) != region))
          return false;
        if (isForward && isTransparent(user))
          views.push_back(user->getResult(0));
      }
    return true;
  };
  for (Value value : values)
    if (regionOf(value.getDefiningOp()) && !backward.lookup(value).isEmpty() && isInside(value) &&
        makingOf(value).isPossible)
      drop(value, true);
}

std::vector<Remade> KeepLess::next(size_t most) const {
  KeepLess ahead = *this;
  ahead.save(ahead.peak(), most);
  return {ahead.chosen.begin() + std::ptrdiff_t(chosen.size()), ahead.chosen.end()};
}

void KeepLess::save(int64_t saveBytes, size_t most) {
  const int64_t target = peak() - saveBytes;
  llvm::DenseMap<Value, Making> makings;
  for (size_t gone = 0; gone < most; ++gone) {
    const std::vector<int64_t> live = profile();
    const auto highest = std::max_element(live.begin(), live.end());
    if (*highest <= target)
      return;
    Value best, cheapest; // by rate, and of those that are enough
    bool isEnough = false;
    double bestRate = 0, leastSeconds = std::numeric_limits<double>::infinity();
    for (Value value : values) {
      if (!held.contains(value))
        continue;
      auto [found, isNew] = makings.try_emplace(value);
      if (isNew)
        found->second = makingOf(value);
      const Making &making = found->second;
      if (!making.isPossible)
        continue;
      const int64_t freed = freedAt(highest - live.begin(), value, making);
      const double rate = double(freed) / std::max(making.seconds, 1e-9);
      if (rate > bestRate) {
        best = value;
        bestRate = rate;
        isEnough = freed >= *highest - target;
      }
      if (freed >= *highest - target && making.seconds < leastSeconds) {
        cheapest = value;
        leastSeconds = making.seconds;
      }
    }
    if (!best)
      return;
    if (isEnough)
      best = cheapest;
    const SmallVector<Operation *> ops = makings[best].ops;
    drop(best, false);
    // What is made now costs others nothing; what is no longer held costs them more.
    for (Value value : values)
      if (auto found = makings.find(value);
          found != makings.end() &&
          (llvm::is_contained(found->second.from, best) || llvm::any_of(ops, [&](Operation *op) {
             return llvm::is_contained(found->second.ops, op);
           })))
        makings.erase(found);
  }
}

} // namespace nano
