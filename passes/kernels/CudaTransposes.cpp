// Transposed copies for CUDA: which tasks are one, and how others are rid of them.
#include "passes/kernels/CudaTransposes.h"

#include "passes/kernels/KernelEmitter.h"

using namespace mlir;

namespace nano::kernels {

/// The columns are contiguous: stride 1 before the last dimension, more in it.
static bool liesTransposed(MemRefType type) {
  if (type.getRank() < 2 || type.getRank() > 3)
    return false;
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t last = type.getRank() - 1;
  return type.getDimSize(last) > 1 && type.getDimSize(last - 1) > 1 && strides[last] > 1 &&
         strides[last - 1] == 1;
}

static bool liesInRows(MemRefType type) {
  return type.getRank() >= 2 && type.getRank() <= 3 && stridesOf(type).back() == 1;
}

bool isTransposingCopy(step::TaskOp task) {
  Block &body = task.getBody().front();
  if (task.getIns().size() != 1 || task.getOuts().size() != 1)
    return false;
  for (Operation &op : body.without_terminator())
    if (!isa<graph::ReshapeOp>(op))
      return false;
  auto in = cast<MemRefType>(task.getIns()[0].getType()),
       out = cast<MemRefType>(task.getOuts()[0].getType());
  return in.getShape() == out.getShape() && !mayOverlap(task.getIns()[0], task.getOuts()[0]) &&
         ((liesTransposed(in) && liesInRows(out)) || (liesInRows(in) && liesTransposed(out)));
}

/// A task behind `after` that copies.
static step::TaskOp copyTask(OpBuilder &b, step::TaskOp after, Value from, Value to) {
  auto copy = step::TaskOp::create(b, after.getLoc(), from, to, after.getStream());
  Block *block = b.createBlock(&copy.getBody(), {},
                               step::tensorOf(cast<MemRefType>(from.getType())), after.getLoc());
  graph::YieldOp::create(b, after.getLoc(), block->getArgument(0));
  b.setInsertionPointAfter(copy);
  return copy;
}

SmallVector<step::TaskOp> separateTransposes(step::TaskOp task) {
  SmallVector<Value> outs(task.getOuts());
  auto isSeparate = [&](Value out) { return liesTransposed(cast<MemRefType>(out.getType())); };
  Block &body = task.getBody().front();
  bool isAlone = body.getOperations().size() == 2 && !isa<graph::ReshapeOp>(body.front()) &&
                 body.front().getNumResults() > 1;
  if (llvm::none_of(outs, isSeparate) || isTransposingCopy(task) || isAlone)
    return {task};

  OpBuilder b(task);
  Operation *yield = body.getTerminator();
  SmallVector<Value> keptOuts, keptValues;
  SmallVector<std::pair<Value, Value>> copies; // value of the body, place
  for (auto [out, value] : llvm::zip(outs, yield->getOperands())) {
    if (isSeparate(out)) {
      copies.push_back({value, out});
    } else {
      keptOuts.push_back(out);
      keptValues.push_back(value);
    }
  }
  llvm::DenseMap<Value, Value> places; // of values of the body, in rows
  for (auto [out, value] : llvm::zip(keptOuts, keptValues))
    if (cast<MemRefType>(out.getType()).getShape() ==
            cast<ShapedType>(value.getType()).getShape() &&
        liesInRows(cast<MemRefType>(out.getType())))
      places.try_emplace(value, out);
  for (auto [value, out] : copies) {
    if (places.contains(value))
      continue;
    auto type = cast<MemRefType>(out.getType());
    Value buffer = step::BufferOp::create(b, task.getLoc(),
                                          MemRefType::get(type.getShape(), type.getElementType()),
                                          b.getStringAttr("rows"), IntegerAttr());
    places[value] = buffer;
    keptOuts.push_back(buffer);
    keptValues.push_back(value);
  }
  auto separate = step::TaskOp::create(b, task.getLoc(), task.getIns(), keptOuts, task.getStream());
  separate->setDiscardableAttrs(task->getDiscardableAttrDictionary());
  separate.getBody().takeBody(task.getBody());
  separate.getBody().front().getTerminator()->setOperands(keptValues);
  task.erase();
  SmallVector<step::TaskOp> tasks{separate};
  b.setInsertionPointAfter(separate);
  for (auto [value, out] : copies)
    tasks.push_back(copyTask(b, separate, places[value], out));
  return tasks;
}

} // namespace nano::kernels
