// Functions of floats: those that LLVM has no instruction for as polynomials after range
// reduction; coefficients of S. Moshier's Cephes library (single precision), erf's farther parts
// fitted. Reductions multiply by an integer n with fused
// multiply-adds: the first step is exact.
#include "passes/emit/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/ErrorHandling.h"

#include <limits>

using namespace mlir;

namespace nano::kernels {

static bool isNarrowFloat(Type type) {
  return isa_and_present<FloatType>(type) && type.getIntOrFloatBitWidth() < 32;
}

/// Added to |x| < 2^22, rounds x to an integer that stands in the low bits of the sum.
static constexpr double roundingMagic = 12582912.0; // 1.5·2^23

Value VectorOps::bits(Value x) {
  Type i32 = b.getI32Type();
  return arith::BitcastOp::create(b, loc, isVector(x) ? Type(vectorOf(i32)) : i32, x);
}

Value VectorOps::fromBits(Value x) {
  Type f32 = b.getF32Type();
  return arith::BitcastOp::create(b, loc, isVector(x) ? Type(vectorOf(f32)) : f32, x);
}

Value VectorOps::polynomial(Value x, ArrayRef<double> coefficients) {
  Value y = f32(coefficients[0]);
  for (double coefficient : coefficients.drop_front())
    y = fma(y, x, f32(coefficient));
  return y;
}

Value VectorOps::expBelow(Value x) {
  if (usesLibrary)
    return math::ExpOp::create(b, loc, x);
  // e^x = 2^n · e^r, n = round(x / ln 2), |r| ≤ ln 2 / 2. The exponent is added to e^r's bits,
  // which is exact while the result is normal.
  Value shifted = fma(x, f32(1.44269504088896341), f32(roundingMagic));
  Value n = subf(shifted, f32(roundingMagic));
  Value r = fma(n, f32(-0.693147182464599609375), x);
  r = fma(n, f32(1.904654299958e-9), r);
  Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                           1.6666665459e-1, 5.0000001201e-1});
  p = addf(fma(p, mulf(r, r), r), f32(1.0));
  Value exponent = bits(shifted), shift = i32(23);
  spread({&exponent, &shift});
  Value y = fromBits(addi(bits(p), arith::ShLIOp::create(b, loc, exponent, shift)));
  return select(compare(graph::Predicate::lt, x, f32(-87.3365478515625)), f32(0.0), y);
}

Value VectorOps::exp(Value x) {
  Value y = expBelow(x);
  if (usesLibrary)
    return y;
  // Unordered or above: a NaN stays one, the rest becomes infinite.
  Value high = f32(88.722831726074), operand = x;
  spread({&operand, &high});
  Value above = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, operand, high);
  return select(above, mulf(x, f32(std::numeric_limits<double>::infinity())), y);
}

Value VectorOps::log(Value x) {
  if (usesLibrary)
    return math::LogOp::create(b, loc, x);
  // ln x = e·ln 2 + ln m, √½ ≤ m < √2. Subnormal numbers are scaled by 2^23 first.
  Value infinity = f32(std::numeric_limits<double>::infinity());
  Value small = compare(graph::Predicate::lt, x, f32(1.17549435e-38));
  Value scaled = select(small, mulf(x, f32(8388608.0)), x);
  Value word = bits(scaled), shift = i32(23);
  spread({&word, &shift});
  Value biased = arith::ShRSIOp::create(b, loc, subi(word, i32(0x3f3504f3)), shift);
  Value m = fromBits(subi(word, arith::ShLIOp::create(b, loc, biased, shift)));
  Value exponent = select(small, subi(biased, i32(23)), biased);
  Type f32Type = b.getF32Type();
  Value e =
      arith::SIToFPOp::create(b, loc, isVector(x) ? Type(vectorOf(f32Type)) : f32Type, exponent);
  Value f = subf(m, f32(1.0)), z = mulf(f, f);
  Value y = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                           1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                           3.3333331174e-1});
  y = mulf(y, mulf(f, z));
  y = fma(e, f32(-2.12194440e-4), y);
  y = fma(z, f32(-0.5), y);
  y = fma(e, f32(0.693359375), addf(f, y));
  y = select(compare(graph::Predicate::eq, x, f32(0.0)),
             f32(-std::numeric_limits<double>::infinity()), y);
  y = select(compare(graph::Predicate::eq, x, infinity), infinity, y);
  Value zero = f32(0.0), operand = x;
  spread({&operand, &zero});
  Value invalid = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ULT, operand, zero);
  return select(invalid, f32(std::numeric_limits<double>::quiet_NaN()), y);
}

Value VectorOps::tanh(Value x) {
  // Near 0 an odd polynomial, else 1 − 2/(e^2|x| + 1) with x's sign.
  Value word = bits(x), signMask = i32(INT32_MIN), valueMask = i32(INT32_MAX);
  spread({&word, &signMask, &valueMask});
  Value magnitude = fromBits(arith::AndIOp::create(b, loc, word, valueMask));
  Value z = mulf(x, x);
  Value p = polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                           -3.33332819422e-1});
  Value near = fma(mulf(p, z), x, x);
  Value far = subf(f32(1.0), divf(f32(2.0), addf(exp(addf(magnitude, magnitude)), f32(1.0))));
  Value sign = arith::AndIOp::create(b, loc, word, signMask);
  far = fromBits(arith::OrIOp::create(b, loc, bits(far), sign));
  return select(compare(graph::Predicate::lt, magnitude, f32(0.625)), near, far);
}

Value VectorOps::sigmoid(Value x) { return divf(f32(1.0), addf(f32(1.0), exp(negf(x)))); }

Value VectorOps::sinCos(Value x, int64_t quadrant) {
  // r = x − n·π/2 in three steps (the first exact for |n| < 2^16), then sine or cosine of r and its
  // sign by n mod 4.
  Value shifted = fma(x, f32(0.63661977236758134), f32(roundingMagic));
  Value n = subf(shifted, f32(roundingMagic));
  Value r = fma(n, f32(-1.57079637050628662109375), x);
  r = fma(n, f32(4.37113900018624283e-8), r);
  r = fma(n, f32(1.71512449e-15), r);
  Value z = mulf(r, r);
  Value sine = polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = fma(mulf(sine, z), r, r);
  Value cosine = polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  cosine = fma(mulf(cosine, z), z, fma(z, f32(-0.5), f32(1.0)));
  Value count = addi(bits(shifted), i32(quadrant));
  Value one = i32(1), two = i32(2), thirty = i32(30);
  spread({&count, &one, &two, &thirty});
  Value odd = compare(graph::Predicate::ne, arith::AndIOp::create(b, loc, count, one), i32(0));
  Value sign =
      arith::ShLIOp::create(b, loc, Value(arith::AndIOp::create(b, loc, count, two)), thirty);
  return fromBits(arith::XOrIOp::create(b, loc, bits(select(odd, cosine, sine)), sign));
}

Value VectorOps::rsqrt(Value x) { return divf(f32(1.0), math::SqrtOp::create(b, loc, x)); }

namespace {

//===- Functions that only models call
//----------------------------------------------------------===//

/// Near 0 an odd polynomial, else 1 − e^p(|x|) with x's sign; from 4 on it is 1.
Value erf(VectorOps &v, Value x) {
  Value word = v.bits(x), signMask = v.i32(INT32_MIN), valueMask = v.i32(INT32_MAX);
  v.spread({&word, &signMask, &valueMask});
  Value magnitude = v.fromBits(arith::AndIOp::create(v.b, v.loc, word, valueMask));
  Value p = v.polynomial(v.mulf(x, x),
                         {7.8538613361e-5, -8.0101938704e-4, 5.1883277486e-3, -2.6853811993e-2,
                          1.1283585151e-1, -3.7612625825e-1, 1.283791657e-1});
  Value near = v.fma(x, p, x);
  Value q = v.polynomial(v.min(magnitude, v.f32(4.0)),
                         {-2.1697589015e-5, 4.4147232169e-4, -4.2052829381e-3, 2.5210334331e-2,
                          -1.084220901e-1, -6.3321640652e-1, -1.1295803061, 1.8846658757e-4});
  Value far = v.subf(v.f32(1.0), v.exp(q));
  Value sign = arith::AndIOp::create(v.b, v.loc, word, signMask);
  far = v.fromBits(arith::OrIOp::create(v.b, v.loc, v.bits(far), sign));
  return v.select(v.compare(graph::Predicate::lt, magnitude, v.f32(1.0)), near, far);
}

/// As the device library has it (nano_functions.h).
Value normalCdf(VectorOps &v, Value x) {
  Value word = v.bits(x), valueMask = v.i32(INT32_MAX);
  v.spread({&word, &valueMask});
  Value magnitude = v.fromBits(arith::AndIOp::create(v.b, v.loc, word, valueMask));
  Value power =
      v.polynomial(magnitude, {-7.1265293e-07, 1.2684437e-05, -5.539141e-05, -0.00045412857,
                               0.0074654128, -0.05275444, -0.45913383, -1.1511121, -1});
  Value tail = v.expBelow(v.mulf(power, v.f32(0.69314718055994531)));
  return v.select(v.compare(graph::Predicate::lt, x, v.f32(0.0)), tail, v.subf(v.f32(1.0), tail));
}

Value sign(VectorOps &v, Value x) {
  Value zero = v.f32(0.0);
  Value negative = v.select(v.compare(graph::Predicate::lt, x, zero), v.f32(-1.0), x);
  return v.select(v.compare(graph::Predicate::gt, x, zero), v.f32(1.0), negative);
}

/// ln s of s = 1 + x, with what that rounds away, over s, added to it, which small x would not
/// reach. Where s is 0 or infinite that is no number, and ln s is all.
Value log1p(VectorOps &v, Value x) {
  Value one = v.f32(1.0), sum = v.addf(one, x), rest = v.subf(x, v.subf(sum, one));
  Value y = v.log(sum), more = v.divf(rest, sum);
  return v.select(v.compare(graph::Predicate::eq, more, more), v.addf(y, more), y);
}

/// The larger one, and ln(1 + t) of t = e^(smaller − larger): with what 1 + t rounds away added to
/// the logarithm, which small t would not reach.
Value logAddExp(VectorOps &v, Value a, Value b) {
  Value larger = v.max(a, b), one = v.f32(1.0), t = v.exp(v.subf(v.min(a, b), larger));
  Value sum = v.addf(one, t), rest = v.subf(t, v.subf(sum, one));
  Value y = v.addf(larger, v.addf(v.log(sum), rest));
  Value ofEqual = v.addf(a, v.f32(0.6931471805599453)); // infinities among them
  return v.select(v.compare(graph::Predicate::eq, a, b), ofEqual, y);
}

/// The code of vectors of a function that LLVM has no instruction for, or of one that no library
/// has.
struct FunctionCode {
  using OfOne = Value (*)(VectorOps &v, Value x);
  using OfTwo = Value (*)(VectorOps &v, Value a, Value b);
  constexpr FunctionCode(StringRef op, OfOne code) : op(op), ofOne(code) {}
  constexpr FunctionCode(StringRef op, OfTwo code) : op(op), ofTwo(code) {}

  Value operator()(VectorOps &v, ValueRange operands) const {
    return ofOne ? ofOne(v, operands[0]) : ofTwo(v, operands[0], operands[1]);
  }

  StringRef op;
  OfOne ofOne = nullptr;
  OfTwo ofTwo = nullptr;
};
constexpr FunctionCode codes[] = {
    {"nano.exp", [](VectorOps &v, Value x) { return v.exp(x); }},
    {"nano.log", [](VectorOps &v, Value x) { return v.log(x); }},
    {"nano.log1p", log1p},
    {"nano.tanh", [](VectorOps &v, Value x) { return v.tanh(x); }},
    {"nano.erf", erf},
    {"nano.normalcdf", normalCdf},
    {"nano.sigmoid", [](VectorOps &v, Value x) { return v.sigmoid(x); }},
    {"nano.sin", [](VectorOps &v, Value x) { return v.sin(x); }},
    {"nano.cos", [](VectorOps &v, Value x) { return v.cos(x); }},
    {"nano.rsqrt", [](VectorOps &v, Value x) { return v.rsqrt(x); }},
    {"nano.sign", sign},
    {"nano.logaddexp", logAddExp}};
} // namespace

Value VectorOps::function(StringRef name, const graph::FunctionTraits &traits, ValueRange operands,
                          Type rounded) {
  if (traits.op.empty() || !usesLibrary)
    for (const FunctionCode &each : codes)
      if (each.op == name)
        return each(*this, operands);
  if (traits.op.empty())
    llvm::reportFatalInternalError(Twine(name) + " has neither an .op among its facts nor a line "
                                                 "in passes/emit/SpecialFunctions.cpp");
  OperationState state(loc, traits.op);
  const bool isOfVectors = llvm::any_of(operands, isVector);
  for (Value x : operands)
    state.operands.push_back(isOfVectors ? splat(x) : x);
  state.addTypes(state.operands.front().getType());
  if (usesLibrary && traits.isApproximatedWhereNarrow && isNarrowFloat(rounded))
    state.addAttribute("fastmath",
                       arith::FastMathFlagsAttr::get(b.getContext(), arith::FastMathFlags::afn));
  return b.create(state)->getResult(0);
}

} // namespace nano::kernels
