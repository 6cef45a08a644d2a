// Evaluation of a task's tensors at positions; see the header for the idea.
#include "passes/kernels/RowEvaluator.h"

#include "passes/kernels/RowForm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nano::kernels {

using Kind = Coordinate::Kind;

static bool before(const std::pair<Value, Value> &a, const std::pair<Value, Value> &b) {
  return std::pair(a.first.getAsOpaquePointer(), a.second.getAsOpaquePointer()) <
         std::pair(b.first.getAsOpaquePointer(), b.second.getAsOpaquePointer());
}

RowEvaluator::RowEvaluator(KernelFrame &frame)
    : frame(frame), v(frame.builder, frame.loc, frame.options.lanes), splits(before) {
  scopes.push_back({nullptr, &frame.function.getBody().front(), {}, {}});
  v.usesLibrary = frame.options.target == Target::Cuda;
}

//===- The loop nest ------------------------------------------------------===//

void RowEvaluator::open(Operation *opener, Block *block) {
  scopes.back().opener = opener;
  scopes.push_back({nullptr, block, {}, {}});
  moveTo(depth());
}

void RowEvaluator::close() {
  scopes.pop_back();
  scopes.back().opener = nullptr;
  moveTo(depth());
}

void RowEvaluator::moveTo(unsigned depth) {
  Scope &scope = scopes[depth];
  if (scope.opener)
    v.b.setInsertionPoint(scope.opener);
  else if (!scope.block->empty() && scope.block->back().hasTrait<OpTrait::IsTerminator>())
    v.b.setInsertionPoint(&scope.block->back());
  else
    v.b.setInsertionPointToEnd(scope.block);
}

//===- Positions ----------------------------------------------------------===//

static uintptr_t word(Value value) {
  return reinterpret_cast<uintptr_t>(value.getAsOpaquePointer());
}

template <typename Make> Index RowEvaluator::cached(Key key, unsigned depth, Make make) {
  auto [it, isNew] = scopes[depth].indices.try_emplace(std::move(key));
  if (isNew) {
    OpBuilder::InsertionGuard guard(v.b);
    moveTo(depth);
    it->second = make();
  }
  return {it->second, depth};
}

Index RowEvaluator::add(Index a, Index b) {
  return cached({'+', word(a.value), word(b.value)}, std::max(a.depth, b.depth),
                [&] { return v.add(a.value, b.value); });
}
Index RowEvaluator::mul(Index a, int64_t factor) {
  return cached({'*', word(a.value), static_cast<uintptr_t>(factor)}, a.depth,
                [&] { return v.mul(a.value, factor); });
}
Index RowEvaluator::div(Index a, int64_t divisor) {
  return cached({'/', word(a.value), static_cast<uintptr_t>(divisor)}, a.depth,
                [&] { return v.div(a.value, divisor); });
}
Index RowEvaluator::rem(Index a, int64_t divisor) {
  return cached({'%', word(a.value), static_cast<uintptr_t>(divisor)}, a.depth,
                [&] { return v.rem(a.value, divisor); });
}

/// The index of each lane as a vector<lanes x index>; for Lanes, counted from lane 0.
Value RowEvaluator::laneOffsets(Coordinate coordinate) {
  if (coordinate.kind == Kind::Vector)
    return coordinate.at.value;
  Type type = v.vectorOf(v.b.getIndexType());
  if (coordinate.kind == Kind::Uniform)
    return v.splat(coordinate.at.value);
  return cached({'#', word(coordinate.at.value)}, coordinate.at.depth,
                [&] {
                  Value numbers = arith::IndexCastOp::create(v.b, v.loc, type, v.laneNumbers());
                  return v.addi(coordinate.at.value, numbers);
                })
      .value;
}

Coordinate RowEvaluator::combine(Coordinate high, Coordinate low, int64_t size) {
  if (high.kind == Kind::Uniform && getConstantIntValue(high.at.value) == 0)
    return low;
  if (auto it = splits.find({high.at.value, low.at.value});
      it != splits.end() && high.kind == Kind::Uniform && low.kind == Kind::Uniform)
    return uniform(it->second);
  if (high.kind == Kind::Uniform && low.kind != Kind::Vector) {
    if (auto it = splits.find({high.at.value, low.at.value}); it != splits.end())
      return lanes(it->second, low.aligned);
    Index at = add(mul(high.at, size), low.at);
    if (low.kind == Kind::Uniform)
      return uniform(at);
    return lanes(at, low.aligned && size % v.lanes == 0);
  }
  unsigned depth = std::max(high.at.depth, low.at.depth);
  Value a = laneOffsets(high), c = laneOffsets(low);
  return {Kind::Vector,
          cached({'v', word(a), word(c), static_cast<uintptr_t>(size)}, depth,
                 [&] { return v.addi(v.muli(a, v.index(size)), c); }),
          false};
}

std::pair<Coordinate, Coordinate> RowEvaluator::split(Coordinate coordinate, int64_t size) {
  if (coordinate.kind == Kind::Uniform) {
    Index high = div(coordinate.at, size), low = rem(coordinate.at, size);
    splits.try_emplace({high.value, low.value}, coordinate.at);
    return {uniform(high), uniform(low)};
  }
  if (coordinate.kind == Kind::Lanes && coordinate.aligned && size % v.lanes == 0) {
    Index high = div(coordinate.at, size), low = rem(coordinate.at, size);
    splits.try_emplace({high.value, low.value}, coordinate.at);
    return {uniform(high), lanes(low, true)};
  }
  Value all = laneOffsets(coordinate);
  auto make = [&](char name, auto operation) -> Coordinate {
    return {Kind::Vector,
            cached({static_cast<uintptr_t>(name), word(all), static_cast<uintptr_t>(size)},
                   coordinate.at.depth,
                   [&]() -> Value { return operation(v.splat(v.index(size))); }),
            false};
  };
  return {make('d', [&](Value n) { return arith::DivUIOp::create(v.b, v.loc, all, n); }),
          make('m', [&](Value n) { return arith::RemUIOp::create(v.b, v.loc, all, n); })};
}

Coordinate RowEvaluator::merge(ArrayRef<Digit> digits) {
  if (digits.empty())
    return uniform(constant(0));
  Coordinate merged = digits.front().coordinate;
  for (const Digit &digit : digits.drop_front())
    merged = combine(merged, digit.coordinate, digit.size);
  return merged;
}

size_t RowEvaluator::splitAt(Position &position, int64_t elements) {
  int64_t behind = 1;
  size_t at = position.size();
  while (at > 0 && behind * position[at - 1].size <= elements)
    behind *= position[--at].size;
  if (behind == elements || at == 0)
    return at;
  // The digit before `at` holds the border, unless sizes do not divide: then all digits become one
  // first.
  int64_t size = elements / behind;
  if (elements % behind != 0 || (position[at - 1].size % size != 0 && at != 1)) {
    int64_t all = 1;
    for (const Digit &digit : position)
      all *= digit.size;
    position = {{all, merge(position)}};
    at = 1;
    size = elements;
  }
  Digit digit = position[at - 1];
  auto [high, low] = split(digit.coordinate, size);
  position[at - 1] = {size, low};
  position.insert(position.begin() + (at - 1), {digit.size / size, high});
  return at;
}

//===- Memory -------------------------------------------------------------===//

RowEvaluator::Address RowEvaluator::addressOf(MemRefType type, Position position) {
  // Dimensions that are contiguous with each other form a group; each contributes its coordinate
  // times its stride.
  SmallVector<std::pair<int64_t, int64_t>>
      groups; // (elements of the group and behind, stride), last group first
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t behind = 1, expected = -1;
  for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
    int64_t size = type.getDimSize(dim);
    if (size == 1)
      continue;
    behind *= size;
    if (strides[dim] == expected)
      groups.back().first = behind;
    else
      groups.push_back({behind, strides[dim]});
    expected = strides[dim] * size;
  }
  Address address;
  address.base = constant(0);
  Value offsets;
  bool contiguous = false;
  auto scatter = [&](Value more) { offsets = offsets ? v.addi(offsets, more) : more; };
  size_t end = position.size();
  behind = 1;
  OpBuilder::InsertionGuard guard(v.b);
  for (auto [elements, stride] : groups) {
    size_t oldSize = position.size(), begin = splitAt(position, elements);
    end = position.size() - (oldSize - end);
    if (behind != 1)
      end = splitAt(position, behind);
    Coordinate coordinate = merge(ArrayRef(position).slice(begin, end - begin));
    address.depth = std::max(address.depth, coordinate.at.depth);
    if (coordinate.kind == Kind::Uniform || coordinate.kind == Kind::Lanes)
      address.base = add(address.base, mul(coordinate.at, stride));
    if (coordinate.kind != Kind::Uniform)
      moveTo(coordinate.at.depth);
    if (coordinate.kind == Kind::Lanes && stride == 1)
      contiguous = true;
    else if (coordinate.kind == Kind::Lanes)
      scatter(v.muli(laneOffsets(lanes(constant(0), false)), v.index(stride)));
    else if (coordinate.kind == Kind::Vector)
      scatter(v.muli(coordinate.at.value, v.index(stride)));
    behind = elements;
    end = begin;
  }
  if (offsets && contiguous)
    scatter(laneOffsets(lanes(constant(0), false)));
  address.offsets = offsets;
  address.kind = offsets      ? Address::Kind::Scattered
                 : contiguous ? Address::Kind::Contiguous
                              : Address::Kind::Scalar;
  return address;
}

Computed RowEvaluator::loadArgument(Value argument, MemRefType type, Position position) {
  Address address = addressOf(type, std::move(position));
  OpBuilder::InsertionGuard guard(v.b);
  moveTo(address.depth);
  Value flat = frame.flat(argument);
  if (address.kind == Address::Kind::Scalar)
    return {v.loadScalar(flat, address.base.value), address.depth};
  if (address.kind == Address::Kind::Contiguous)
    return {v.load(flat, address.base.value, mask), address.depth};
  return {v.gather(flat, address.base.value, address.offsets, mask), address.depth};
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

/// (coordinate + shift) mod size, size that of the last dimension.
Coordinate RowEvaluator::rotated(Coordinate coordinate, int64_t shift, int64_t size) {
  if (shift == 0)
    return coordinate;
  bool keepsLanes = coordinate.kind == Kind::Lanes && coordinate.aligned && size % v.lanes == 0 &&
                    shift % v.lanes == 0;
  if (coordinate.kind == Kind::Uniform || keepsLanes) {
    Index moved = add(coordinate.at, constant(shift));
    if (auto known = getConstantIntValue(moved.value)) {
      moved = constant(*known % size);
    } else {
      moved = cached({'r', word(moved.value), static_cast<uintptr_t>(size)}, moved.depth,
                     [&]() -> Value {
                       Value wraps = arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::sge,
                                                           moved.value, v.index(size));
                       Value wrapped = v.sub(moved.value, v.index(size));
                       return arith::SelectOp::create(v.b, v.loc, wraps, wrapped, moved.value);
                     });
    }
    return keepsLanes ? lanes(moved, true) : uniform(moved);
  }
  Value all = laneOffsets(coordinate);
  return {Kind::Vector,
          cached({'R', word(all), static_cast<uintptr_t>(shift), static_cast<uintptr_t>(size)},
                 coordinate.at.depth,
                 [&]() -> Value {
                   Value moved = v.addi(all, v.index(shift));
                   return arith::RemUIOp::create(v.b, v.loc, moved, v.splat(v.index(size)));
                 }),
          false};
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
  if (coordinate.kind == Kind::Lanes)
    number = v.addi(number, v.laneNumbers());
  if (!element.isInteger(32)) {
    Type f32 = v.b.getF32Type();
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
                        position);
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
      .Case([&](graph::RotateOp rotate) {
        int64_t size = rotate.getType().getShape().back();
        size_t at = splitAt(position, size);
        Coordinate column =
            rotated(merge(ArrayRef(position).drop_front(at)), rotate.getShift(), size);
        position.truncate(at);
        position.push_back({size, column});
        return evaluate(rotate.getX(), position);
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
        return select == secondOf ? evaluate(select.getOnFalse(), position)
                                  : elementwise(select, position);
      })
      .Default([&](Operation *op) { return elementwise(op, position); });
}

} // namespace nano::kernels
