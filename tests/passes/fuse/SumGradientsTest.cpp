// Sums of the columns of attention's gradients that come with them, against those of a kernel that
// reads the gradients again: both run through the interpreter.
#include "ir/graph/GradientSums.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::StateMap;
using nano::test::TensorValue;

namespace {

/// Of 128 tokens, four heads of 16 elements of queries and two of keys and values. The matrix %m of
/// C columns, and the kernels that sum them to %s of type S.
struct Layout {
  std::string name, matrix, kernels;
  int64_t columns;
  std::string type;
};
std::ostream &operator<<(std::ostream &os, const Layout &layout) { return os << layout.name; }

/// The sums over `tokens` tokens as %parts.
std::string partsOf(int64_t columns, int64_t tokens, const std::string &name = "%parts") {
  const std::string c = std::to_string(columns), t = std::to_string(tokens),
                    p = std::to_string(128 / tokens);
  return name + " = nano.fused(%m) : (tensor<128x" + c + "xbf16>) -> tensor<" + p + "x" + c +
         "xf32> {\n^bb0(%a: tensor<128x" + c + "xbf16>):\n%0 = nano.cast %a : tensor<128x" + c +
         "xbf16> -> tensor<128x" + c + "xf32>\n%1 = nano.reshape %0 : tensor<128x" + c +
         "xf32> -> tensor<" + p + "x" + t + "x" + c +
         "xf32>\n%2 = nano.reduce sum %1 dims [1] : " + "tensor<" + p + "x" + t + "x" + c +
         "xf32> -> tensor<" + p + "x" + c + "xf32>\nnano.yield %2 : tensor<" + p + "x" + c +
         "xf32>\n}\n";
}

const Layout layouts[] = {
    {"heads",
     "%c = nano.concat %dq, %dk, %dv dim 1 : (tensor<128x4x16xbf16>, tensor<128x2x16xbf16>, "
     "tensor<128x2x16xbf16>) -> tensor<128x8x16xbf16>\n"
     "%m = nano.reshape %c : tensor<128x8x16xbf16> -> tensor<128x128xbf16>\n",
     partsOf(128, 128, "%s"), 128, "tensor<1x128xf32>"},
    {"matrices",
     "%k = nano.reshape %dk : tensor<128x2x16xbf16> -> tensor<128x32xbf16>\n"
     "%q = nano.reshape %dq : tensor<128x4x16xbf16> -> tensor<128x64xbf16>\n"
     "%m = nano.concat %k, %q dim 1 : (tensor<128x32xbf16>, tensor<128x64xbf16>) -> "
     "tensor<128x96xbf16>\n",
     partsOf(96, 64, "%s"), 96, "tensor<2x96xf32>"},
    {"fewer_parts", "%m = nano.reshape %dv : tensor<128x2x16xbf16> -> tensor<128x32xbf16>\n",
     partsOf(32, 32) + R"(%all = nano.reshape %parts : tensor<4x32xf32> -> tensor<1x4x32xf32>
%s = nano.fused(%all) : (tensor<1x4x32xf32>) -> tensor<1x32xf32> {
^bb0(%a: tensor<1x4x32xf32>):
  %0 = nano.reduce sum %a dims [1] : tensor<1x4x32xf32> -> tensor<1x32xf32>
  %1 = nano.add %0, %0 : tensor<1x32xf32>
  nano.yield %1 : tensor<1x32xf32>
}
)",
     32, "tensor<1x32xf32>"},
};

std::string programOf(const Layout &layout) {
  const std::string types =
      "tensor<128x4x16xbf16>, tensor<128x2x16xbf16>, tensor<128x2x16xbf16>, tensor<128xi32>, "
      "tensor<128xi32>, tensor<128x4xf32>, tensor<128x4xf32>, tensor<128x4x16xbf16>";
  const std::string m = "tensor<128x" + std::to_string(layout.columns) + "xbf16>";
  std::string arguments;
  int number = 0;
  for (llvm::StringRef type : llvm::split(types, ", ")) {
    arguments += (number > 0 ? ", %x" : "%x") + std::to_string(number) + ": " + type.str();
    ++number;
  }
  return "nano.program @run(" + arguments + ") -> (" + m + ", " + layout.type +
         ") {\n%dq, %dk, %dv = nano.attention_grad %x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7 scale "
         "2.5e-01 : (" +
         types + ") -> (tensor<128x4x16xbf16>, tensor<128x2x16xbf16>, tensor<128x2x16xbf16>)\n" +
         layout.matrix + layout.kernels + "nano.return %m, %s : " + m + ", " + layout.type +
         "\n}\n";
}

class SumGradientsTest : public testing::TestWithParam<Layout> {
protected:
  SumGradientsTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(bool sums) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(programOf(GetParam()), &context);
    EXPECT_TRUE(module) << programOf(GetParam());
    PassManager passes(&context);
    if (sums)
      passes.addPass(nano::createSumGradients());
    passes.addPass(nano::createVerifyFused());
    EXPECT_TRUE(module && succeeded(passes.run(*module)));
    return module;
  }
  static ProgramOp runOf(ModuleOp module) { return *module.getOps<ProgramOp>().begin(); }
  static SmallVector<TensorValue> run(ModuleOp module) {
    std::mt19937_64 random(11);
    std::vector<TensorValue> arguments;
    for (Type type : runOf(module).getArgumentTypes())
      arguments.push_back(TensorValue::normal(cast<ShapedType>(type), random, 0, 1));
    for (int t = 0; t < 128; ++t) {
      arguments[3].data[t] = t < 48 ? 0 : 48;
      arguments[4].data[t] = t;
    }
    StateMap states;
    nano::test::Options options;
    options.arithmetic = Arithmetic::exact;
    auto results = nano::test::interpret(runOf(module), arguments, states, options);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : SmallVector<TensorValue>();
  }

  MLIRContext context;
};

TEST_P(SumGradientsTest, SameInExactArithmetic) {
  OwningOpRef<ModuleOp> again = compile(false), with = compile(true);
  ASSERT_TRUE(again && with);
  FusedOp first = *runOf(*with).getOps<FusedOp>().begin();
  EXPECT_TRUE(nano::gradientsWithSums(first.getBody().front()));
  const SmallVector<TensorValue> want = run(*again), have = run(*with);
  ASSERT_EQ(want.size(), 2u);
  ASSERT_EQ(have.size(), 2u);
  for (size_t result = 0; result < 2; ++result) {
    ASSERT_EQ(have[result].shape, want[result].shape);
    for (size_t i = 0; i < want[result].data.size(); ++i)
      ASSERT_NEAR(have[result].data[i], want[result].data[i], 1e-10)
          << "result " << result << "[" << i << "]";
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SumGradientsTest, testing::ValuesIn(layouts),
                         testing::PrintToStringParamName());

} // namespace
