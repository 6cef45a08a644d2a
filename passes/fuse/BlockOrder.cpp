// The order of ops in a block of graph IR.
#include "passes/fuse/BlockOrder.h"

#include "ir/graph/Nano.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <queue>

using namespace mlir;
using namespace nano::graph;

nano::StateOrder nano::stateOrder(Block &block) {
  StateOrder after;
  llvm::StringMap<SmallVector<Operation *>> readers;
  llvm::StringMap<Operation *> writers;
  auto write = [&](Operation *op, StringRef symbol) {
    for (Operation *reader : readers[symbol])
      after[reader].push_back(op);
    readers[symbol].clear();
    if (Operation *writer = writers.lookup(symbol))
      after[writer].push_back(op);
    writers[symbol] = op;
  };
  for (Operation &op : block) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      if (Operation *writer = writers.lookup(load.getSymbol()))
        after[writer].push_back(&op);
      readers[load.getSymbol()].push_back(&op);
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      write(&op, store.getSymbol());
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      write(&op, accumulate.getSymbol());
    }
  }
  return after;
}

LogicalResult nano::sortBlock(Block &block, const StateOrder &after,
                              const llvm::DenseMap<Operation *, int64_t> &key) {
  SmallVector<Operation *> ops(llvm::make_pointer_range(block.without_terminator()));
  llvm::DenseMap<Operation *, int64_t> waiting;
  llvm::DenseMap<Operation *, SmallVector<Operation *>> followers;
  auto addEdge = [&](Operation *from, Operation *to) {
    followers[from].push_back(to);
    ++waiting[to];
  };
  for (Operation *op : ops) {
    llvm::SmallSetVector<Operation *, 8> producers;
    for (Value operand : op->getOperands())
      if (operand.getDefiningOp())
        producers.insert(operand.getDefiningOp());
    for (Operation *producer : producers)
      addEdge(producer, op);
    if (auto it = after.find(op); it != after.end())
      for (Operation *follower : it->second)
        addEdge(op, follower);
  }
  using Entry = std::pair<int64_t, Operation *>;
  auto later = [](const Entry &a, const Entry &b) { return a.first > b.first; };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> ready(later);
  for (Operation *op : ops)
    if (!waiting.lookup(op))
      ready.emplace(key.lookup(op), op);
  Operation *terminator = block.getTerminator();
  size_t placed = 0;
  for (; !ready.empty(); ++placed) {
    Operation *op = ready.top().second;
    ready.pop();
    op->moveBefore(terminator);
    for (Operation *follower : followers[op])
      if (--waiting[follower] == 0)
        ready.emplace(key.lookup(follower), follower);
  }
  if (placed == ops.size())
    return success();
  Operation *stuck = *llvm::find_if(ops, [&](Operation *op) { return waiting.lookup(op) > 0; });
  return stuck->emitError("internal error: ops depend on each other in a circle");
}
