// The head with its loss and gradients, chunked and fused, against the plain equations: the same
// program before those passes, both run through the interpreter.
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
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

constexpr int64_t rows = 384, columns = 130, width = 16, chunk = 128;

struct Head {
  std::string name;
  std::string type;   ///< of activations: f32 or bf16
  std::string logits; ///< ops that compute %x of %f, both f32 [rows, columns]
  /// exp, sigmoid and tanh that a kernel evaluates for an element. A log-sum-exp without a bound
  /// takes one for itself: it is of the difference to the largest logit so far.
  int64_t exponentials;
  /// Largest difference of the loss, relative, and of a gradient, relative to its largest element,
  /// when every op rounds.
  double lossTolerance, gradientTolerance;
};

std::ostream &operator<<(std::ostream &os, const Head &head) { return os << head.name; }

std::string wide(const std::string &type) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + type + ">";
}

std::string constant(const std::string &name, double value) {
  return "%" + name + " = nano.constant " + std::to_string(value) + " : " + wide("f32") + "\n";
}

const std::string softcap =
    constant("scale", 3) + constant("cap", 30) + "%q = nano.div %f, %scale : " + wide("f32") +
    "\n%s = nano.sigmoid %q : " + wide("f32") + "\n%x = nano.mul %s, %cap : " + wide("f32") + "\n";
const std::string tanhCap = constant("cap", 15) + "%q = nano.div %f, %cap : " + wide("f32") +
                            "\n%s = nano.tanh %q : " + wide("f32") +
                            "\n%x = nano.mul %s, %cap : " + wide("f32") + "\n";
const std::string plain = constant("none", 0) + "%x = nano.add %f, %none : " + wide("f32") + "\n";

// Rounded in f32: sums over 130 columns and 384 rows in other orders, some tens of steps of 6e-8.
// With bf16 activations the plain program rounds the product that gives the weight's gradient to
// bf16 before it is accumulated in f32, 2⁻⁹ of an element; the chunked one does not. An element of
// the logits' gradient may be rounded to the other neighbour, which changes a sum by less.
const Head heads[] = {
    {"softcap_f32", "f32", softcap, 2, 2e-6, 2e-5},
    {"softcap_bf16", "bf16", softcap, 2, 2e-6, 4e-3},
    {"tanh_bf16", "bf16", tanhCap, 2, 2e-6, 4e-3},
    {"plain_f32", "f32", plain, 2, 2e-6, 2e-5},
    {"plain_bf16", "bf16", plain, 2, 2e-6, 4e-3},
};

std::string moduleText(const Head &head) {
  std::string t = std::to_string(rows), v = std::to_string(columns), d = std::to_string(width);
  std::string x = "tensor<" + t + "x" + d + "x" + head.type + ">",
              w = "tensor<" + v + "x" + d + "x" + head.type + ">",
              stored = "tensor<" + v + "x" + d + "xf32>", ids = "tensor<" + t + "xi32>",
              row = "tensor<" + t + "xf32>";
  bool casts = head.type != "f32";
  auto state = [&](const std::string &name, const std::string &type, const char *deviation) {
    return "nano.state @" + name + " : " + type +
           " {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, " + deviation +
           "]>, optimizer = @all}\n";
  };
  return "nano.scalar @lr : f32 {\n^bb0(%s: f64, %n: f64, %q: f64, %w: f64):\n  nano.yield %s : "
         "f64\n}\n"
         "nano.optimizer @all of \"all\" lr @lr {inits = array<f64>, kind = \"none\", states = "
         "[]}\n" +
         state("embed", w, "1.0") + state("head", stored, "0.8") +
         "nano.program @train(%tokens: " + ids + ", %targets: " + ids +
         ") -> tensor<f32> attributes {role = \"train\"} {\n"
         "%table = nano.load @embed : " +
         w + "\n%h = nano.gather %table, %tokens : (" + w + ", " + ids + ") -> " + x +
         "\n%stored = nano.load @head : " + stored + "\n" +
         (casts ? "%w = nano.cast %stored : " + stored + " -> " + w + "\n" : "") +
         "%z = nano.matmul %h, " + (casts ? "%w" : "%stored") + " {transpose_b} : (" + x + ", " +
         w + ") -> " + wide(head.type) + "\n" +
         (casts ? "%f = nano.cast %z : " + wide(head.type) + " -> " + wide("f32") + "\n"
                : constant("zero", 0) + "%f = nano.add %z, %zero : " + wide("f32") + "\n") +
         head.logits + "%loss, %lse = nano.cross_entropy %x, %targets : (" + wide("f32") + ", " +
         ids + ") -> (" + row + ", " + row + ")\n%sum = nano.reduce sum %loss dims [0] : " + row +
         " -> tensor<f32>\nnano.return %sum : tensor<f32>\n}\n";
}

class LinearCrossEntropyTest : public testing::TestWithParam<Head> {
protected:
  LinearCrossEntropyTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(bool fused) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(moduleText(GetParam()), &context);
    EXPECT_TRUE(module);
    PassManager passes(&context);
    passes.addPass(nano::createDifferentiate());
    if (fused) {
      passes.addPass(createCanonicalizerPass());
      passes.addPass(createCSEPass());
      passes.addPass(nano::createRecompute());
      nano::ChunkRowsOptions options;
      options.maxBytes = chunk * columns * static_cast<int64_t>(sizeof(float));
      passes.addPass(nano::createChunkRows(options));
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
    std::vector<TensorValue> arguments;
    for (Type type : train.getArgumentTypes())
      arguments.push_back(TensorValue::integers(cast<ShapedType>(type), random, 0, columns));
    auto results = nano::test::interpret(train, arguments, states, {arithmetic});
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? results->front().data.front() : NAN;
  }

  void compare(Arithmetic arithmetic, double lossTolerance, double gradientTolerance) {
    OwningOpRef<ModuleOp> reference = compile(false), fused = compile(true);
    StateMap expected, actual;
    double loss = run(*reference, expected, arithmetic);
    EXPECT_NEAR(run(*fused, actual, arithmetic), loss, lossTolerance * std::abs(loss));
    for (const char *name : {"grad.embed", "grad.head"}) {
      const std::vector<double> &want = expected.at(name).data, &have = actual.at(name).data;
      ASSERT_EQ(want.size(), have.size());
      double largest = 0;
      for (double g : want)
        largest = std::max(largest, std::abs(g));
      ASSERT_GT(largest, 0);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(have[i], want[i], gradientTolerance * largest) << name << "[" << i << "]";
    }
  }

  MLIRContext context;
};

// In double precision only the order of sums differs.
TEST_P(LinearCrossEntropyTest, SameInExactArithmetic) { compare(Arithmetic::exact, 1e-12, 1e-11); }

TEST_P(LinearCrossEntropyTest, CloseWhenEveryOpRounds) {
  compare(Arithmetic::rounded, GetParam().lossTolerance, GetParam().gradientTolerance);
}

// One kernel a chunk reads the logits and writes their gradient in the type that the products read;
// no tensor of all rows, and none in f32 unless the model is in f32, crosses memory; no logits have
// a pass for their largest.
TEST_P(LinearCrossEntropyTest, LogitsExistAChunkAtATime) {
  OwningOpRef<ModuleOp> fused = compile(true);
  int64_t kernels = 0;
  for (Operation &op : programWithRole(*fused, "train").getBody().front()) {
    for (Value result : op.getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      if (type.getNumElements() < chunk * columns)
        continue;
      EXPECT_EQ(type.getDimSize(0), chunk) << op.getName().getStringRef().str();
      EXPECT_EQ(type.getElementType().isF32(), GetParam().type == "f32");
    }
    auto kernel = dyn_cast<FusedOp>(op);
    if (!kernel || kernel.getBody().front().getOps<IotaOp>().empty())
      continue;
    ++kernels;
    int64_t exponentials = 0;
    for (Operation &inner : kernel.getBody().front()) {
      auto reduce = dyn_cast<ReduceOp>(inner);
      EXPECT_FALSE(reduce && reduce.getCombiner() == Combiner::max);
      exponentials += isa<ExpOp, SigmoidOp, TanhOp>(inner) ||
                      (reduce && reduce.getCombiner() == Combiner::logsumexp);
    }
    EXPECT_EQ(exponentials, GetParam().exponentials);
    EXPECT_EQ(kernel.getNumResults(), 2u);
  }
  EXPECT_EQ(kernels, rows / chunk);
}

INSTANTIATE_TEST_SUITE_P(Heads, LinearCrossEntropyTest, testing::ValuesIn(heads),
                         testing::PrintToStringParamName());

} // namespace
