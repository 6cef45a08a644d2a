// Lives of tensors by the numbers of the ops that make and read them.
#include "passes/fuse/TensorLives.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"

#include <algorithm>

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

bool isView(Operation *op) { return isa<ReshapeOp, SliceOp, TransposeOp>(op); }

/// True for what lies in a state, an input or the code.
bool liesElsewhere(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || isa<LoadOp, ConstantOp>(op);
}

} // namespace

Value TensorLives::ownerOf(Value value) const {
  while (true) {
    if (auto whole = wholes.find(value); whole != wholes.end()) {
      value = whole->second;
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!op || !isView(op))
      return value;
    value = op->getOperand(0);
  }
}

TensorLives::TensorLives(Block &block) {
  int64_t now = 0;
  for (Operation &op : block)
    if (auto concat = dyn_cast<ConcatOp>(op))
      for (Value part : concat.getInputs())
        if (const Value owner = ownerOf(part); !liesElsewhere(owner) && owner != concat)
          wholes[owner] = concat;
  for (Operation &op : block) {
    if (!isView(&op))
      for (Value operand : op.getOperands())
        if (auto life = lives.find(ownerOf(operand)); life != lives.end()) {
          life->second.end = now;
          if (isa<StoreOp, ReturnOp>(op))
            life->second.bytes = 0;
        }
    for (Value result : op.getResults())
      if (const Value owner = ownerOf(result); !liesElsewhere(owner)) {
        auto [life, isNew] = lives.try_emplace(owner);
        if (isNew)
          life->second = {now, now, bytesOf(owner)};
      }
    ++now;
  }
  live.assign(now, 0);
  for (const auto &[value, life] : lives)
    for (int64_t time = life.begin; time <= life.end; ++time)
      live[time] += life.bytes;
}

TensorLives::Life TensorLives::of(Value value) const { return lives.lookup(ownerOf(value)); }

int64_t TensorLives::most() const {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

std::pair<TensorLives::Life, std::vector<int64_t>>
TensorLives::joined(ArrayRef<Value> values) const {
  Life whole{int64_t(live.size()), -1, 0};
  for (Value value : values) {
    const Life life = of(value);
    whole.begin = std::min(whole.begin, life.begin);
    whole.end = std::max(whole.end, life.end);
    whole.bytes += life.bytes;
  }
  std::vector<int64_t> more(std::max<int64_t>(whole.end - whole.begin + 1, 0), whole.bytes);
  for (Value value : values) {
    const Life life = of(value);
    for (int64_t time = life.begin; time <= life.end; ++time)
      more[time - whole.begin] -= life.bytes;
  }
  return {whole, more};
}

bool TensorLives::fit(ArrayRef<Value> values, int64_t limit) const {
  const auto [whole, more] = joined(values);
  for (auto [i, bytes] : llvm::enumerate(more))
    if (bytes > 0 && live[whole.begin + int64_t(i)] + bytes > limit)
      return false;
  return true;
}

void TensorLives::join(ArrayRef<Value> values) {
  const auto [whole, more] = joined(values);
  for (auto [i, bytes] : llvm::enumerate(more))
    live[whole.begin + int64_t(i)] += bytes;
  for (Value value : values)
    if (auto life = lives.find(ownerOf(value)); life != lives.end()) {
      life->second.begin = whole.begin;
      life->second.end = whole.end;
    }
}

} // namespace nano
