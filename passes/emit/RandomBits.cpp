// Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; 2011) and normal
// numbers of its bits as code of vectors.
#include "passes/emit/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <numbers>

using namespace mlir;

namespace nano::kernels {

constexpr int rounds = 10;
constexpr uint32_t multipliers[] = {0xd2511f53, 0xcd9e8d57}, weyl[] = {0x9e3779b9, 0xbb67ae85};

/// The device library's function, which shares what neighbouring lanes have in common. `element`:
/// of its result.
static Value callLibrary(VectorOps &v, StringRef name, ValueRange operands, Type element) {
  auto module = v.b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  const bool isOfVectors = VectorOps::isVector(operands.front());
  const Type type = isOfVectors ? Type(v.vectorOf(element)) : element;
  const std::string callee =
      isOfVectors ? (name + "<" + Twine(v.lanes) + ">").str() : name.str(); // else of numbers
  if (!module.lookupSymbol(callee)) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
    func::FuncOp::create(atStart, module.getLoc(), callee,
                         v.b.getFunctionType(operands.getTypes(), type))
        .setPrivate();
  }
  return func::CallOp::create(v.b, v.loc, callee, TypeRange(type), operands).getResult(0);
}

Value VectorOps::philox(ValueRange counterAndKey) {
  std::array<Value, 6> words;
  llvm::copy(counterAndKey, words.begin());
  spread({&words[0], &words[1], &words[2], &words[3], &words[4], &words[5]});
  if (usesLibrary)
    return callLibrary(*this, "philox", words, b.getI32Type());
  auto [first, c1, c2, c3, k0, k1] = words;
  Value c0 = shiftRight(first, i32(2));
  auto product = [&](Value x, uint32_t multiplier) {
    Value factor = i32(multiplier);
    spread({&x, &factor});
    return arith::MulUIExtendedOp::create(b, loc, x, factor);
  };
  for (int round = 0; round < rounds; ++round) {
    auto a = product(c0, multipliers[0]), c = product(c2, multipliers[1]);
    c0 = xori(xori(c.getHigh(), c1), k0);
    c2 = xori(xori(a.getHigh(), c3), k1);
    c1 = c.getLow();
    c3 = a.getLow();
    k0 = addi(k0, i32(weyl[0]));
    k1 = addi(k1, i32(weyl[1]));
  }
  auto isWord = [&](int64_t word) {
    return compare(graph::Predicate::eq, andi(first, i32(3)), i32(word));
  };
  return select(isWord(0), c0, select(isWord(1), c1, select(isWord(2), c2, c3)));
}

Value VectorOps::normal(Value radius, Value angle, Value side) {
  spread({&radius, &angle, &side});
  if (usesLibrary)
    return callLibrary(*this, "normal", {radius, angle, side}, b.getF32Type());
  // Whole numbers of 24 bits, which f32 has; of the angle with a sign: half turns at most.
  auto number = [&](Value x) -> Value {
    const Type f32Type = b.getF32Type();
    return arith::SIToFPOp::create(b, loc, isVector(x) ? Type(vectorOf(f32Type)) : f32Type, x);
  };
  const Value unit = fma(number(shiftRight(radius, i32(8))), f32(-0x1p-24), f32(1.0));
  const Value square = mulf(log(unit), f32(-2.0));
  const Value turn = mulf(number(andi(angle, i32(~0xff))), f32(std::numbers::pi * 0x1p-31));
  const Value ofSide =
      select(compare(graph::Predicate::eq, side, i32(0)), sinCos(turn, 1), sinCos(turn, 0));
  return mulf(math::SqrtOp::create(b, loc, square), ofSide);
}

} // namespace nano::kernels
