// Units of an update: which ops mix what, and where ranks meet.
#include "passes/optimizer/UpdateForm.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

UpdateForm::UpdateForm(OptimizerOp op) : optimizer(op) {
  for (Value argument : body().getArguments())
    varying.insert(argument);
  for (Operation &inner : body().without_terminator())
    if (llvm::any_of(inner.getOperands(), [&](Value operand) { return isVarying(operand); }))
      varying.insert(inner.getResult(0));
  findUnits();
  findPlaced();
  findCore();
}

Block &UpdateForm::body() const { return OptimizerOp(optimizer).getBody().front(); }

RankedTensorType UpdateForm::parameterType() const { return tensorType(body().getArgument(0)); }

ValueRange UpdateForm::results() const { return body().getTerminator()->getOperands(); }

//===- Units -------------------------------------------------------------===//

int64_t UpdateForm::axis(Value value, int64_t units) const {
  int64_t before = 1, axis = 0;
  for (int64_t size : tensorType(value).getShape()) {
    if (before == units)
      return axis;
    before *= size;
    ++axis;
  }
  return before == units ? axis : -1;
}

int64_t UpdateForm::unitElementsOf(Value value) const {
  return tensorType(value).getNumElements() / count;
}

RankedTensorType UpdateForm::typeOf(Value value, int64_t units) const {
  SmallVector<int64_t> shape{units};
  const int64_t axis = axisOf(value);
  if (axis < 0)
    shape.push_back(unitElementsOf(value));
  else
    llvm::append_range(shape, tensorType(value).getShape().drop_front(axis));
  return tensorType(value).clone(shape);
}

bool isSplat(Value value) {
  if (tensorType(value).getNumElements() == 1)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ConstantOp>(op))
    return true;
  if (isa<IotaOp>(op))
    return false;
  return (op->hasTrait<ElementwiseOp>() || isa<BroadcastOp, ReshapeOp>(op)) &&
         llvm::all_of(op->getOperands(), isSplat);
}

bool UpdateForm::isInvariant(Value value, int64_t axis) const {
  if (isSplat(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (axis < 0 || !op)
    return false;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return llvm::all_of(broadcast.getDims(), [&](int64_t dim) { return dim >= axis; });
  if (auto iota = dyn_cast<IotaOp>(op))
    return static_cast<int64_t>(iota.getDim()) >= axis;
  return op->hasTrait<ElementwiseOp>() &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isInvariant(operand, axis); });
}

bool UpdateForm::repeatsInside(BroadcastOp op, int64_t units) const {
  const int64_t from = axis(op.getX(), units), to = axis(op, units);
  if (from < 0 || from != to)
    return false;
  for (auto [position, dim] : llvm::enumerate(op.getDims())) {
    const auto place = static_cast<int64_t>(position);
    if (place < from ? dim != place : dim < to)
      return false;
  }
  return true;
}

/// What a rank can be given of numbers that are written for a whole parameter: it is cut as f32 or
/// bf16.
static bool isSource(Operation *op) {
  if (auto iota = dyn_cast<IotaOp>(op))
    return tensorType(iota).getDimSize(static_cast<int64_t>(iota.getDim())) <= int64_t(1) << 24;
  return isa<FloatType>(tensorType(op->getResult(0)).getElementType()) &&
         !op->hasTrait<ElementwiseOp>() && !isa<BroadcastOp, ReshapeOp>(op);
}

bool UpdateForm::canPlace(Value value, int64_t units) const {
  Operation *op = value.getDefiningOp();
  if (!op || tensorType(value).getNumElements() % units != 0)
    return false;
  const int64_t to = axis(value, units);
  if (op->hasTrait<ElementwiseOp>() && !isa<IotaOp>(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isInvariant(operand, to) || canPlace(operand, units);
    });
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return repeatsInside(broadcast, units) && canPlace(broadcast.getX(), units);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return canPlace(reshape.getX(), units);
  return isSource(op);
}

bool UpdateForm::isLocal(Operation &op, int64_t units) const {
  const Value result = op.getResult(0);
  const int64_t to = axis(result, units);
  auto divides = [&](Value value) { return tensorType(value).getNumElements() % units == 0; };
  if (!divides(result) || llvm::any_of(op.getOperands(), [&](Value operand) {
        return isVarying(operand) && !divides(operand);
      }))
    return false;
  if (op.hasTrait<ElementwiseOp>())
    return llvm::all_of(op.getOperands(), [&](Value operand) {
      return isVarying(operand) || isInvariant(operand, to) || canPlace(operand, units);
    });
  if (isa<ReshapeOp>(op))
    return true;
  // All others work along dimensions, and on varying tensors alone.
  if (to < 0 || llvm::any_of(
                    op.getOperands(),
                    [&](Value operand) { return !isVarying(operand) || axis(operand, units) < 0; }))
    return false;
  const int64_t from = axis(op.getOperand(0), units);
  auto isInside = [&](ArrayRef<int64_t> dims) {
    return llvm::all_of(dims, [&](int64_t dim) { return dim >= from; });
  };
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return repeatsInside(broadcast, units);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return isInside(reduce.getDims());
  if (auto slice = dyn_cast<SliceOp>(op))
    return isInside(static_cast<int64_t>(slice.getDim()));
  if (auto concat = dyn_cast<ConcatOp>(op))
    return isInside(static_cast<int64_t>(concat.getDim())) &&
           llvm::all_of(op.getOperands(),
                        [&](Value operand) { return axis(operand, units) == to; });
  if (isa<RotateOp>(op))
    return from < tensorType(result).getRank();
  if (isa<MatmulOp, TransposeOp>(op))
    return llvm::all_of(op.getOperands(),
                        [&](Value operand) {
                          return axis(operand, units) <= tensorType(operand).getRank() - 2;
                        }) &&
           to <= tensorType(result).getRank() - 2;
  return false;
}

Operation *UpdateForm::firstAcross(int64_t units) const {
  for (Operation &op : body().without_terminator())
    if (isVarying(op.getResult(0)) && !isLocal(op, units))
      return &op;
  for (Value value : results())
    if (tensorType(value).getNumElements() % units != 0 ||
        (!isVarying(value) && !isSplat(value) && !canPlace(value, units)))
      return body().getTerminator();
  for (Value value : body().getArguments())
    if (tensorType(value).getNumElements() % units != 0)
      return body().getTerminator();
  return nullptr;
}

void UpdateForm::findUnits() {
  llvm::SmallVector<int64_t> candidates;
  auto add = [&](Value value) {
    int64_t units = 1;
    for (int64_t size : tensorType(value).getShape()) {
      units *= size;
      if (parameterType().getNumElements() % units == 0 && !llvm::is_contained(candidates, units))
        candidates.push_back(units);
    }
  };
  for (Value value : varying)
    add(value);
  llvm::sort(candidates, std::greater<>());
  for (int64_t units : candidates) {
    if (Operation *across = firstAcross(units)) {
      limiting = across;
      continue;
    }
    count = units;
    break;
  }
  stackable = firstAcross(count) == nullptr;
}

/// Marks a value as placed, and what it is made of for each unit.
void UpdateForm::place(Value value) {
  if (!placed.insert(value).second)
    return;
  Operation *op = value.getDefiningOp();
  if (!op->hasTrait<ElementwiseOp>() && !isa<BroadcastOp, ReshapeOp>(op))
    return;
  const int64_t to = axisOf(value);
  for (Value operand : op->getOperands())
    if (!op->hasTrait<ElementwiseOp>() || !isInvariant(operand, to))
      place(operand);
}

void UpdateForm::findPlaced() {
  if (!stackable)
    return;
  for (Operation &op : body().without_terminator())
    if (varying.contains(op.getResult(0)) && op.hasTrait<ElementwiseOp>())
      for (Value operand : op.getOperands())
        if (!varying.contains(operand) && !isInvariant(operand, axisOf(op.getResult(0))))
          place(operand);
  for (Value value : results())
    if (!varying.contains(value) && !isSplat(value))
      place(value);
  for (Operation &op : body().without_terminator())
    if (isPlaced(op.getResult(0)) && isSource(&op))
      sources.push_back(&op);
}

std::string UpdateForm::unitName() const {
  const int64_t elements = unitElements();
  if (elements == parameterType().getNumElements() && elements > 1 && !hasProducts())
    return "parameter";
  if (elements == 1)
    return "element";
  if (!hasProducts() && parameterType().getRank() > 0 &&
      elements == parameterType().getShape().back())
    return "row";
  return "matrix";
}

bool UpdateForm::canCut(StringRef cut) const {
  ArrayRef<int64_t> shape = parameterType().getShape();
  if (cut == "whole" || cut.empty())
    return true;
  int64_t elements = 1;
  if (cut == "rows" && !shape.empty())
    elements = shape.back();
  if (cut == "matrices")
    elements = ShapedType::getNumElements(shape.take_back(2));
  return elements % unitElements() == 0;
}

//===- Products ----------------------------------------------------------===//

void UpdateForm::findCore() {
  for (Operation &op : body().without_terminator()) {
    const bool isProduct = isa<MatmulOp>(op) && varying.contains(op.getResult(0));
    if (isProduct || llvm::any_of(op.getOperands(),
                                  [&](Value operand) { return afterProducts.contains(operand); }))
      afterProducts.insert(op.getResult(0));
  }
  DenseSet<Operation *> needed; // by a product
  for (Operation &op : llvm::reverse(body().without_terminator())) {
    const bool isProduct = isa<MatmulOp>(op) && varying.contains(op.getResult(0));
    if (isProduct ||
        llvm::any_of(op.getUsers(), [&](Operation *user) { return needed.contains(user); }))
      needed.insert(&op);
  }
  for (Operation &op : body().without_terminator())
    if (needed.contains(&op) && afterProducts.contains(op.getResult(0)))
      coreOps.push_back(&op);
  auto isCore = [&](Operation *op) { return op && llvm::is_contained(coreOps, op); };
  for (Operation *op : coreOps) {
    for (Value operand : op->getOperands())
      if (isVarying(operand) && !isCore(operand.getDefiningOp()) &&
          !llvm::is_contained(inputs, operand))
        inputs.push_back(operand);
    if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !isCore(user); }))
      outputs.push_back(op->getResult(0));
  }
}

//===- Where ranks meet --------------------------------------------------===//

/// The values that `targets` are computed from, and themselves, but for what `stops` computes.
static DenseSet<Value> neededFor(ValueRange targets, Value stop = {}) {
  DenseSet<Value> found;
  SmallVector<Value> open(targets.begin(), targets.end());
  while (!open.empty()) {
    const Value value = open.pop_back_val();
    if (!found.insert(value).second || value == stop)
      continue;
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(open, op->getOperands());
  }
  return found;
}

SmallVector<Operation *> UpdateForm::computedApart(Value gathered) const {
  SmallVector<Value> targets{gathered};
  llvm::append_range(targets, results().drop_front());
  const DenseSet<Value> needed = neededFor(targets);
  SmallVector<Operation *> ops;
  for (Operation &op : body().without_terminator())
    if (needed.contains(op.getResult(0)))
      ops.push_back(&op);
  return ops;
}

bool UpdateForm::readParameter(ArrayRef<Operation *> ops) const {
  const Value parameter = body().getArgument(0);
  return llvm::any_of(
      ops, [&](Operation *op) { return llvm::is_contained(op->getOperands(), parameter); });
}

Value UpdateForm::gathered(bool apart) const {
  const Value result = results().front();
  auto bytesOf = [&](Value value) {
    return tensorType(value).getNumElements() * tensorType(value).getElementTypeBitWidth();
  };
  auto readsParameter = [&](Value value) {
    return apart && neededFor(value).contains(body().getArgument(0));
  };
  Value best = result;
  for (Operation &op : body().without_terminator()) {
    const Value value = op.getResult(0);
    if (!varying.contains(value) || value == result)
      continue;
    // All that is varying in what follows comes through this value or is the parameter.
    const DenseSet<Value> later = neededFor(result, value);
    if (!later.contains(value) || llvm::any_of(later, [&](Value one) {
          if (one == value || one == body().getArgument(0))
            return false;
          return isa<BlockArgument>(one) ||
                 (varying.contains(one) && isa<MatmulOp>(one.getDefiningOp()));
        }))
      continue;
    if (std::pair(bytesOf(value), readsParameter(value)) <
        std::pair(bytesOf(best), readsParameter(best)))
      best = value;
  }
  return best;
}

//===- Equal computations ------------------------------------------------===//

namespace {

class Comparison {
public:
  Comparison(const UpdateForm &a, const UpdateForm &b) : a(a), b(b) {}

  bool run(ArrayRef<Operation *> opsA, ArrayRef<Operation *> opsB) {
    if (opsA.size() != opsB.size())
      return false;
    for (auto [x, y] : llvm::zip_equal(opsA, opsB)) {
      if (!areAlike(x, y))
        return false;
      known[x->getResult(0)] = y->getResult(0);
    }
    return true;
  }

private:
  bool areAlike(Operation *x, Operation *y) {
    const Value resultA = x->getResult(0), resultB = y->getResult(0);
    if (x->getName() != y->getName() || x->getNumOperands() != y->getNumOperands() ||
        a.isVarying(resultA) != b.isVarying(resultB))
      return false;
    if (a.isVarying(resultA) ? a.typeOf(resultA, 1) != b.typeOf(resultB, 1)
                             : !haveSameElement(resultA, resultB))
      return false;
    if (attributes(a, x) != attributes(b, y))
      return false;
    return llvm::all_of(llvm::zip_equal(x->getOperands(), y->getOperands()),
                        [&](auto pair) { return areEqual(std::get<0>(pair), std::get<1>(pair)); });
  }

  bool areEqual(Value x, Value y) {
    if (auto found = known.find(x); found != known.end())
      return found->second == y;
    if (a.isVarying(x) != b.isVarying(y))
      return false;
    if (a.isVarying(x)) { // from outside: the same outside for every use
      auto first = dyn_cast<BlockArgument>(x), second = dyn_cast<BlockArgument>(y);
      if (bool(first) != bool(second) || (first && first.getArgNumber() != second.getArgNumber()) ||
          a.typeOf(x, 1) != b.typeOf(y, 1))
        return false;
      known[x] = y;
      return true;
    }
    if (!x.getDefiningOp() || !y.getDefiningOp())
      return false;
    if (!areAlike(x.getDefiningOp(), y.getDefiningOp()))
      return false;
    known[x] = y;
    return true;
  }

  static bool haveSameElement(Value x, Value y) {
    return tensorType(x).getElementType() == tensorType(y).getElementType() &&
           (isSplat(x) ? isSplat(y) : x.getType() == y.getType());
  }

  /// Dimensions counted from a unit's first.
  static SmallVector<int64_t> inside(ArrayRef<int64_t> dims, int64_t axis) {
    SmallVector<int64_t> result;
    for (int64_t dim : dims)
      if (dim >= axis)
        result.push_back(dim - axis);
    return result;
  }

  static Attribute attributes(const UpdateForm &form, Operation *op) {
    Builder builder(op->getContext());
    auto numbers = [&](ArrayRef<int64_t> dims) -> Attribute {
      return builder.getDenseI64ArrayAttr(dims);
    };
    const Value result = op->getResult(0);
    const bool varies = form.isVarying(result);
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      if (!varies && isSplat(result))
        return numbers({});
      return numbers(inside(broadcast.getDims(), varies ? form.axisOf(result) : 0));
    }
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && varies)
      return builder.getArrayAttr(
          {numbers(inside(reduce.getDims(), form.axisOf(reduce.getX()))),
           builder.getI64IntegerAttr(static_cast<int64_t>(reduce.getCombiner()))});
    if (auto slice = dyn_cast<SliceOp>(op); slice && varies)
      return numbers({static_cast<int64_t>(slice.getDim()) - form.axisOf(slice.getX()),
                      static_cast<int64_t>(slice.getStart())});
    if (auto concat = dyn_cast<ConcatOp>(op); concat && varies)
      return numbers({static_cast<int64_t>(concat.getDim()) - form.axisOf(result)});
    return op->getAttrDictionary();
  }

  const UpdateForm &a, &b;
  DenseMap<Value, Value> known;
};

} // namespace

bool areAlike(const UpdateForm &a, ArrayRef<Operation *> opsA, const UpdateForm &b,
              ArrayRef<Operation *> opsB) {
  return a.isStackable() && b.isStackable() && Comparison(a, b).run(opsA, opsB);
}

} // namespace nano
