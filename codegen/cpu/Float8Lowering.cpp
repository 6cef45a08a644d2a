// Conversions between f32 and 8-bit floats in integer and f32 arithmetic on vectors.
//
// Numbers of a format with m mantissa bits and bias B are those of f32 with 23 − m mantissa bits
// fewer and an exponent that is 127 − B less, except that below 2^(1 − B) they are multiples of
// 2^(1 − B − m): there adding 2^(1 − B − m + 23) makes f32 arithmetic round to them.
#include "codegen/cpu/Float8Lowering.h"

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/DialectConversion.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace nano::codegen {

namespace {

struct Format {
  int mantissa, bias;
  uint32_t largest;   ///< bits of the largest finite number as an f32
  uint32_t firstNan;  ///< the least magnitude code that is NaN
  uint32_t notFinite; ///< the least magnitude code that is no number
};
constexpr Format e4m3{3, 7, 0x43e00000, 0x7f, 0x7f};  // largest: 448
constexpr Format e5m2{2, 15, 0x47600000, 0x7d, 0x7c}; // largest: 57344

std::optional<Format> formatOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<Float8E4M3FNType>(element))
    return e4m3;
  if (isa<Float8E5M2Type>(element))
    return e5m2;
  return std::nullopt;
}

/// Builds LLVM ops on i32 and f32, each in as many lanes as the converted op has.
struct Emitter {
  Emitter(OpBuilder &b, Location loc, Type like)
      : b(b), loc(loc), i32(shaped(like, b.getI32Type())), f32(shaped(like, b.getF32Type())) {}

  static Type shaped(Type like, Type element) {
    if (auto vector = dyn_cast<VectorType>(like))
      return VectorType::get(vector.getShape(), element);
    return element;
  }
  Value integer(uint32_t value) {
    TypedAttr attribute = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto vector = dyn_cast<VectorType>(i32))
      attribute = DenseElementsAttr::get(vector, Attribute(attribute));
    return LLVM::ConstantOp::create(b, loc, i32, attribute);
  }
  Value number(float value) { return toF32(integer(std::bit_cast<uint32_t>(value))); }
  Value toF32(Value x) { return LLVM::BitcastOp::create(b, loc, f32, x); }
  Value toBits(Value x) { return LLVM::BitcastOp::create(b, loc, i32, x); }
  Value add(Value x, Value y) { return LLVM::AddOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return LLVM::SubOp::create(b, loc, x, y); }
  Value both(Value x, uint32_t y) { return LLVM::AndOp::create(b, loc, x, integer(y)); }
  Value either(Value x, Value y) { return LLVM::OrOp::create(b, loc, x, y); }
  Value left(Value x, uint32_t by) { return LLVM::ShlOp::create(b, loc, x, integer(by)); }
  Value right(Value x, uint32_t by) { return LLVM::LShrOp::create(b, loc, x, integer(by)); }
  /// x < bound ? yes : no, unsigned.
  Value below(Value x, uint32_t bound, Value yes, Value no) {
    Value test = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, x, integer(bound));
    return LLVM::SelectOp::create(b, loc, test, yes, no);
  }

  OpBuilder &b;
  Location loc;
  Type i32, f32;
};

struct NarrowToFloat8 : OpConversionPattern<arith::TruncFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    std::optional<Format> format = formatOf(op.getType());
    if (!format || !getElementTypeOrSelf(op.getIn().getType()).isF32())
      return failure();
    Emitter e(rewriter, op.getLoc(), op.getType());
    uint32_t dropped = 23 - format->mantissa;
    Value bits = e.toBits(adaptor.getIn());
    Value sign = e.both(e.right(bits, 24), 0x80), magnitude = e.both(bits, 0x7fffffff);
    Value finite = e.below(magnitude, format->largest, magnitude, e.integer(format->largest));
    // To nearest even: half a unit less one, and one more where the last kept bit is odd. The
    // change of bias is part of that sum.
    Value odd = e.both(e.right(finite, dropped), 1);
    uint32_t rebias = static_cast<uint32_t>(127 - format->bias) << 23;
    uint32_t half = (uint32_t{1} << (dropped - 1)) - 1;
    Value normal = e.right(e.add(e.add(finite, odd), e.integer(half - rebias)), dropped);
    float magic = std::ldexp(1.0F, 1 - format->bias - format->mantissa + 23);
    Value shifted = LLVM::FAddOp::create(rewriter, op.getLoc(), e.toF32(finite), e.number(magic));
    Value subnormal = e.sub(e.toBits(shifted), e.integer(std::bit_cast<uint32_t>(magic)));
    Value code =
        e.below(finite, static_cast<uint32_t>(128 - format->bias) << 23, subnormal, normal);
    code = e.below(magnitude, 0x7f800001, code, e.integer(0x7f));
    Type i8 = Emitter::shaped(op.getType(), rewriter.getI8Type());
    rewriter.replaceOpWithNewOp<LLVM::TruncOp>(op, i8, e.either(code, sign));
    return success();
  }
};

struct WidenFloat8 : OpConversionPattern<arith::ExtFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    std::optional<Format> format = formatOf(op.getIn().getType());
    if (!format || !getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    Emitter e(rewriter, op.getLoc(), op.getType());
    Value code = LLVM::ZExtOp::create(rewriter, op.getLoc(), e.i32, adaptor.getIn());
    Value sign = e.left(e.both(code, 0x80), 24), magnitude = e.both(code, 0x7f);
    Value placed = e.left(magnitude, 23 - format->mantissa);
    Value normal = e.add(placed, e.integer(static_cast<uint32_t>(127 - format->bias) << 23));
    // The mantissa as an integer times the least number; f32 subnormals, which are slow, are not
    // met.
    Value units = LLVM::SIToFPOp::create(rewriter, op.getLoc(), e.f32, magnitude);
    Value least = e.number(std::ldexp(1.0F, 1 - format->bias - format->mantissa));
    Value subnormal = e.toBits(LLVM::FMulOp::create(rewriter, op.getLoc(), units, least));
    Value value = e.below(magnitude, 1U << format->mantissa, subnormal, normal);
    Value special =
        e.below(magnitude, format->firstNan, e.integer(0x7f800000), e.integer(0x7fc00000));
    value = e.below(magnitude, format->notFinite, value, special);
    rewriter.replaceOp(op, e.toF32(e.either(value, sign)));
    return success();
  }
};

} // namespace

void populateFloat8Patterns(LLVMTypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<NarrowToFloat8, WidenFloat8>(converter, patterns.getContext(), /*benefit=*/2);
}

} // namespace nano::codegen
