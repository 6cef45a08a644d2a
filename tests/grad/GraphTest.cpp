// Whole training functions: nano-differentiate against central differences, and nano-recompute
// against what it started from.
#include "passes/Passes.h"
#include "tests/grad/Graphs.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {
namespace {

constexpr double step = 1e-5, tolerance = 1e-6;

struct WholeGraphTest : testing::TestWithParam<Graph> {
  WholeGraphTest() {
    context.loadDialect<NanoDialect>();
    std::string states;
    SmallVector<StringRef> parameters;
    StringRef(GetParam().parameters).split(parameters, ", ");
    for (StringRef parameter : parameters) {
      auto [name, type] = parameter.split(' ');
      names.push_back(name.str());
      states += ("nano.state @" + name + " : tensor<" + type +
                 "> {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, 0.7]>, "
                 "optimizer = @all}\n")
                    .str();
    }
    module = parseSourceString<ModuleOp>(
        "nano.scalar @lr : f32 {\n^bb0(%s: f64, %n: f64, %q: f64, %w: f64):\n  nano.yield %s : "
        "f64\n}\n"
        "nano.optimizer @all of \"all\" lr @lr {inits = array<f64>, kind = \"none\", states = "
        "[]}\n" +
            states +
            "nano.program @train(%tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> tensor<f32> "
            "attributes {role = \"train\"} {" +
            GetParam().body + "}\n",
        &context);
    if (module)
      initializeStates(*module, initial, random);
    for (int i = 0; i < 2; ++i)
      arguments.push_back(TensorValue::integers(
          RankedTensorType::get({6}, IntegerType::get(&context, 32)), random, 0, 5));
  }

  ProgramOp train() { return module->lookupSymbol<ProgramOp>("train"); }

  LogicalResult run(std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    manager.addPass(std::move(pass));
    return manager.run(*module);
  }

  /// The loss; the gradients end up in `states`.
  double evaluate(StateMap &states, Arithmetic arithmetic = Arithmetic::exact) {
    auto results = interpret(train(), arguments, states, {arithmetic});
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? results->front().data[0] : 0;
  }

  int64_t countOps() {
    return std::distance(train().getBody().front().begin(), train().getBody().front().end());
  }

  MLIRContext context;
  std::mt19937_64 random{7};
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> names;
  StateMap initial;
  SmallVector<TensorValue> arguments;
};

TEST_P(WholeGraphTest, GradientsAgreeWithFiniteDifferences) {
  ASSERT_TRUE(module);
  std::map<std::string, std::vector<double>> numeric;
  double largest = 0;
  for (const std::string &name : names)
    for (size_t i = 0; i < initial[name].data.size(); ++i) {
      StateMap above = initial, below = initial;
      above[name].data[i] += step;
      below[name].data[i] -= step;
      numeric[name].push_back((evaluate(above) - evaluate(below)) / (2 * step));
      largest = std::max(largest, std::abs(numeric[name].back()));
    }
  ASSERT_GT(largest, 0.01);
  StateMap states = initial;
  double loss = evaluate(states);
  ASSERT_TRUE(succeeded(run(createDifferentiate())));
  states = initial;
  EXPECT_EQ(evaluate(states), loss);
  for (const std::string &name : names) {
    auto gradient = states.find("grad." + name);
    ASSERT_NE(gradient, states.end());
    for (auto [i, expected] : llvm::enumerate(numeric[name]))
      EXPECT_NEAR(gradient->second.data[i], expected, tolerance * (1 + largest))
          << name << ", element " << i;
  }
}

/// Recomputing changes no bit of any gradient, in the elements' own precision.
TEST_P(WholeGraphTest, RecomputationChangesNothing) {
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(run(createDifferentiate())));
  ASSERT_TRUE(succeeded(run(createCSEPass())));
  StateMap before = initial, after = initial;
  double loss = evaluate(before, Arithmetic::rounded);
  int64_t ops = countOps();
  ASSERT_TRUE(succeeded(run(createRecompute())));
  EXPECT_EQ(countOps() > ops, GetParam().recomputes);
  EXPECT_EQ(evaluate(after, Arithmetic::rounded), loss);
  for (const std::string &name : names)
    EXPECT_EQ(after["grad." + name].data, before["grad." + name].data) << name;
}

INSTANTIATE_TEST_SUITE_P(Grad, WholeGraphTest, testing::ValuesIn(graphs().begin(), graphs().end()),
                         testing::PrintToStringParamName());

} // namespace
} // namespace nano::test
