// The gradients of the models of this repository, as the compiler builds them, against differences
// of their losses along random directions; and recomputation, which must change no bit of them.
#include "passes/Passes.h"
#include "tests/support/Interpreter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdio>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {
namespace {

/// Step along a direction with elements of size 1, and the accepted error of the derivative along
/// it, relative to the sum of the absolute contributions of the parameters.
constexpr double step = 1e-6, tolerance = 1e-6;

struct Model {
  const char *name;
  /// Overrides that make it small.
  const char *options;
};

std::ostream &operator<<(std::ostream &os, const Model &model) { return os << model.name; }

constexpr const char *small = " -D seq_len=128 -D val_seq_len=128 -D "
                              "global_batch=128 -D eos_token=3 -D vocab_size=24";

constexpr Model models[] = {
    {"gpt124m", " -D num_layers=6 -D num_heads=2 -D head_dim=8 -D model_dim=12"},
    {"gpt2", " -D num_layers=2 -D num_heads=2 -D model_dim=16 -D block_size=64"},
};

/// What `nanoc` prints at the end of stage `model`.
std::string compile(const Model &model) {
  std::string command = NANOC;
  for (const char *part :
       {" compile ", NANO_MODELS, "/", model.name, ".cpp --stop-after model", small, model.options})
    command += part;
  std::string text;
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    return text;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, count);
  return pclose(pipe) == 0 ? text : std::string();
}

struct ModelGradTest : testing::TestWithParam<Model> {
  ModelGradTest() {
    context.loadDialect<NanoDialect, arith::ArithDialect, math::MathDialect>();
    module = parseSourceString<ModuleOp>(compile(GetParam()), &context);
    if (!module)
      return;
    for (auto state : module->getOps<StateOp>())
      initial[state.getSymName().str()] =
          TensorValue::normal(state.getTensorType(), random, 0, 0.3);
    for (auto scalar : module->getOps<ScalarOp>())
      initial[scalar.getSymName().str()] = TensorValue{{}, {1}};
    for (int i = 0; i < 2; ++i)
      arguments.push_back(
          TensorValue::integers(cast<ShapedType>(train().getArgumentTypes()[i]), random, 0, 24));
  }

  ProgramOp train() { return module->lookupSymbol<ProgramOp>("train"); }

  LogicalResult run(std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    manager.addPass(std::move(pass));
    return manager.run(*module);
  }

  double evaluate(StateMap &states, Arithmetic arithmetic = Arithmetic::exact) {
    auto results = interpret(train(), arguments, states, {arithmetic});
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? results->front().data[0] : 0;
  }

  MLIRContext context;
  std::mt19937_64 random{11};
  OwningOpRef<ModuleOp> module;
  StateMap initial;
  SmallVector<TensorValue> arguments;
};

TEST_P(ModelGradTest, GradientsAgreeWithTheLoss) {
  ASSERT_TRUE(module);
  // One direction a parameter, so that none hides behind the others, and the loss's slope along
  // each.
  StateMap directions;
  std::map<std::string, double> slopes;
  for (auto state : module->getOps<StateOp>()) {
    std::string name = state.getSymName().str();
    TensorValue direction = TensorValue::normal(state.getTensorType(), random);
    StateMap above = initial, below = initial;
    for (int64_t i = 0; i < direction.size(); ++i) {
      above[name].data[i] += step * direction.data[i];
      below[name].data[i] -= step * direction.data[i];
    }
    slopes[name] = (evaluate(above) - evaluate(below)) / (2 * step);
    directions[name] = std::move(direction);
  }
  ASSERT_TRUE(succeeded(run(createDifferentiate())));
  StateMap states = initial;
  evaluate(states);
  for (auto &[name, slope] : slopes) {
    const TensorValue &gradient = states["grad." + name];
    ASSERT_EQ(gradient.shape, initial[name].shape) << name;
    double along = 0, size = 0;
    for (auto [g, d] : llvm::zip_equal(gradient.data, directions[name].data)) {
      along += g * d;
      size += std::abs(g * d);
    }
    EXPECT_GT(size, 0) << name;
    EXPECT_NEAR(along, slope, tolerance * (1 + size)) << name;
  }
}

/// √Σ (a − b)² of two tensors; without b √Σ a².
double distance(const TensorValue &a, const TensorValue *b = nullptr) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    sum += std::pow(a.data[i] - (b ? b->data[i] : 0), 2);
  return std::sqrt(sum);
}

/// Nothing but where rows are taken from what attention reads of them: these are rounded another
/// time, which leaves gradients about as far from exact ones as they were.
TEST_P(ModelGradTest, RecomputationChangesNothing) {
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(run(createDifferentiate())));
  ASSERT_TRUE(succeeded(run(createCanonicalizerPass())));
  ASSERT_TRUE(succeeded(run(createCSEPass())));
  StateMap before = initial, after = initial, exact = initial, exactAfter = initial;
  double loss = evaluate(before, Arithmetic::rounded);
  evaluate(exact);
  ASSERT_TRUE(succeeded(run(createRecompute())));
  EXPECT_EQ(evaluate(after, Arithmetic::rounded), loss);
  evaluate(exactAfter);
  double offBefore = 0, offAfter = 0; // sums of squares of relative distances
  for (auto &[name, value] : before) {
    const double norm = std::max(distance(exact[name]), 1e-30);
    EXPECT_LE(distance(exactAfter[name], &exact[name]), 1e-12 * norm) << name;
    if (after[name].data == value.data)
      continue;
    offBefore += std::pow(distance(value, &exact[name]) / norm, 2);
    offAfter += std::pow(distance(after[name], &exact[name]) / norm, 2);
  }
  EXPECT_LE(std::sqrt(offAfter), 1.25 * std::sqrt(offBefore));
}

INSTANTIATE_TEST_SUITE_P(Grad, ModelGradTest, testing::ValuesIn(models),
                         testing::PrintToStringParamName());

} // namespace
} // namespace nano::test
