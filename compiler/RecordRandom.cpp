// What random numbers of a model are keyed by: scalars that the host writes for each sequence.
#include "compiler/Recorder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace nano::frontend {

namespace {
/// Arguments of a scalar's body.
enum Argument : unsigned { Step = 0, Sequences = 2, Sequence = 4, SeedLow = 5, SeedHigh = 6 };
constexpr unsigned argumentCount = 7;

/// The number of the sequence in the run, step · sequences + sequence, as an i32 that wraps.
Value sequenceOfRun(OpBuilder &b, Location loc, Block &block) {
  auto number = [&](double value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(value));
  };
  const Value before =
      arith::MulFOp::create(b, loc, block.getArgument(Step), block.getArgument(Sequences));
  const Value all = arith::AddFOp::create(b, loc, before, block.getArgument(Sequence));
  const Value turns = arith::DivFOp::create(b, loc, all, number(0x1p32));
  const Value whole =
      math::FloorOp::create(b, loc, Value(arith::AddFOp::create(b, loc, turns, number(0.5))));
  return arith::SubFOp::create(b, loc, all,
                               Value(arith::MulFOp::create(b, loc, whole, number(0x1p32))));
}
} // namespace

Value Recorder::randomScalar(const char *symbol, Line at) {
  const auto type = RankedTensorType::get({}, builder.getI32Type());
  if (!module->lookupSymbol<graph::ScalarOp>(symbol)) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module->getBody());
    const Location loc = location(at);
    auto scalar = graph::ScalarOp::create(atStart, loc, symbol, builder.getI32Type());
    Block &block = scalar.getBody().emplaceBlock();
    block.addArguments(SmallVector<Type>(argumentCount, builder.getF64Type()),
                       SmallVector<Location>(argumentCount, loc));
    OpBuilder body = OpBuilder::atBlockEnd(&block);
    const StringRef name = symbol;
    const Value result = name == randomSequenceSymbol  ? sequenceOfRun(body, loc, block)
                         : name == randomSeedLowSymbol ? block.getArgument(SeedLow)
                                                       : block.getArgument(SeedHigh);
    graph::YieldOp::create(body, loc, ValueRange{result});
  }
  return op<graph::LoadOp>(at, type, symbol);
}

Recorder::RandomKey Recorder::randomKey(Line at) {
  if (outerProgram != 0)
    fail(at, fmt::format("random numbers: {}", insideRule));
  if (program == 0 || !recordsTraining)
    fail(at, "random numbers: are drawn in the training program alone");
  return {randomScalar(randomSequenceSymbol, at), randomUses++,
          randomScalar(randomSeedLowSymbol, at), randomScalar(randomSeedHighSymbol, at)};
}

} // namespace nano::frontend
