// Losses whose product makes their exponentials (nano-shift-losses), against the program before:
// both run through the interpreter.
#include "ir/graph/Program.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::StateMap;
using nano::test::TensorValue;

namespace {

constexpr int64_t tokens = 256, vocabulary = 256, part = 128;

struct ShiftedLoss {
  std::string name;
  /// Ops that compute %sum of %loss, %lse and %weight, all [rows].
  std::string ops;
  int64_t kept = vocabulary; ///< a target's columns; the others' logits are masked
  /// The logits' standard deviation: with 64 some targets are more than 124 below the largest.
  double deviation = 2;
  bool isTied = false; ///< the head's weight is the embedding
  /// Largest difference of the loss, relative, and of a gradient, relative to its norm, when every
  /// op rounds.
  double lossTolerance = 1e-3, gradientTolerance = 8e-3;

  bool isWeighted() const { return ops.find("%weight") != std::string::npos; }
};

std::ostream &operator<<(std::ostream &os, const ShiftedLoss &of) { return os << of.name; }

const std::string mean = "%sum = nano.reduce sum %loss dims [0] : tensor<256xf32> -> tensor<f32>\n";
const std::string weighted =
    "%l = nano.mul %loss, %weight : tensor<256xf32>\n"
    "%sum = nano.reduce sum %l dims [0] : tensor<256xf32> -> tensor<f32>\n";
const std::string withSquares =
    "%c = nano.constant 1.0e-02 : tensor<256xf32>\n%q = nano.mul %lse, %lse : tensor<256xf32>\n"
    "%r = nano.mul %q, %c : tensor<256xf32>\n%k = nano.mul %loss, %weight : tensor<256xf32>\n"
    "%l = nano.add %k, %r : tensor<256xf32>\n"
    "%sum = nano.reduce sum %l dims [0] : tensor<256xf32> -> tensor<f32>\n";

// What differs is rounding: of exponentials where that of gradients was, 2⁻⁹ of each; of one
// factor of the weight's gradient once more, 2⁻⁹; and of the target's logit, which is not rounded
// to bf16 where all others are: 2⁻⁹ of it in a loss, which is a few of these numbers here. Where
// logits are as large as 200 that is 0.4, and an exponential is off by half of itself.
const ShiftedLoss shiftedLosses[] = {
    {"mean", mean},
    {"masked", mean, 200},
    {"weighted", weighted, 199},
    {"squares", withSquares, 250},
    {"tied", weighted, 201, 2, true},
    {"far", mean, vocabulary, 64, false, 2e-2, 0.3},
    {"farTied", withSquares, 200, 64, true, 2e-2, 0.3},
};

std::string moduleText(const ShiftedLoss &of) {
  const std::string deviation = std::to_string(of.deviation / 4);
  const auto state = [](const std::string &name, const std::string &type,
                        const std::string &scale) {
    return "nano.state @" + name + " : " + type +
           " {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, " + scale +
           "]>, optimizer = @all}\n";
  };
  const std::string weight =
      of.isWeighted() ? "%weight = nano.load @weights : tensor<256xf32>\n" : "";
  const std::string masked =
      of.kept == vocabulary
          ? "%x = nano.cast %z : tensor<256x256xbf16> -> tensor<256x256xf32>\n"
          : "%f = nano.cast %z : tensor<256x256xbf16> -> tensor<256x256xf32>\n"
            "%i = nano.iota 1 : tensor<256x256xi32>\n"
            "%n = nano.constant " +
                std::to_string(of.kept) +
                ".0 : tensor<256x256xi32>\n%none = nano.constant -1.0e+30 : tensor<256x256xf32>\n"
                "%x = nano.select lt, %i, %n, %f, %none : tensor<256x256xi32>, "
                "tensor<256x256xf32>\n";
  return "nano.scalar @lr : f32 {\n^bb0(%s: f64, %n: f64, %q: f64, %w: f64):\n  nano.yield %s : "
         "f64\n}\nnano.optimizer @all of \"all\" lr @lr {inits = array<f64>, kind = \"none\", "
         "states = []}\n" +
         state("embed", "tensor<256x16xf32>", "1.0") +
         (of.isTied ? "" : state("head", "tensor<256x16xf32>", deviation)) +
         (of.isWeighted() ? state("weights", "tensor<256xf32>", "1.0") : "") +
         "nano.program @train(%tokens: tensor<256xi32>, %targets: tensor<256xi32>) -> tensor<f32> "
         "attributes {role = \"train\"} {\n"
         "%table = nano.load @embed : tensor<256x16xf32>\n"
         "%h = nano.gather %table, %tokens : (tensor<256x16xf32>, tensor<256xi32>) -> "
         "tensor<256x16xf32>\n%scale = nano.constant " +
         (of.isTied ? deviation : "1.0") +
         " : tensor<256x16xf32>\n%hs = nano.mul %h, %scale : tensor<256x16xf32>\n"
         "%a = nano.cast %hs : tensor<256x16xf32> -> tensor<256x16xbf16>\n"
         "%stored = nano.load @" +
         (of.isTied ? "embed" : "head") +
         " : tensor<256x16xf32>\n%w = nano.cast %stored : tensor<256x16xf32> -> "
         "tensor<256x16xbf16>\n"
         "%z = nano.matmul %a, %w {transpose_b} : (tensor<256x16xbf16>, tensor<256x16xbf16>) -> "
         "tensor<256x256xbf16>\n" +
         masked + weight +
         "%loss, %lse = nano.cross_entropy %x, %targets : (tensor<256x256xf32>, tensor<256xi32>) "
         "-> (tensor<256xf32>, tensor<256xf32>)\n" +
         of.ops + "nano.return %sum : tensor<f32>\n}\n";
}

class ShiftLossesTest : public testing::TestWithParam<ShiftedLoss> {
protected:
  ShiftLossesTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(bool isShifted) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(moduleText(GetParam()), &context);
    EXPECT_TRUE(module);
    PassManager passes(&context);
    passes.addPass(nano::createDifferentiate());
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    if (isShifted) {
      passes.addPass(nano::createRecompute());
      nano::ShiftLossesOptions losses;
      losses.losses = "product";
      passes.addPass(nano::createShiftLosses(losses));
      passes.addPass(nano::createJoinScatters());
      nano::ChunkRowsOptions chunks;
      chunks.maxBytes = part * vocabulary * 2;
      passes.addPass(nano::createChunkRows(chunks));
      passes.addPass(nano::createFoldMatmulEpilogues());
      passes.addPass(nano::createFuse());
    }
    EXPECT_TRUE(succeeded(passes.run(*module)));
    return module;
  }

  /// The loss, and the gradients in `states`.
  double run(ModuleOp module, StateMap &states, Arithmetic arithmetic) {
    ProgramOp train = programWithRole(module, "train");
    std::mt19937_64 random(7);
    nano::test::startStates(module, states, random);
    // Factors that bf16 has, so that what is rounded is what is computed; weights of which a third
    // are 0.
    const Type bf16 = BFloat16Type::get(&context);
    for (auto &[name, value] : states)
      for (double &number : value.data)
        number = nano::test::roundTo(number, bf16);
    if (GetParam().isWeighted())
      for (auto [i, weight] : llvm::enumerate(states.at("weights").data))
        weight = i % 3 == 0 ? 0 : std::abs(weight);
    std::vector<TensorValue> arguments;
    for (Type type : train.getArgumentTypes())
      arguments.push_back(
          TensorValue::integers(cast<ShapedType>(type), random, 0, GetParam().kept));
    auto results = nano::test::interpret(train, arguments, states, {arithmetic});
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? results->front().data.front() : NAN;
  }

  void compare(Arithmetic arithmetic, double lossTolerance, double gradientTolerance) {
    OwningOpRef<ModuleOp> reference = compile(false), shifted = compile(true);
    StateMap expected, actual;
    const double loss = run(*reference, expected, Arithmetic::exact);
    EXPECT_NEAR(run(*shifted, actual, arithmetic), loss, lossTolerance * std::abs(loss));
    for (const auto &[name, want] : expected) {
      if (name.rfind("grad.", 0) != 0)
        continue;
      const std::vector<double> &have = actual.at(name).data;
      ASSERT_EQ(want.data.size(), have.size());
      double off = 0, norm = 0;
      for (size_t i = 0; i < have.size(); ++i) {
        off += (have[i] - want.data[i]) * (have[i] - want.data[i]);
        norm += want.data[i] * want.data[i];
      }
      EXPECT_LE(std::sqrt(off), gradientTolerance * std::sqrt(norm)) << name;
    }
  }

  MLIRContext context;
};

// In double precision only the order of sums differs.
TEST_P(ShiftLossesTest, SameInExactArithmetic) { compare(Arithmetic::exact, 1e-11, 1e-10); }

TEST_P(ShiftLossesTest, CloseWhenEveryOpRounds) {
  compare(Arithmetic::rounded, GetParam().lossTolerance, GetParam().gradientTolerance);
}

// Nothing but the products reads or writes a matrix of the logits' size.
TEST_P(ShiftLossesTest, NoPassOverTheLogits) {
  OwningOpRef<ModuleOp> shifted = compile(true);
  int64_t made = 0;
  for (Operation &op : programWithRole(*shifted, "train").getBody().front()) {
    made += isa<ExpMatmulOp>(op);
    EXPECT_FALSE(isa<CrossEntropyOp>(op));
    for (Value result : op.getResults())
      EXPECT_TRUE(isa<ExpMatmulOp>(op) ||
                  cast<RankedTensorType>(result.getType()).getNumElements() < part * vocabulary)
          << op.getName().getStringRef().str();
  }
  EXPECT_EQ(made, tokens / part);
}

INSTANTIATE_TEST_SUITE_P(Losses, ShiftLossesTest, testing::ValuesIn(shiftedLosses),
                         testing::PrintToStringParamName());

} // namespace
