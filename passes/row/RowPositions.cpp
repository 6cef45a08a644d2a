// Index arithmetic of kernels and where it stands in their loops; see the header.
#include "passes/row/RowPositions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace nano::kernels {

using Kind = Coordinate::Kind;

static bool before(const std::pair<Value, Value> &a, const std::pair<Value, Value> &b) {
  return std::pair(a.first.getAsOpaquePointer(), a.second.getAsOpaquePointer()) <
         std::pair(b.first.getAsOpaquePointer(), b.second.getAsOpaquePointer());
}

RowPositions::RowPositions(KernelFrame &frame)
    : v(frame.builder, frame.loc, frame.options.lanes), splits(before) {
  scopes.push_back({nullptr, &frame.function.getBody().front(), {}, {}});
}

//===- The loop nest ------------------------------------------------------===//

void RowPositions::open(Operation *opener, Block *block) {
  scopes.back().opener = opener;
  scopes.push_back({nullptr, block, {}, {}});
  moveTo(depth());
}

void RowPositions::close() {
  scopes.pop_back();
  scopes.back().opener = nullptr;
  moveTo(depth());
}

void RowPositions::moveTo(unsigned depth) {
  Scope &scope = scopes[depth];
  if (scope.opener)
    v.b.setInsertionPoint(scope.opener);
  else if (!scope.block->empty() && scope.block->back().hasTrait<OpTrait::IsTerminator>())
    v.b.setInsertionPoint(&scope.block->back());
  else
    v.b.setInsertionPointToEnd(scope.block);
}

unsigned RowPositions::depthOf(Value value) const {
  unsigned found = depth();
  while (found > 0 && scopes[found].block != value.getParentBlock())
    --found;
  return found;
}

//===- Positions ----------------------------------------------------------===//

template <typename Make> Index RowPositions::cached(Key key, unsigned depth, Make make) {
  auto [it, isNew] = scopes[depth].indices.try_emplace(std::move(key));
  if (isNew) {
    OpBuilder::InsertionGuard guard(v.b);
    moveTo(depth);
    it->second = make();
  }
  return {it->second, depth};
}

Index RowPositions::add(Index a, Index b) {
  return cached({'+', word(a.value), word(b.value)}, std::max(a.depth, b.depth),
                [&] { return v.add(a.value, b.value); });
}
Index RowPositions::mul(Index a, int64_t factor) {
  return cached({'*', word(a.value), static_cast<uintptr_t>(factor)}, a.depth,
                [&] { return v.mul(a.value, factor); });
}
Index RowPositions::div(Index a, int64_t divisor) {
  return cached({'/', word(a.value), static_cast<uintptr_t>(divisor)}, a.depth,
                [&] { return v.div(a.value, divisor); });
}
Index RowPositions::rem(Index a, int64_t divisor) {
  return cached({'%', word(a.value), static_cast<uintptr_t>(divisor)}, a.depth,
                [&] { return v.rem(a.value, divisor); });
}

/// The index of each lane as a vector<lanes x index>; for Lanes, counted from lane 0.
Value RowPositions::laneOffsets(Coordinate coordinate) {
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

/// Of each lane, in which run of `size` lanes it is.
Value RowPositions::runs(int64_t size) {
  const Value numbers = laneOffsets(lanes(constant(0), false));
  return cached({'d', word(numbers), static_cast<uintptr_t>(size)}, 0,
                [&]() -> Value {
                  return arith::DivUIOp::create(v.b, v.loc, numbers, v.splat(v.index(size)));
                })
      .value;
}

Coordinate RowPositions::combine(Coordinate high, Coordinate low, int64_t size) {
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
  if (auto it = splits.find({high.at.value, low.at.value});
      it != splits.end() && high.kind == Kind::Vector && low.kind == Kind::Vector)
    return lanes(it->second, true);
  unsigned depth = std::max(high.at.depth, low.at.depth);
  Value a = laneOffsets(high), c = laneOffsets(low);
  Coordinate all = {Kind::Vector,
                    cached({'v', word(a), word(c), static_cast<uintptr_t>(size)}, depth,
                           [&] { return v.addi(v.muli(a, v.index(size)), c); }),
                    false};
  if (high.kind == Kind::Uniform && low.repeats > 1) {
    all.repeats = low.repeats;
    all.first = add(mul(high.at, size), low.first);
  }
  return all;
}

std::pair<Coordinate, Coordinate> RowPositions::split(Coordinate coordinate, int64_t size) {
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
  if (coordinate.kind == Kind::Lanes && coordinate.aligned && v.lanes % size == 0) {
    // Runs of `size` lanes, the same in all vectors.
    const Index first = div(coordinate.at, size);
    const Value run = runs(size);
    const Value numbers = laneOffsets(lanes(constant(0), false));
    const Coordinate high = {Kind::Vector,
                             cached({'+', word(first.value), word(run)}, first.depth,
                                    [&] { return v.addi(first.value, run); }),
                             false, size, first};
    const Coordinate low = {Kind::Vector,
                            cached({'m', word(numbers), static_cast<uintptr_t>(size)}, 0,
                                   [&]() -> Value {
                                     return arith::RemUIOp::create(v.b, v.loc, numbers,
                                                                   v.splat(v.index(size)));
                                   }),
                            false};
    splits.try_emplace({high.at.value, low.at.value}, coordinate.at);
    return {high, low};
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

Coordinate RowPositions::merge(ArrayRef<Digit> digits) {
  if (digits.empty())
    return uniform(constant(0));
  // What was split is whole again first, whichever of its parts was split further.
  SmallVector<Digit> left;
  for (const Digit &digit : digits) {
    left.push_back(digit);
    while (left.size() > 1) {
      const Digit &high = left[left.size() - 2], &low = left.back();
      const bool isHighVector = high.coordinate.kind == Kind::Vector,
                 isLowVector = low.coordinate.kind == Kind::Vector;
      if (high.coordinate.kind == Kind::Lanes || isHighVector != isLowVector ||
          !splits.count({high.coordinate.at.value, low.coordinate.at.value}))
        break;
      const Digit whole{high.size * low.size, combine(high.coordinate, low.coordinate, low.size)};
      left.pop_back();
      left.back() = whole;
    }
  }
  Coordinate merged = left.front().coordinate;
  for (const Digit &digit : ArrayRef(left).drop_front())
    merged = combine(merged, digit.coordinate, digit.size);
  return merged;
}

size_t RowPositions::splitAt(Position &position, int64_t elements) {
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

RowPositions::Address RowPositions::addressOf(MemRefType type, Position position) {
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
  Coordinate repeated;
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
    else if (coordinate.repeats > 1 && stride == 1)
      repeated = coordinate;
    else if (coordinate.kind == Kind::Vector)
      scatter(v.muli(coordinate.at.value, v.index(stride)));
    behind = elements;
    end = begin;
  }
  if (offsets && contiguous)
    scatter(laneOffsets(lanes(constant(0), false)));
  if (repeated.repeats > 1) {
    address.base = add(address.base, repeated.first);
    const bool isAlone = !offsets;
    moveTo(0);
    scatter(runs(repeated.repeats));
    if (isAlone) {
      address.offsets = offsets;
      address.kind = Address::Kind::Repeated;
      address.repeats = repeated.repeats;
      return address;
    }
  }
  address.offsets = offsets;
  address.kind = offsets      ? Address::Kind::Scattered
                 : contiguous ? Address::Kind::Contiguous
                              : Address::Kind::Scalar;
  return address;
}

/// (coordinate + shift) mod size, size that of the last dimension.
Coordinate RowPositions::rotated(Coordinate coordinate, int64_t shift, int64_t size) {
  if (shift == 0)
    return coordinate;
  bool keepsLanes = coordinate.kind == Kind::Lanes && coordinate.aligned && size % v.lanes == 0 &&
                    shift % v.lanes == 0;
  const auto count = int64_t(ring.columns.size());
  if (keepsLanes && count > 0 && size == count * ring.apart && shift % ring.apart == 0)
    for (auto [i, column] : llvm::enumerate(ring.columns))
      if (column.value == coordinate.at.value)
        return lanes(ring.columns[(int64_t(i) + shift / ring.apart) % count], true);
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

} // namespace nano::kernels
