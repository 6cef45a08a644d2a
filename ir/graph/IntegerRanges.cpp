// Intervals of i32 tensors, op by op.
#include "ir/graph/IntegerRanges.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

using namespace mlir;

namespace nano::graph {
namespace {

using Range = IntegerRange;

bool isI32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isInteger(32);
}

bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

/// f32 holds the integers up to it.
constexpr int64_t exactF32 = int64_t(1) << 24;

bool isOneNumber(const Range &range) { return range.low == range.high; }

/// The range, or any number where arithmetic of 32 bits would wrap.
Range wrapping(const Range &range) {
  return range.low < INT32_MIN || range.high > INT32_MAX ? Range() : range;
}

/// a ∘ b, which is monotone in either operand where the other stays: its ends are those of the four
/// corners. They are reached where one operand is a single number.
template <typename Step> Range fromCorners(const Range &a, const Range &b, Step step) {
  const std::array<int64_t, 4> corners = {step(a.low, b.low), step(a.low, b.high),
                                          step(a.high, b.low), step(a.high, b.high)};
  const auto [low, high] = std::minmax_element(corners.begin(), corners.end());
  const bool isReached = a.isReached && b.isReached && (isOneNumber(a) || isOneNumber(b));
  return wrapping({*low, *high, isReached});
}

Range quotient(const Range &a, const Range &b) {
  if (b.low <= 0 && b.high >= 0)
    return {};
  return fromCorners(a, b, [](int64_t x, int64_t y) { return llvm::divideFloorSigned(x, y); });
}

/// a mod b, of b's sign.
Range remainderOf(const Range &a, const Range &b) {
  if (b.low <= 0)
    return {};
  if (a.low >= 0 && a.high < b.low)
    return a;
  return {0, b.high - 1, false};
}

/// The least number of ones that no bit of the numbers is beyond; all 32 where one is negative.
int64_t onesAround(const Range &a, const Range &b) {
  if (a.low < 0 || b.low < 0)
    return -1;
  int64_t ones = 0;
  while (ones < std::max(a.high, b.high))
    ones = 2 * ones + 1;
  return ones;
}

/// Of an unsigned shift by a known number of bits.
Range shiftedRight(const Range &a, const Range &b) {
  if (!isOneNumber(b) || b.low <= 0 || b.low > 31)
    return {};
  if (a.low < 0)
    return {0, int64_t(UINT32_MAX) >> b.low, false};
  return {a.low >> b.low, a.high >> b.low, a.isReached};
}

/// Of a shift by a known number of bits.
Range shiftedLeft(const Range &a, const Range &b) {
  if (!isOneNumber(b) || b.low < 0 || b.low > 31)
    return {};
  return wrapping({a.low * (int64_t(1) << b.low), a.high * (int64_t(1) << b.low), a.isReached});
}

Range joined(const Range &a, const Range &b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.isReached && b.isReached};
}

/// What a number of `range` can be where it compares so with some number of `other`; nothing where
/// it cannot.
std::optional<Range> where(Range range, Predicate predicate, const Range &other) {
  const Range before = range;
  switch (predicate) {
  case Predicate::eq:
    range.low = std::max(range.low, other.low);
    range.high = std::min(range.high, other.high);
    break;
  case Predicate::lt:
    range.high = std::min(range.high, other.high - 1);
    break;
  case Predicate::le:
    range.high = std::min(range.high, other.high);
    break;
  case Predicate::gt:
    range.low = std::max(range.low, other.low + 1);
    break;
  case Predicate::ge:
    range.low = std::max(range.low, other.low);
    break;
  case Predicate::ne:
    break;
  }
  if (range.low > range.high)
    return std::nullopt;
  range.isReached = before.isReached && range.low == before.low && range.high == before.high;
  return range;
}

/// a ? b as b ? a.
Predicate swapped(Predicate predicate) {
  switch (predicate) {
  case Predicate::lt:
    return Predicate::gt;
  case Predicate::le:
    return Predicate::ge;
  case Predicate::gt:
    return Predicate::lt;
  case Predicate::ge:
    return Predicate::le;
  case Predicate::eq:
  case Predicate::ne:
    return predicate;
  }
  return predicate;
}

/// What holds of integers where the comparison does not.
Predicate negated(Predicate predicate) {
  switch (predicate) {
  case Predicate::eq:
    return Predicate::ne;
  case Predicate::ne:
    return Predicate::eq;
  case Predicate::lt:
    return Predicate::ge;
  case Predicate::le:
    return Predicate::gt;
  case Predicate::gt:
    return Predicate::le;
  case Predicate::ge:
    return Predicate::lt;
  }
  return predicate;
}

/// True when both are the same expression; ops that a front end has made twice count as one. A
/// depth that is longer than remainders are is not looked into.
bool isSame(Value a, Value b, unsigned depth = 8) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  return left && right && depth > 0 && left->getName() == right->getName() && isPure(left) &&
         left->getNumRegions() == 0 && left->getNumResults() == 1 && a.getType() == b.getType() &&
         left->getAttrDictionary() == right->getAttrDictionary() &&
         left->getNumOperands() == right->getNumOperands() &&
         llvm::all_of(llvm::zip(left->getOperands(), right->getOperands()), [&](auto operands) {
           return isSame(std::get<0>(operands), std::get<1>(operands), depth - 1);
         });
}

/// The numbers of a table, which nothing changes; any of another state.
Range tableRange(LoadOp load) {
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr());
  if (!state || state.getRole() != Role::Constant)
    return {};
  SmallVector<int64_t> numbers;
  if (DenseElementsAttr data = state.getInit().getData())
    llvm::append_range(numbers, data.getValues<int32_t>());
  else
    for (double number : ArrayRef<double>(state.getInit().getValues()))
      numbers.push_back(static_cast<int64_t>(number));
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  return {*low, *high, true};
}

} // namespace

std::string toString(const IntegerRange &range) {
  if (range.low <= INT32_MIN && range.high >= INT32_MAX)
    return "any number";
  return isOneNumber(range) ? std::to_string(range.low)
                            : std::to_string(range.low) + " to " + std::to_string(range.high);
}

IntegerRanges::IntegerRanges(ProgramOp function, int64_t vocabulary) {
  const auto role = function.getRoleAttr();
  const unsigned ofTokens = role && role == "decode" ? 1 : 2; // its second one is a position
  for (BlockArgument argument : function.getArguments())
    if (isI32(argument) && argument.getArgNumber() < ofTokens && vocabulary > 0)
      known[argument] = {0, std::min<int64_t>(vocabulary - 1, INT32_MAX), false};
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() != 1)
      continue;
    if (isI32(op.getResult(0)))
      known[op.getResult(0)] = compute(&op);
    else if (isF32(op.getResult(0)) && isWhole(&op))
      if (const Range range = compute(&op); range.low >= -exactF32 && range.high <= exactF32)
        known[op.getResult(0)] = range;
  }
}

bool IntegerRanges::isWhole(Operation *op) const {
  auto isKnown = [&](Value value) { return known.contains(value); };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([](ConstantOp constant) {
        const double number = constant.getValue().convertToDouble();
        return std::abs(number) <= exactF32 && std::trunc(number) == number;
      })
      .Case([](IotaOp) { return true; })
      .Case([&](CastOp cast) { return isI32(cast.getX()); })
      .Case([&](SelectOp select) {
        return isKnown(select.getOnTrue()) && isKnown(select.getOnFalse());
      })
      .Case([&](ReduceOp reduce) {
        return reduce.getCombiner() == Combiner::max && isKnown(reduce.getX());
      })
      .Case([&](GatherOp gather) {
        // Of rows that are certain to be the table's.
        return isKnown(gather.getTable()) &&
               of(gather.getIds()).isWithin(tensorType(gather.getTable()).getDimSize(0));
      })
      .Case<AddOp, SubOp, MulOp, MaxOp, MinOp, BroadcastOp, ReshapeOp, RotateOp, TransposeOp,
            PermuteOp, SliceOp, ConcatOp>(
          [&](auto op) { return llvm::all_of(op->getOperands(), isKnown); })
      .Default([](Operation *) { return false; });
}

IntegerRange IntegerRanges::compute(Operation *op) const {
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  auto between = [&](auto step) { return fromCorners(operand(0), operand(1), step); };
  // x − x/c·c, in which a wrapping product wraps back.
  auto remainder = [&](SubOp sub) -> std::optional<Range> {
    auto product = sub.getRhs().getDefiningOp<MulOp>();
    for (unsigned i : {0, 1}) {
      auto div = product ? product->getOperand(i).getDefiningOp<DivOp>() : DivOp();
      if (!div || !isSame(div.getLhs(), sub.getLhs()))
        continue;
      const Range divisor = of(div.getRhs()), factor = of(product->getOperand(1 - i));
      if (isOneNumber(divisor) && isOneNumber(factor) && divisor.low == factor.low &&
          divisor.low > 0)
        return Range{0, divisor.low - 1, false};
    }
    return std::nullopt;
  };
  return llvm::TypeSwitch<Operation *, Range>(op)
      .Case([&](ConstantOp constant) {
        const auto number = static_cast<int64_t>(constant.getValue().convertToDouble());
        return Range{number, number, true};
      })
      .Case([&](IotaOp iota) {
        return Range{0, std::max<int64_t>(iota.getType().getDimSize(int64_t(iota.getDim())) - 1, 0),
                     iota.getType().getNumElements() > 0};
      })
      .Case([&](LoadOp load) { return tableRange(load); })
      .Case([&](AddOp) { return between(std::plus<>()); })
      .Case([&](SubOp sub) {
        const std::optional<Range> found = remainder(sub);
        return found ? *found : between(std::minus<>());
      })
      .Case([&](MulOp) { return between(std::multiplies<>()); })
      .Case([&](DivOp) { return quotient(operand(0), operand(1)); })
      .Case([&](MaxOp) { return between([](int64_t a, int64_t b) { return std::max(a, b); }); })
      .Case([&](MinOp) { return between([](int64_t a, int64_t b) { return std::min(a, b); }); })
      .Case([&](RemOp) { return remainderOf(operand(0), operand(1)); })
      .Case([&](AndOp) {
        // No more than either operand that is not negative.
        Range range;
        for (const Range &each : {operand(0), operand(1)})
          if (each.low >= 0)
            range = {0, range.low >= 0 ? std::min(range.high, each.high) : each.high, false};
        return range;
      })
      .Case<OrOp, XorOp>([&](auto) {
        for (unsigned i : {0, 1})
          if (const Range each = operand(i); each.low == 0 && each.high == 0)
            return operand(1 - i);
        const int64_t ones = onesAround(operand(0), operand(1));
        return ones < 0 ? Range() : Range{0, ones, false};
      })
      .Case([&](ShlOp) { return shiftedLeft(operand(0), operand(1)); })
      .Case([&](ShrOp) { return shiftedRight(operand(0), operand(1)); })
      .Case([&](SelectOp select) {
        // What is chosen may be what was compared.
        auto chosen = [&](Value value, Predicate predicate) -> std::optional<Range> {
          const Value a = select.getLhs(), b = select.getRhs();
          if (!isI32(a) || (value != a && value != b))
            return of(value);
          return value == a ? where(of(a), predicate, of(b))
                            : where(of(b), swapped(predicate), of(a));
        };
        std::optional<Range> x = chosen(select.getOnTrue(), select.getPredicate()),
                             z = chosen(select.getOnFalse(), negated(select.getPredicate()));
        Range range = x && z ? joined(*x, *z) : x ? *x : z ? *z : Range();
        range.isReached &= isOneNumber(range);
        return range;
      })
      .Case([&](CastOp cast) {
        if (tensorType(cast.getX()).getElementType().isInteger(16))
          return Range{0, UINT16_MAX, false};
        return operand(0);
      })
      .Case<ReduceOp, GatherOp>([&](auto) {
        const Range all = operand(0);
        // Rows of a table of i32 that are not there are zeros.
        const bool isKnown = isF32(op->getResult(0)) || isa<ReduceOp>(op);
        return isKnown ? Range{all.low, all.high, isOneNumber(all)} : Range();
      })
      .Case<BroadcastOp, ReshapeOp, RotateOp, TransposeOp, PermuteOp>(
          [&](auto) { return operand(0); })
      .Case([&](SliceOp) {
        const Range all = operand(0);
        return Range{all.low, all.high, isOneNumber(all)};
      })
      .Case([&](ConcatOp concat) {
        Range all = of(concat.getInputs().front());
        for (Value part : concat.getInputs().drop_front())
          all = joined(all, of(part));
        return all;
      })
      .Case([&](ScanOp scan) {
        const Range each = operand(0);
        if (scan.getCombiner() == Combiner::max)
          return Range{each.low, each.high, false};
        const int64_t most = tensorType(scan).getNumElements();
        return wrapping(
            {std::min(each.low, each.low * most), std::max(each.high, each.high * most), false});
      })
      .Case(
          [&](ArgsortOp order) { return Range{0, tensorType(order).getShape().back() - 1, true}; })
      .Default([](Operation *) { return Range(); });
}

} // namespace nano::graph
