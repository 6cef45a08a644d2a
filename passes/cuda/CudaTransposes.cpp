// Transposes for CUDA: which tasks are copies, and which others take more than one kernel.
#include "passes/cuda/CudaTransposes.h"

#include "ir/graph/ProductForm.h"
#include "ir/graph/ShapeOps.h"
#include "passes/cuda/CudaTiles.h"
#include "passes/emit/KernelEmitter.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

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

bool isGatheringCopy(step::TaskOp task) {
  if (!isTransposingCopy(task) || !task.getBody().front().without_terminator().empty())
    return false;
  const auto type = cast<MemRefType>(task.getOuts()[0].getType());
  if (step::elementBytes(type.getElementType()) > 1 || !liesTransposed(type))
    return false;
  FailureOr<RowForm> form = RowForm::of(task);
  return succeeded(form) && CudaTiles::of(task, *form);
}

step::TaskOp copyTask(OpBuilder &b, Location loc, Value from, Value to, uint64_t stream) {
  auto copy = step::TaskOp::create(b, loc, from, to, stream);
  Block *block =
      b.createBlock(&copy.getBody(), {}, step::tensorOf(cast<MemRefType>(from.getType())), loc);
  graph::YieldOp::create(b, loc, block->getArgument(0));
  b.setInsertionPointAfter(copy);
  return copy;
}

/// Ops of the body that `roots` are computed from, without those behind `ends`, in order; and the
/// block's arguments among what they read.
static std::pair<SmallVector<Operation *>, llvm::SetVector<Value>>
opsOf(Block &body, ArrayRef<Value> roots, const llvm::SetVector<Value> &ends) {
  llvm::DenseSet<Operation *> needed;
  llvm::SetVector<Value> arguments;
  SmallVector<Value> pending(roots);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (ends.contains(value))
      continue;
    if (isa<BlockArgument>(value))
      arguments.insert(value);
    else if (needed.insert(value.getDefiningOp()).second)
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    if (needed.contains(&op))
      ops.push_back(&op);
  return {ops, arguments};
}

/// A task that computes `roots` of `task`'s body to `outs`, reading the values `known`, which are
/// not of its operands, from memory.
static step::TaskOp partOf(OpBuilder &b, step::TaskOp task, ArrayRef<Value> roots,
                           ArrayRef<Value> outs, const llvm::SetVector<Value> &known,
                           ArrayRef<Value> knownPlaces) {
  Block &body = task.getBody().front();
  auto [ops, arguments] = opsOf(body, roots, known);
  SmallVector<Value> ins, values;
  for (BlockArgument argument : body.getArguments())
    if (arguments.contains(argument)) {
      ins.push_back(task.getIns()[argument.getArgNumber()]);
      values.push_back(argument);
    }
  llvm::append_range(ins, knownPlaces);
  llvm::append_range(values, known);
  SmallVector<Location> locations;
  for (Value value : values)
    locations.push_back(value.getLoc());
  auto part = step::TaskOp::create(b, task.getLoc(), ins, outs, task.getStream());
  part->setDiscardableAttrs(task->getDiscardableAttrDictionary());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&part.getBody(), {}, ValueRange(values).getTypes(), locations);
  IRMapping mapping;
  mapping.map(values, block->getArguments());
  for (Operation *op : ops)
    b.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value root : roots)
    yielded.push_back(mapping.lookup(root));
  graph::YieldOp::create(b, task.getLoc(), yielded);
  return part;
}

/// One number a row that every element needs: what row reductions come to, or, where that is
/// fewer, what is computed from them.
static llvm::SetVector<Value> rowNumbers(ArrayRef<Value> roots, const RowForm &form) {
  llvm::SetVector<Value> results, last;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending(roots);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (form.isRowReduce(op)) {
      results.insert(value);
      continue;
    }
    for (Value operand : op->getOperands()) {
      bool isOfRow = elementsOf(operand) == form.iterations;
      if (isOfRow && elementsOf(value) != form.iterations && isAfterRowReduce(operand, form))
        last.insert(operand);
      pending.push_back(operand);
    }
  }
  return last.size() < results.size() ? last : results;
}

/// The task as two: its numbers of rows, then its elements; nothing where that is not possible.
static SmallVector<step::TaskOp> splitAtRows(step::TaskOp task, const RowForm &form) {
  Block &body = task.getBody().front();
  if (form.rowReduces.empty() || !form.columnReduces.empty() ||
      !body.getOps<graph::RotateOp>().empty() || !body.getOps<graph::PermuteOp>().empty())
    return {};
  SmallVector<Value> rowRoots, rowOuts, roots, outs;
  for (auto [out, value] : llvm::zip(task.getOuts(), body.getTerminator()->getOperands())) {
    bool isOfRow = elementsOf(value) == form.iterations;
    if (!isOfRow && elementsOf(value) != form.elements())
      return {};
    // The second task reads what the first would have overwritten.
    if (isOfRow &&
        llvm::any_of(task.getIns(), [&, out = out](Value in) { return mayOverlap(in, out); }))
      return {};
    (isOfRow ? rowRoots : roots).push_back(value);
    (isOfRow ? rowOuts : outs).push_back(out);
  }
  llvm::SetVector<Value> numbers = rowNumbers(roots, form);
  OpBuilder b(task);
  SmallVector<Value> places;
  for (Value number : numbers) {
    auto type = cast<RankedTensorType>(number.getType());
    places.push_back(step::BufferOp::create(b, task.getLoc(),
                                            MemRefType::get(type.getShape(), type.getElementType()),
                                            b.getStringAttr("row_numbers"), IntegerAttr()));
    rowRoots.push_back(number);
    rowOuts.push_back(places.back());
  }
  SmallVector<step::TaskOp> parts{partOf(b, task, rowRoots, rowOuts, {}, {}),
                                  partOf(b, task, roots, outs, numbers, places)};
  FailureOr<RowForm> elements = RowForm::of(parts[1]);
  if (succeeded(elements) && CudaTiles::of(parts[1], *elements)) {
    task.erase();
    return parts;
  }
  for (step::TaskOp part : llvm::reverse(parts))
    part.erase();
  for (Value place : places)
    place.getDefiningOp()->erase();
  return {};
}

/// Says that a kernel does nothing but transpose, if what it writes is of 8 bits.
static void remarkTranspose(Location location, Value out, const Twine &why) {
  auto type = cast<MemRefType>(out.getType());
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(type.getElementType()))
    return;
  InFlightDiagnostic remark = emitRemark(location, "a kernel of its own transposes ");
  llvm::interleave(type.getShape(), remark, "×");
  remark << ": " << why;
}

/// The task, writing in rows what lies transposed, and copies behind it. `why`, of the task's
/// kernel: what keeps it from writing both.
static SmallVector<step::TaskOp> separateCopies(step::TaskOp task, StringRef why) {
  OpBuilder b(task);
  Block &body = task.getBody().front();
  SmallVector<Value> keptOuts, keptValues;
  SmallVector<std::pair<Value, Value>> copies; // value of the body, place
  for (auto [out, value] : llvm::zip(task.getOuts(), body.getTerminator()->getOperands())) {
    if (liesTransposed(cast<MemRefType>(out.getType()))) {
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
  for (auto [value, out] : copies) {
    remarkTranspose(value.getLoc(), out, "the kernel that makes its operand " + why);
    tasks.push_back(copyTask(b, separate.getLoc(), places[value], out, separate.getStream()));
  }
  return tasks;
}

/// What lies transposed beside rows, as separateTransposes makes it, of one task.
static FailureOr<SmallVector<step::TaskOp>> separateOutputs(step::TaskOp task) {
  Block &body = task.getBody().front();
  bool isAlone = body.getOperations().size() == 2 && !isa<graph::ReshapeOp>(body.front()) &&
                 body.front().getNumResults() > 1;
  if (isTransposingCopy(task)) {
    remarkTranspose(task.getLoc(), task.getOuts()[0],
                    "its operand was written by rows, for others that read it so");
    return SmallVector<step::TaskOp>{task};
  }
  if (!hasTransposedOutputs(task) || isAlone)
    return SmallVector<step::TaskOp>{task};
  if (nano::productOf(body))
    return SmallVector<step::TaskOp>{task};
  if (body.front().hasTrait<graph::WholeKernelOp>())
    return separateCopies(task, "is one of the device library, which writes rows");
  FailureOr<RowForm> form = RowForm::of(task);
  if (failed(form))
    return failure();
  std::string why;
  if (CudaTiles::of(task, *form, &why))
    return SmallVector<step::TaskOp>{task};
  SmallVector<step::TaskOp> parts = splitAtRows(task, *form);
  if (!parts.empty())
    return parts;
  return separateCopies(task, why);
}

FailureOr<SmallVector<step::TaskOp>> separateTransposes(step::TaskOp task) {
  SmallVector<step::TaskOp> all;
  for (step::TaskOp straight : straightenPermutes(task)) {
    FailureOr<SmallVector<step::TaskOp>> parts = separateOutputs(straight);
    if (failed(parts))
      return failure();
    llvm::append_range(all, *parts);
  }
  return all;
}

} // namespace nano::kernels
