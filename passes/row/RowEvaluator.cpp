// Evaluation of a task's tensors at positions; see the header for the idea.
#include "passes/row/RowEvaluator.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/row/RowForm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nano::kernels {

using Kind = Coordinate::Kind;

RowEvaluator::RowEvaluator(KernelFrame &frame) : RowPositions(frame), frame(frame) {
  v.usesLibrary = frame.options.onGpu;
}

//===- Memory -------------------------------------------------------------===//

bool RowEvaluator::isOverwritten(unsigned input) const {
  Value in = frame.task.getIns()[input];
  return llvm::any_of(frame.task.getOuts(), [&](Value out) { return mayOverlap(in, out); });
}

Computed RowEvaluator::loadArgument(Value argument, MemRefType type, Position position,
                                    unsigned from) {
  Address address = addressOf(type, std::move(position));
  address.depth = std::max(address.depth, from);
  if (mask && address.kind != Address::Kind::Scalar)
    address.depth = std::max(address.depth, depthOf(mask));
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(address.depth);
  Value flat = frame.flat(argument);
  if (address.kind == Address::Kind::Scalar)
    return {v.loadScalar(flat, address.base.value), address.depth};
  if (address.kind == Address::Kind::Contiguous)
    return {v.load(flat, address.base.value, mask), address.depth};
  if (address.kind == Address::Kind::Repeated && !mask)
    return {v.loadRepeated(flat, address.base.value, address.repeats), address.depth};
  return {v.gather(flat, address.base.value, address.offsets, mask), address.depth};
}

Index RowEvaluator::firstOf(unsigned i, Position position) {
  llvm::erase_if(position, [](const Digit &digit) { return digit.size == 1; });
  const auto type = cast<MemRefType>(frame.task.getIns()[i].getType());
  return addressOf(type, std::move(position)).base;
}

void RowEvaluator::storeOutput(unsigned i, Value value, Position position) {
  if (auto it = tiles.find(i); it != tiles.end())
    return v.store(v.splat(value), it->second.memory, it->second.at, mask);
  auto type = cast<MemRefType>(frame.task.getOuts()[i].getType());
  Address address = addressOf(type, std::move(position));
  Value flat = frame.flat(frame.output(i));
  if (address.kind == Address::Kind::Scalar)
    v.store(value, flat, address.base.value);
  else if (address.kind == Address::Kind::Contiguous)
    v.store(v.splat(value), flat, address.base.value, mask);
  else
    v.scatter(value, flat, address.base.value, address.offsets, mask);
}

std::optional<Computed> RowEvaluator::fromStaged(Value value, Position &position) {
  auto it = staged.find(value);
  if (it == staged.end())
    return std::nullopt;
  size_t at = splitAt(position, it->second.elements);
  if (merge(ArrayRef(position).take_front(at)).at.value != it->second.row)
    return std::nullopt;
  Coordinate column = merge(ArrayRef(position).drop_front(at));
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(depth());
  Value memory = it->second.memory;
  if (column.kind == Kind::Uniform)
    return Computed{v.loadScalar(memory, column.at.value), depth()};
  if (column.kind == Kind::Lanes)
    return Computed{v.load(memory, column.at.value, mask), depth()};
  return Computed{v.gather(memory, v.index(0), column.at.value, mask), depth()};
}

std::optional<Computed> RowEvaluator::fromHeld(Value value, Position &position) {
  auto it = held.find(value);
  if (it == held.end() || !own.column)
    return std::nullopt;
  size_t at = splitAt(position, own.elements);
  Coordinate column = merge(ArrayRef(position).drop_front(at));
  if (column.kind != Kind::Lanes || column.at.value != own.column ||
      merge(ArrayRef(position).take_front(at)).at.value != own.row)
    return std::nullopt;
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(depth());
  return Computed{v.loadScalar(it->second, own.slot), depth()};
}

//===- Values -------------------------------------------------------------===//

namespace {
/// Where kernels become text for readers, values are called after the graph op that they are.
class Named {
public:
  Named(VectorOps &v, Operation *op) : v(v), before(v.loc) {
    if (v.usesLibrary)
      v.loc = NameLoc::get(StringAttr::get(op->getContext(), op->getName().stripDialect()));
  }
  ~Named() { v.loc = before; }

private:
  VectorOps &v;
  Location before;
};
} // namespace

RowEvaluator::Key RowEvaluator::keyOf(Value value, const Position &position) const {
  Key key{word(value), word(mask), reinterpret_cast<uintptr_t>(secondOf.getAsOpaquePointer())};
  for (const Digit &digit : position) {
    key.push_back(digit.size * 4 + static_cast<int>(digit.coordinate.kind));
    key.push_back(word(digit.coordinate.at.value));
  }
  return key;
}

bool RowEvaluator::isUniform(Value value) {
  if (elementsOf(value) == 1)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || isa<graph::IotaOp, graph::GatherOp, graph::ReduceOp>(op))
    return false;
  auto [it, isNew] = uniforms.try_emplace(value, false);
  if (!isNew)
    return it->second;
  bool is = llvm::all_of(op->getOperands(), [&](Value operand) { return isUniform(operand); });
  return uniforms[value] = is;
}

FailureOr<Computed> RowEvaluator::evaluate(Value value, Position position) {
  llvm::erase_if(position, [](const Digit &digit) { return digit.size == 1; });
  if (isUniform(value))
    position.clear();
  Key key = keyOf(value, position);
  for (Scope &scope : scopes)
    if (auto it = scope.values.find(key); it != scope.values.end())
      return it->second;
  FailureOr<Computed> computed = compute(value, position);
  if (succeeded(computed))
    scopes[computed->depth].values[key] = *computed;
  return computed;
}

FailureOr<SmallVector<Value>> RowEvaluator::evaluateAll(ArrayRef<Value> values,
                                                        const Position &position) {
  SmallVector<Value> all;
  for (Value value : values) {
    FailureOr<Computed> computed = evaluate(value, position);
    if (failed(computed))
      return failure();
    all.push_back(computed->value);
  }
  return all;
}

void RowEvaluator::define(Value value, Position position, Value computed) {
  llvm::erase_if(position, [](const Digit &digit) { return digit.size == 1; });
  scopes.back().values[keyOf(value, position)] = {computed, depth()};
}

Position RowEvaluator::broadcastOperand(graph::BroadcastOp op, Position position) {
  int64_t from = elementsOf(op.getX());
  if (from == 1)
    return {};
  if (from == elementsOf(op.getResult()))
    return position;
  ArrayRef<int64_t> shape = op.getType().getShape(),
                    sizes = cast<ShapedType>(op.getX().getType()).getShape();
  Position kept;
  int64_t behind = elementsOf(op.getResult());
  for (auto [dim, size] : llvm::enumerate(shape)) {
    const auto *it = llvm::find(op.getDims(), static_cast<int64_t>(dim));
    bool isKept = it != op.getDims().end() && sizes[it - op.getDims().begin()] != 1;
    size_t begin = splitAt(position, behind);
    behind /= size;
    size_t end = splitAt(position, behind);
    begin = splitAt(position, behind * size);
    if (isKept)
      kept.append(position.begin() + begin, position.begin() + end);
  }
  return kept;
}

/// True where all that a vector's lanes are rotated to are lanes of it.
bool RowEvaluator::rotatesLanes(graph::RotateOp op, const Position &position) const {
  const int64_t size = op.getType().getShape().back();
  return v.lanes % size == 0 && !position.empty() &&
         position.back().coordinate.kind == Kind::Lanes && position.back().coordinate.aligned &&
         (position.size() == 1 || position.back().size % size == 0);
}

/// The vector itself where the rotation is within it; whole vectors of the operand where it is by
/// whole vectors; else two of them, of whose lanes the result's are neighbours, if vectors begin at
/// multiples of their lanes.
SmallVector<Position, 2> RowEvaluator::rotatedOperand(graph::RotateOp op, Position position) {
  if (rotatesLanes(op, position))
    return {position};
  const int64_t size = op.getType().getShape().back(), shift = op.getShift(),
                apart = shift % v.lanes;
  const size_t at = splitAt(position, size);
  const Coordinate column = merge(ArrayRef(position).drop_front(at));
  const bool areTwo =
      apart != 0 && size % v.lanes == 0 && column.kind == Coordinate::Kind::Lanes && column.aligned;
  position.truncate(at);
  SmallVector<Position, 2> places;
  for (int64_t part = 0; part < 1 + areTwo; ++part) {
    const int64_t by = areTwo ? (shift - apart + part * v.lanes) % size : shift;
    places.push_back(position);
    places.back().push_back({size, rotated(column, by, size)});
  }
  return places;
}

FailureOr<Computed> RowEvaluator::rotate(graph::RotateOp op, Position position) {
  if (rotatesLanes(op, position)) {
    FailureOr<Computed> all = evaluate(op.getX(), position);
    if (failed(all) || !VectorOps::isVector(all->value))
      return all;
    OpBuilder::InsertionGuard guard(v.b);
    moveTo(all->depth);
    return Computed{v.rotateLanes(all->value, op.getType().getShape().back(), op.getShift()),
                    all->depth};
  }
  SmallVector<Computed, 2> parts;
  for (Position &place : rotatedOperand(op, std::move(position))) {
    FailureOr<Computed> part = evaluate(op.getX(), std::move(place));
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  if (parts.size() == 1 || !VectorOps::isVector(parts[0].value))
    return parts[0];
  const unsigned depth = std::max(parts[0].depth, parts[1].depth);
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(depth);
  const int64_t first = op.getShift() % v.lanes;
  const auto lanes = llvm::to_vector(llvm::seq<int64_t>(first, first + v.lanes));
  return Computed{
      vector::ShuffleOp::create(v.b, v.loc, parts[0].value, parts[1].value, lanes).getResult(),
      depth};
}

Position RowEvaluator::permutedOperand(graph::PermuteOp op, Position position) {
  SmallVector<Position, 4> dims;
  int64_t behind = elementsOf(op.getResult());
  for (int64_t size : op.getType().getShape()) {
    size_t begin = splitAt(position, behind);
    behind /= size;
    size_t end = splitAt(position, behind);
    begin = splitAt(position, behind * size);
    dims.emplace_back(position.begin() + begin, position.begin() + end);
  }
  SmallVector<size_t> placeOf(dims.size());
  for (auto [place, dim] : llvm::enumerate(op.getOrder()))
    placeOf[dim] = place;
  Position operand;
  for (size_t place : placeOf)
    operand.append(dims[place]);
  return operand;
}

LogicalResult RowEvaluator::loadOperands(Value value, Position position,
                                         llvm::DenseSet<Value> &seen) {
  Operation *op = value.getDefiningOp();
  if (staged.contains(value) || stored.contains(value))
    return success();
  if (!op || isa<graph::GatherOp, graph::PermuteOp>(op))
    return success(succeeded(evaluate(value, std::move(position))));
  // A value at other columns is another one.
  bool isMoved = isa<graph::RotateOp>(op);
  if (isa<graph::ReduceOp>(op) || (!isMoved && !seen.insert(value).second))
    return success();
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
    return loadOperands(broadcast.getX(), broadcastOperand(broadcast, std::move(position)), seen);
  if (auto rotate = dyn_cast<graph::RotateOp>(op)) {
    for (Position &place : rotatedOperand(rotate, std::move(position))) {
      llvm::DenseSet<Value> there;
      if (failed(loadOperands(rotate.getX(), std::move(place), there)))
        return failure();
    }
    return success();
  }
  for (Value operand : op->getOperands())
    if (failed(loadOperands(operand, position, seen)))
      return failure();
  return success();
}

Computed RowEvaluator::iota(graph::IotaOp op, Position position) {
  int64_t behind = 1;
  ArrayRef<int64_t> shape = op.getType().getShape();
  for (int64_t size : shape.drop_front(op.getDim() + 1))
    behind *= size;
  splitAt(position, behind);
  size_t begin = splitAt(position, behind * shape[op.getDim()]), end = splitAt(position, behind);
  Coordinate coordinate = merge(ArrayRef(position).slice(begin, end - begin));
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(coordinate.at.depth);
  Type element = op.getType().getElementType(), i32 = v.b.getI32Type();
  Value number = arith::IndexCastOp::create(
      v.b, v.loc, coordinate.kind == Kind::Vector ? Type(v.vectorOf(i32)) : i32,
      coordinate.at.value);
  // Numbers up to 2^24 are exact in f32, so that one conversion serves all lanes.
  Type f32 = v.b.getF32Type();
  if (coordinate.kind == Kind::Lanes && !element.isInteger(32) &&
      shape[op.getDim()] <= int64_t(1) << 24) {
    Value lanes = arith::SIToFPOp::create(v.b, v.loc, v.vectorOf(f32), v.laneNumbers());
    number = v.addf(arith::SIToFPOp::create(v.b, v.loc, f32, number), lanes);
    return {v.roundTo(element, number), coordinate.at.depth};
  }
  if (coordinate.kind == Kind::Lanes)
    number = v.addi(number, v.laneNumbers());
  if (!element.isInteger(32)) {
    number = arith::SIToFPOp::create(
        v.b, v.loc, VectorOps::isVector(number) ? Type(v.vectorOf(f32)) : f32, number);
  }
  return {v.roundTo(element, number), coordinate.at.depth};
}

FailureOr<Computed> RowEvaluator::gathered(graph::GatherOp op, Position position) {
  int64_t columns = op.getType().getShape().back();
  size_t at = splitAt(position, columns);
  FailureOr<Computed> id = evaluate(op.getIds(), Position(position.begin(), position.begin() + at));
  if (failed(id))
    return failure();
  Coordinate row;
  {
    OpBuilder::InsertionGuard guard(v.b);
    moveTo(id->depth);
    bool isVector = VectorOps::isVector(id->value);
    Type index = v.b.getIndexType();
    Value cast = arith::IndexCastOp::create(v.b, v.loc, isVector ? Type(v.vectorOf(index)) : index,
                                            id->value);
    row = {isVector ? Kind::Vector : Kind::Uniform, {cast, id->depth}, false};
  }
  Position place{{cast<ShapedType>(op.getTable().getType()).getShape().front(), row}};
  place.append(position.begin() + at, position.end());
  return evaluate(op.getTable(), place);
}

/// a·b ± c and c − a·b in f32 with one rounding, when nothing else needs the product. Decided by
/// the graph alone, so that every copy of the loop's body rounds alike.
FailureOr<Computed> RowEvaluator::contracted(Operation *op, const Position &position) {
  if (!isa<graph::AddOp, graph::SubOp>(op) ||
      !getElementTypeOrSelf(op->getResult(0).getType()).isF32())
    return Computed{};
  auto productOf = [](Value value) {
    auto mul = value.getDefiningOp<graph::MulOp>();
    return mul && mul->hasOneUse() ? mul : graph::MulOp();
  };
  graph::MulOp product = productOf(op->getOperand(0));
  Value other = op->getOperand(1);
  bool productFirst = static_cast<bool>(product);
  if (!product) {
    product = productOf(op->getOperand(1));
    other = op->getOperand(0);
  }
  if (!product)
    return Computed{};
  FailureOr<Computed> a = evaluate(product.getLhs(), position),
                      b = evaluate(product.getRhs(), position), c = evaluate(other, position);
  if (failed(a) || failed(b) || failed(c))
    return failure();
  unsigned depth = std::max({a->depth, b->depth, c->depth});
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(depth);
  Named name(v, op);
  bool subtracts = isa<graph::SubOp>(op);
  Value x = subtracts && !productFirst ? v.negf(a->value) : a->value;
  Value z = subtracts && productFirst ? v.negf(c->value) : c->value;
  return Computed{v.fma(x, b->value, z), depth};
}

FailureOr<Computed> RowEvaluator::elementwise(Operation *op, const Position &position) {
  FailureOr<Computed> fused = contracted(op, position);
  if (failed(fused) || fused->value)
    return fused;
  SmallVector<Value> operands;
  unsigned depth = 0;
  for (Value operand : op->getOperands()) {
    FailureOr<Computed> computed = evaluate(operand, position);
    if (failed(computed))
      return failure();
    operands.push_back(computed->value);
    depth = std::max(depth, computed->depth);
  }
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(depth);
  Named name(v, op);
  FailureOr<Value> result = v.elementwise(op, operands);
  if (failed(result))
    return failure();
  return Computed{*result, depth};
}

bool RowEvaluator::takesFirst(graph::SelectOp select) const {
  auto column = select.getLhs().getDefiningOp<graph::IotaOp>();
  auto limit = select.getRhs().getDefiningOp<graph::ConstantOp>();
  if (columnsBelow == 0 || !column || !limit || select.getPredicate() != graph::Predicate::lt)
    return false;
  const ArrayRef<int64_t> shape = column.getType().getShape();
  return int64_t(column.getDim()) + 1 == int64_t(shape.size()) && shape.back() == columns &&
         limit.getValue().convertToDouble() >= double(columnsBelow);
}

FailureOr<Computed> RowEvaluator::compute(Value value, Position &position) {
  if (auto it = rowScalars.find(value); it != rowScalars.end()) {
    if (merge(position).at.value == it->second.row)
      return it->second.computed;
    return value.getDefiningOp()->emitOpError(
        "is needed for other rows than the one at hand; it must be a kernel of its own");
  }
  if (std::optional<Computed> computed = fromHeld(value, position))
    return *computed;
  if (std::optional<Computed> computed = fromStaged(value, position))
    return *computed;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned i = argument.getArgNumber();
    return loadArgument(frame.input(i), cast<MemRefType>(frame.task.getIns()[i].getType()),
                        position, isOverwritten(i) ? overwrittenFrom : 0);
  }
  if (auto it = stored.find(value); it != stored.end())
    return loadArgument(frame.output(it->second),
                        cast<MemRefType>(frame.task.getOuts()[it->second].getType()), position);

  Operation *op = value.getDefiningOp();
  return llvm::TypeSwitch<Operation *, FailureOr<Computed>>(op)
      .Case([&](graph::ReshapeOp reshape) { return evaluate(reshape.getX(), position); })
      .Case([&](graph::BroadcastOp broadcast) {
        return evaluate(broadcast.getX(), broadcastOperand(broadcast, position));
      })
      .Case([&](graph::RotateOp rotate) { return this->rotate(rotate, position); })
      .Case([&](graph::PermuteOp permute) {
        return evaluate(permute.getX(), permutedOperand(permute, position));
      })
      .Case([&](graph::ReduceOp reduce) -> FailureOr<Computed> {
        if (elementsOf(reduce.getX()) == elementsOf(reduce.getResult()))
          return evaluate(reduce.getX(), position);
        return reduce.emitOpError("depends on another reduction of its kernel in a way that one "
                                  "pass over the rows cannot compute");
      })
      .Case([&](graph::IotaOp op) -> FailureOr<Computed> { return iota(op, position); })
      .Case([&](graph::GatherOp op) { return gathered(op, position); })
      .Case([&](graph::SelectOp select) {
        return select == secondOf   ? evaluate(select.getOnFalse(), position)
               : takesFirst(select) ? evaluate(select.getOnTrue(), position)
                                    : elementwise(select, position);
      })
      .Default([&](Operation *op) { return elementwise(op, position); });
}

} // namespace nano::kernels
