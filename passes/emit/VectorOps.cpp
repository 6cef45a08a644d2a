// Emission of vector code out of arith, math, memref and vector ops.
#include "passes/emit/VectorOps.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/RandomOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace nano::kernels {

//===- Constants and shapes -----------------------------------------------===//

Value VectorOps::constant(TypedAttr value) {
  Value &cached = constants[value];
  if (cached)
    return cached;
  OpBuilder::InsertionGuard guard(b);
  Operation *parent = b.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<FunctionOpInterface>(parent);
  if (!function)
    function = parent->getParentOfType<FunctionOpInterface>();
  b.setInsertionPointToStart(&function.getFunctionBody().front());
  cached = arith::ConstantOp::create(b, loc, value);
  return cached;
}

Value VectorOps::index(int64_t value) { return constant(b.getIndexAttr(value)); }
Value VectorOps::f32(double value) {
  return constant(b.getF32FloatAttr(static_cast<float>(value)));
}
Value VectorOps::i32(int64_t value) {
  return constant(b.getI32IntegerAttr(static_cast<int32_t>(value)));
}
VectorType VectorOps::vectorOf(Type element) const { return VectorType::get({lanes}, element); }

Value VectorOps::splat(Value scalar) {
  if (isVector(scalar))
    return scalar;
  VectorType type = vectorOf(scalar.getType());
  if (auto op = scalar.getDefiningOp<arith::ConstantOp>())
    return constant(
        cast<TypedAttr>(DenseElementsAttr::get(type, ArrayRef<Attribute>(op.getValue()))));
  Value &cached = splats[scalar];
  if (cached)
    return cached;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(scalar);
  cached = vector::BroadcastOp::create(b, loc, type, scalar);
  return cached;
}

Value VectorOps::laneNumbers() {
  SmallVector<int32_t> numbers;
  for (int64_t i = 0; i < lanes; ++i)
    numbers.push_back(static_cast<int32_t>(i));
  return constant(b.getI32VectorAttr(numbers));
}

void VectorOps::spread(std::initializer_list<Value *> values) {
  if (!llvm::any_of(values, [](Value *value) { return isVector(*value); }))
    return;
  for (Value *value : values)
    *value = splat(*value);
}

//===- Index arithmetic ---------------------------------------------------===//

Value VectorOps::add(Value a, Value c) {
  auto x = getConstantIntValue(a), y = getConstantIntValue(c);
  if (x && y)
    return index(*x + *y);
  if (x && *x == 0)
    return c;
  if (y && *y == 0)
    return a;
  return arith::AddIOp::create(b, loc, a, c);
}

Value VectorOps::sub(Value a, Value c) {
  auto x = getConstantIntValue(a), y = getConstantIntValue(c);
  if (x && y)
    return index(*x - *y);
  if (y && *y == 0)
    return a;
  return arith::SubIOp::create(b, loc, a, c);
}

Value VectorOps::mul(Value a, int64_t factor) {
  if (auto x = getConstantIntValue(a))
    return index(*x * factor);
  if (factor == 1)
    return a;
  return arith::MulIOp::create(b, loc, a, index(factor));
}

Value VectorOps::div(Value a, int64_t divisor) {
  if (auto x = getConstantIntValue(a))
    return index(*x / divisor);
  if (divisor == 1)
    return a;
  return arith::DivUIOp::create(b, loc, a, index(divisor));
}

Value VectorOps::rem(Value a, int64_t divisor) {
  if (auto x = getConstantIntValue(a))
    return index(*x % divisor);
  if (divisor == 1)
    return index(0);
  return arith::RemUIOp::create(b, loc, a, index(divisor));
}

//===- Memory -------------------------------------------------------------===//

Value VectorOps::maskBelow(Value count) {
  return vector::CreateMaskOp::create(b, loc, vectorOf(b.getI1Type()), ValueRange{count});
}

/// True for the element types that exist in memory only: bf16, f8 and i16.
static bool isNarrow(Type element) {
  return element.isInteger(16) || (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32);
}

Type VectorOps::registerType(Type element) {
  if (isa<FloatType>(element))
    return Float32Type::get(element.getContext());
  return IntegerType::get(element.getContext(), 32);
}

Value VectorOps::widen(Value loaded) {
  Type element = getElementTypeOrSelf(loaded.getType());
  if (!isNarrow(element))
    return loaded;
  Type wide = registerType(element);
  wide = isVector(loaded) ? Type(vectorOf(wide)) : wide;
  if (element.isInteger(16))
    return arith::ExtUIOp::create(b, loc, wide, loaded);
  return arith::ExtFOp::create(b, loc, wide, loaded);
}

Value VectorOps::load(Value flat, Value at, Value mask) {
  VectorType type = vectorOf(cast<MemRefType>(flat.getType()).getElementType());
  if (!mask)
    return widen(vector::LoadOp::create(b, loc, type, flat, ValueRange{at}));
  Value zero = constant(cast<TypedAttr>(b.getZeroAttr(type)));
  return widen(vector::MaskedLoadOp::create(b, loc, type, flat, ValueRange{at}, mask, zero));
}

Value VectorOps::loadRepeated(Value flat, Value at, int64_t repeats) {
  if (repeats == lanes)
    return splat(loadScalar(flat, at));
  const auto type =
      VectorType::get({lanes / repeats}, cast<MemRefType>(flat.getType()).getElementType());
  const Value few = vector::LoadOp::create(b, loc, type, flat, ValueRange{at});
  SmallVector<int64_t> from;
  for (int64_t lane = 0; lane < lanes; ++lane)
    from.push_back(lane / repeats);
  return widen(vector::ShuffleOp::create(b, loc, few, few, from));
}

Value VectorOps::rotateLanes(Value vector, int64_t size, int64_t shift) {
  SmallVector<int64_t> from;
  for (int64_t lane = 0; lane < lanes; ++lane)
    from.push_back(lane - lane % size + (lane % size + shift) % size);
  return vector::ShuffleOp::create(b, loc, vector, vector, from);
}

Value VectorOps::loadScalar(Value flat, Value at) {
  return widen(memref::LoadOp::create(b, loc, flat, ValueRange{at}));
}

Value VectorOps::gather(Value flat, Value at, Value offsets, Value mask) {
  VectorType type = vectorOf(cast<MemRefType>(flat.getType()).getElementType());
  if (!mask)
    mask = constant(cast<TypedAttr>(DenseElementsAttr::get(vectorOf(b.getI1Type()), true)));
  Value zero = constant(cast<TypedAttr>(b.getZeroAttr(type)));
  return widen(vector::GatherOp::create(b, loc, type, flat, ValueRange{at}, offsets, mask, zero));
}

/// `value` as memory of element type `stored` holds it. Undoes a widening instead of converting
/// twice.
static Value narrow(OpBuilder &b, Location loc, Value value, Type stored) {
  if (!isNarrow(stored))
    return value;
  if (Operation *widening = value.getDefiningOp();
      isa_and_present<arith::ExtFOp, arith::ExtUIOp>(widening))
    if (getElementTypeOrSelf(widening->getOperand(0).getType()) == stored)
      return widening->getOperand(0);
  Type type = stored;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), stored);
  if (stored.isInteger(16))
    return arith::TruncIOp::create(b, loc, type, value);
  return arith::TruncFOp::create(b, loc, type, value);
}

Value VectorOps::narrowed(Value value, Type stored) { return narrow(b, loc, value, stored); }

void VectorOps::store(Value value, Value flat, Value at, Value mask) {
  value = narrow(b, loc, value, cast<MemRefType>(flat.getType()).getElementType());
  if (!isVector(value))
    memref::StoreOp::create(b, loc, value, flat, ValueRange{at});
  else if (mask)
    vector::MaskedStoreOp::create(b, loc, flat, ValueRange{at}, mask, value);
  else
    vector::StoreOp::create(b, loc, value, flat, ValueRange{at});
}

void VectorOps::scatter(Value value, Value flat, Value at, Value offsets, Value mask) {
  value = narrow(b, loc, splat(value), cast<MemRefType>(flat.getType()).getElementType());
  if (!mask)
    mask = constant(cast<TypedAttr>(DenseElementsAttr::get(vectorOf(b.getI1Type()), true)));
  vector::ScatterOp::create(b, loc, Type(), flat, ValueRange{at}, offsets, mask, value);
}

//===- Arithmetic ---------------------------------------------------------===//

/// The one value of a constant vector of equal floats.
static bool splatConstant(Value value, FloatAttr &attribute) {
  DenseFPElementsAttr dense;
  if (!matchPattern(value, m_Constant(&dense)) || !dense.isSplat())
    return false;
  attribute = FloatAttr::get(dense.getElementType(), dense.getSplatValue<APFloat>());
  return true;
}

template <typename Op> static Value binary(OpBuilder &b, Location loc, Value a, Value c) {
  return Op::create(b, loc, a, c);
}

Value VectorOps::addf(Value a, Value c) {
  return spread({&a, &c}), binary<arith::AddFOp>(b, loc, a, c);
}
Value VectorOps::subf(Value a, Value c) {
  return spread({&a, &c}), binary<arith::SubFOp>(b, loc, a, c);
}
Value VectorOps::mulf(Value a, Value c) {
  return spread({&a, &c}), binary<arith::MulFOp>(b, loc, a, c);
}
Value VectorOps::divf(Value a, Value c) {
  spread({&a, &c});
  FloatAttr attribute;
  if (matchPattern(c, m_Constant(&attribute)) || splatConstant(c, attribute)) {
    double divisor = attribute.getValueAsDouble(), magnitude = std::abs(divisor);
    if (magnitude > 0x1p-100 && magnitude < 0x1p100)
      return mulf(a, f32(1.0 / divisor));
  }
  return binary<arith::DivFOp>(b, loc, a, c);
}
Value VectorOps::negf(Value a) { return arith::NegFOp::create(b, loc, a); }
Value VectorOps::fma(Value a, Value c, Value d) {
  return spread({&a, &c, &d}), math::FmaOp::create(b, loc, a, c, d);
}
Value VectorOps::addi(Value a, Value c) {
  return spread({&a, &c}), binary<arith::AddIOp>(b, loc, a, c);
}
Value VectorOps::subi(Value a, Value c) {
  return spread({&a, &c}), binary<arith::SubIOp>(b, loc, a, c);
}
Value VectorOps::muli(Value a, Value c) {
  return spread({&a, &c}), binary<arith::MulIOp>(b, loc, a, c);
}

Value VectorOps::andi(Value a, Value c) {
  return spread({&a, &c}), binary<arith::AndIOp>(b, loc, a, c);
}
Value VectorOps::ori(Value a, Value c) {
  return spread({&a, &c}), binary<arith::OrIOp>(b, loc, a, c);
}
Value VectorOps::xori(Value a, Value c) {
  return spread({&a, &c}), binary<arith::XOrIOp>(b, loc, a, c);
}

/// The one value of a constant scalar or splat.
static std::optional<int64_t> splatConstant(Value value) {
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  if (auto dense = dyn_cast<DenseIntElementsAttr>(attribute))
    return dense.isSplat() ? std::optional(dense.getSplatValue<APInt>().getSExtValue())
                           : std::nullopt;
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getInt();
  return std::nullopt;
}

Value VectorOps::floorDivi(Value a, Value c) {
  spread({&a, &c});
  Value zero = i32(0), one = i32(1);
  std::optional<int64_t> divisor = splatConstant(c);
  spread({&a, &zero});
  spread({&a, &one});
  if (divisor && *divisor > 0 && llvm::isPowerOf2_64(*divisor)) {
    Value shift = i32(llvm::Log2_64(*divisor));
    spread({&a, &shift});
    return arith::ShRSIOp::create(b, loc, a, shift);
  }
  if (divisor && *divisor > 0) {
    // Truncated towards zero, less one where the remainder is negative.
    Value quotient = arith::DivSIOp::create(b, loc, a, c);
    Value remainder = subi(a, muli(quotient, c));
    return select(compare(graph::Predicate::lt, remainder, zero), subi(quotient, one), quotient);
  }
  // In 64 bits no quotient overflows; a zero divisor becomes one.
  Type wide = b.getI64Type();
  if (isVector(a))
    wide = vectorOf(wide);
  Value isZero = compare(graph::Predicate::eq, c, zero);
  Value x = arith::ExtSIOp::create(b, loc, wide, a);
  Value y = arith::ExtSIOp::create(b, loc, wide, select(isZero, one, c));
  Value quotient =
      arith::TruncIOp::create(b, loc, a.getType(), Value(arith::DivSIOp::create(b, loc, x, y)));
  Value remainder = subi(a, muli(quotient, c));
  Value opposite = arith::XOrIOp::create(b, loc, remainder, c);
  Value inexact = compare(graph::Predicate::ne, remainder, zero);
  Value below =
      arith::AndIOp::create(b, loc, inexact, compare(graph::Predicate::lt, opposite, zero));
  return select(isZero, zero, select(below, subi(quotient, one), quotient));
}

Value VectorOps::floorRemi(Value a, Value c) { return subi(a, muli(floorDivi(a, c), c)); }

Value VectorOps::shiftLeft(Value a, Value c) {
  std::optional<int64_t> by = splatConstant(c);
  Value amount = by ? i32(*by & 31) : andi(c, i32(31));
  return spread({&a, &amount}), binary<arith::ShLIOp>(b, loc, a, amount);
}
Value VectorOps::shiftRight(Value a, Value c) {
  std::optional<int64_t> by = splatConstant(c);
  Value amount = by ? i32(*by & 31) : andi(c, i32(31));
  return spread({&a, &amount}), binary<arith::ShRUIOp>(b, loc, a, amount);
}

Value VectorOps::max(Value a, Value c) {
  spread({&a, &c});
  if (!isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return arith::MaxSIOp::create(b, loc, a, c);
  return arith::MaximumFOp::create(b, loc, a, c, arith::FastMathFlags::nsz);
}

Value VectorOps::min(Value a, Value c) {
  spread({&a, &c});
  if (!isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return arith::MinSIOp::create(b, loc, a, c);
  return arith::MinimumFOp::create(b, loc, a, c, arith::FastMathFlags::nsz);
}

Value VectorOps::select(Value mask, Value a, Value c) {
  if (isVector(mask)) {
    a = splat(a);
    c = splat(c);
  }
  spread({&a, &c});
  return arith::SelectOp::create(b, loc, mask, a, c);
}

Value VectorOps::compare(graph::Predicate predicate, Value a, Value c) {
  using graph::Predicate;
  spread({&a, &c});
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(a.getType()));
  auto pick = [&](arith::CmpFPredicate f, arith::CmpIPredicate i) -> Value {
    if (isFloat)
      return arith::CmpFOp::create(b, loc, f, a, c);
    return arith::CmpIOp::create(b, loc, i, a, c);
  };
  switch (predicate) {
  case Predicate::eq:
    return pick(arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq);
  case Predicate::ne:
    return pick(arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne);
  case Predicate::lt:
    return pick(arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt);
  case Predicate::le:
    return pick(arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle);
  case Predicate::gt:
    return pick(arith::CmpFPredicate::OGT, arith::CmpIPredicate::sgt);
  case Predicate::ge:
    return pick(arith::CmpFPredicate::OGE, arith::CmpIPredicate::sge);
  }
  llvm_unreachable("a predicate");
}

Value VectorOps::roundTo(Type stored, Value value) {
  if (!isNarrow(stored))
    return value;
  if (stored.isInteger(16))
    return andi(value, i32(0xffff));
  // Every f8 number is one of bf16.
  if (auto widened = value.getDefiningOp<arith::ExtFOp>())
    if (stored.isBF16() || getElementTypeOrSelf(widened.getIn().getType()) == stored)
      return value;
  return widen(narrow(b, loc, value, stored));
}

//===- Reductions over lanes ----------------------------------------------===//

Value VectorOps::lanesTree(Value vector, Value (VectorOps::*combine)(Value, Value)) {
  auto extract = [&](Value from, int64_t at) -> Value {
    return vector::ExtractOp::create(b, loc, from, at);
  };
  int64_t width = lanes;
  for (; width > 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    if (width == 2)
      return (this->*combine)(extract(vector, 0), extract(vector, 1));
    Value lower = vector::ShuffleOp::create(b, loc, vector, vector, low);
    Value upper = vector::ShuffleOp::create(b, loc, vector, vector, high);
    vector = (this->*combine)(lower, upper);
  }
  return vector;
}

Value VectorOps::sumLanes(Value vector) {
  if (usesLibrary)
    return vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, vector);
  return lanesTree(vector, &VectorOps::addf);
}
Value VectorOps::maxLanes(Value vector) {
  if (usesLibrary)
    return vector::ReductionOp::create(b, loc,
                                       isa<FloatType>(getElementTypeOrSelf(vector.getType()))
                                           ? vector::CombiningKind::MAXIMUMF
                                           : vector::CombiningKind::MAXSI,
                                       vector);
  return lanesTree(vector, &VectorOps::max);
}
Value VectorOps::anyLane(Value mask) {
  if (usesLibrary)
    return compare(graph::Predicate::gt, maxLanes(select(mask, f32(1), f32(0))), f32(0));
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, mask);
}

//===- Graph ops ----------------------------------------------------------===//

/// A number of element type `from` converted to element type `to`, both in register form (bf16 and
/// f8 are f32, i16 is i32).
static Value convert(VectorOps &v, Value value, Type from, Type to) {
  auto shaped = [&](Type element) {
    return VectorOps::isVector(value) ? Type(v.vectorOf(element)) : element;
  };
  if (from.isInteger() && !to.isInteger())
    value = arith::SIToFPOp::create(v.b, v.loc, shaped(v.b.getF32Type()), value);
  else if (to.isInteger() && !from.isInteger())
    value = arith::FPToSIOp::create(v.b, v.loc, shaped(v.b.getI32Type()), value);
  return from.isInteger(16) && to.isInteger() ? value : v.roundTo(to, value);
}

Value VectorOps::bitcast(Value value, Type from, Type to) {
  Value sixteen = i32(16);
  if (from.isInteger(16))
    value = shiftLeft(value, sixteen);
  value = from.isInteger() ? fromBits(value) : bits(value);
  return to.isInteger(16) ? shiftRight(value, sixteen) : value;
}

FailureOr<Value> VectorOps::elementwise(Operation *op, ValueRange operands) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  bool integer = element.isInteger(32);
  auto pick = [&](Value (VectorOps::*ofFloat)(Value, Value),
                  Value (VectorOps::*ofInt)(Value, Value)) -> Value {
    return (this->*(integer ? ofInt : ofFloat))(operands[0], operands[1]);
  };
  const std::optional<graph::FunctionTraits> traits = graph::traitsOf(op);
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case([&](graph::AddOp) { return pick(&VectorOps::addf, &VectorOps::addi); })
          .Case([&](graph::SubOp) { return pick(&VectorOps::subf, &VectorOps::subi); })
          .Case([&](graph::MulOp) { return pick(&VectorOps::mulf, &VectorOps::muli); })
          .Case([&](graph::DivOp) { return pick(&VectorOps::divf, &VectorOps::floorDivi); })
          .Case([&](graph::MaxOp) { return max(operands[0], operands[1]); })
          .Case([&](graph::MinOp) { return min(operands[0], operands[1]); })
          .Case([&](graph::RemOp) { return floorRemi(operands[0], operands[1]); })
          .Case([&](graph::AndOp) { return andi(operands[0], operands[1]); })
          .Case([&](graph::OrOp) { return ori(operands[0], operands[1]); })
          .Case([&](graph::XorOp) { return xori(operands[0], operands[1]); })
          .Case([&](graph::ShlOp) { return shiftLeft(operands[0], operands[1]); })
          .Case([&](graph::ShrOp) { return shiftRight(operands[0], operands[1]); })
          .Case([&](graph::PhiloxOp) { return philox(operands); })
          .Case([&](graph::NormalOp) { return normal(operands[0], operands[1], operands[2]); })
          .Case([&](graph::SelectOp select) {
            return this->select(compare(select.getPredicate(), operands[0], operands[1]),
                                operands[2], operands[3]);
          })
          .Case([&](graph::BitcastOp cast) {
            return bitcast(operands[0], getElementTypeOrSelf(cast.getX().getType()), element);
          })
          .Case([&](graph::CastOp cast) {
            return convert(*this, operands[0], getElementTypeOrSelf(cast.getX().getType()),
                           element);
          })
          .Case([&](graph::ConstantOp constant) {
            double value = constant.getValue().convertToDouble();
            if (integer)
              return i32(static_cast<int64_t>(value));
            APFloat rounded(value);
            bool lossy = false;
            rounded.convert(cast<FloatType>(element).getFloatSemantics(),
                            APFloat::rmNearestTiesToEven, &lossy);
            return f32(rounded.convertToDouble());
          })
          .Default([&](Operation *op) {
            return traits ? function(op->getName().getStringRef(), *traits, operands, element)
                          : Value();
          });
  if (!result)
    return op->emitOpError("is not element-wise");
  // These give one of their operands, which are rounded already, up to the sign; a cast has
  // rounded.
  if (traits ? traits->isExact
             : isa<graph::BitcastOp, graph::CastOp, graph::ConstantOp, graph::SelectOp,
                   graph::MaxOp, graph::MinOp>(op))
    return result;
  return roundTo(element, result);
}

Value VectorOps::elementwiseOfPairs(Operation *op, ValueRange operands) {
  const Type bf16 = b.getBF16Type();
  SmallVector<Value> pairs;
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), operands)) {
    APFloat number(0.0F);
    if (!getElementTypeOrSelf(operand.getType()).isBF16())
      return {};
    if (isVector(value)) {
      pairs.push_back(narrowed(value, bf16));
    } else if (matchPattern(value, m_ConstantFloat(&number))) {
      bool losesInfo = false;
      number.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &losesInfo);
      pairs.push_back(constant(b.getFloatAttr(bf16, number)));
    } else {
      return {};
    }
  }
  if (llvm::none_of(pairs, [](Value value) { return isVector(value); }))
    return {};
  Value result = llvm::TypeSwitch<Operation *, Value>(op)
                     .Case([&](graph::NegOp) { return negf(pairs[0]); })
                     .Case([&](graph::AddOp) { return addf(pairs[0], pairs[1]); })
                     .Case([&](graph::SubOp) { return subf(pairs[0], pairs[1]); })
                     .Case([&](graph::MulOp) { return mulf(pairs[0], pairs[1]); })
                     .Case([&](graph::MaxOp) { return max(pairs[0], pairs[1]); })
                     .Case([&](graph::MinOp) { return min(pairs[0], pairs[1]); })
                     .Case([&](graph::SelectOp select) {
                       return this->select(compare(select.getPredicate(), pairs[0], pairs[1]),
                                           pairs[2], pairs[3]);
                     })
                     .Default([](Operation *) { return Value(); });
  return result ? widen(result) : result;
}

} // namespace nano::kernels
