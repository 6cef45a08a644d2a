// Norms whose factors multiply what products give (nano-scale-results), against the program before:
// both run through the interpreter.
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
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

/// An MLP behind a norm, and what it is added to.
struct Mlp {
  std::string name;
  std::string type; ///< of what products read and give
  std::string ops;  ///< which compute %h, $H, of the norm %n, $X, and the weights %v and %u, $W
  double eps = 1e-5;
  size_t weights = 1; ///< that read the norm
};

std::ostream &operator<<(std::ostream &os, const Mlp &mlp) { return os << mlp.name; }

const std::string square = R"(%g = nano.matmul %n, %v {transpose_b} : ($X, $W) -> $H
%zero = nano.constant 0.0 : $H
%m = nano.max %g, %zero : $H
%h = nano.mul %m, %m : $H
)";
const std::string gated = R"(%g = nano.matmul %n, %v {transpose_b} : ($X, $W) -> $H
%k = nano.matmul %n, %u {transpose_b} : ($X, $W) -> $H
%s = nano.sigmoid %g : $H
%t = nano.mul %s, %g : $H
%h = nano.mul %t, %k : $H
)";
const Mlp mlps[] = {{"squared", "bf16", square},
                    {"squaredWide", "f32", square},
                    {"gated", "bf16", gated, 1e-5, 2},
                    {"gatedWide", "f32", gated, 1e-5, 2},
                    {"withoutEps", "f32", square, 0}};

std::string moduleText(const Mlp &mlp) {
  const bool isWide = mlp.type == "f32";
  std::string text = R"(nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "none", states = []}
)";
  for (auto [name, type] : {std::pair("a", "$A"), {"v", "$W"}, {"u", "$W"}, {"b", "$B"}})
    if (*name != 'u' || mlp.weights > 1)
      text += "nano.state @" + std::string(name) + " : " + type +
              " {role = #nano.role<parameter>, init = #nano.init<\"normal\", [0.0, 0.25]>, "
              "optimizer = @all}\n";
  text += R"(nano.program @train(%in: $I) -> tensor<f32> attributes {role = "train"} {
%a = nano.load @a : $A
%v = nano.load @v : $W
%b = nano.load @b : $B
)" + std::string(mlp.weights > 1 ? "%u = nano.load @u : $W\n" : "") +
          "%x = nano.matmul %in, %a {transpose_b} : ($I, $A) -> $X\n" +
          (isWide ? "" : "%f = nano.cast %x : $X -> $F\n") + "%eps = nano.constant " +
          std::to_string(mlp.eps) + R"( : $F
%q = nano.mul $f, $f : $F
%e = nano.add %q, %eps : $F
%sum = nano.reduce sum %e dims [1] : $F -> $R
%c = nano.constant 0.015625 : $R
%mean = nano.mul %sum, %c : $R
%r = nano.rsqrt %mean : $R
%rows = nano.broadcast %r dims [0] : $R -> $F
)" +
          (isWide ? "%n = nano.mul $f, %rows : $F\n"
                  : "%n32 = nano.mul $f, %rows : $F\n%n = nano.cast %n32 : $F -> $X\n") +
          mlp.ops + R"(%o = nano.matmul %h, %b {transpose_b} : ($H, $B) -> $X
%y = nano.add %x, %o : $X
)" +
          (isWide ? "%w = nano.mul %y, %y : $F\n"
                  : "%y32 = nano.cast %y : $X -> $F\n%w = nano.mul %y32, %y32 : $F\n") +
          R"(%loss = nano.reduce sum %w dims [0, 1] : $F -> tensor<f32>
nano.return %loss : tensor<f32>
}
)";
  const auto of = [&](const std::string &sizes) { return "tensor<" + sizes + mlp.type + ">"; };
  const std::pair<std::string, std::string> types[] = {
      {"$f", isWide ? "%x" : "%f"}, {"$F", "tensor<96x64xf32>"}, {"$R", "tensor<96xf32>"},
      {"$X", of("96x64x")},         {"$H", of("96x128x")},       {"$W", of("128x64x")},
      {"$I", of("96x16x")},         {"$A", of("64x16x")},        {"$B", of("64x128x")}};
  for (const auto &[name, type] : types)
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.replace(at, name.size(), type);
  return text;
}

class ScaleResultsTest : public testing::TestWithParam<Mlp> {
protected:
  ScaleResultsTest() { context.loadDialect<NanoDialect>(); }

  OwningOpRef<ModuleOp> compile(bool isScaled) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(moduleText(GetParam()), &context);
    EXPECT_TRUE(module) << moduleText(GetParam());
    if (!module)
      return {};
    PassManager passes(&context);
    passes.addPass(nano::createDifferentiate());
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    if (isScaled) {
      nano::ScaleResultsOptions options;
      options.all = true;
      passes.addPass(nano::createScaleResults(options));
      passes.addPass(nano::createRecompute());
    }
    EXPECT_TRUE(succeeded(passes.run(*module)));
    return module;
  }

  /// The loss, and the gradients in `states`.
  double run(ModuleOp module, StateMap &states, Arithmetic arithmetic) {
    ProgramOp train = programWithRole(module, "train");
    std::mt19937_64 random(7);
    nano::test::startStates(module, states, random);
    const Type bf16 = BFloat16Type::get(&context);
    for (auto &[name, value] : states)
      for (double &number : value.data)
        number = nano::test::roundTo(number, bf16);
    std::vector<TensorValue> arguments;
    for (Type type : train.getArgumentTypes()) {
      arguments.push_back(TensorValue::normal(cast<ShapedType>(type), random));
      for (double &number : arguments.back().data)
        number = nano::test::roundTo(number, bf16);
    }
    auto results = nano::test::interpret(train, arguments, states, {arithmetic});
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? results->front().data.front() : NAN;
  }

  /// How far gradients of `isScaled` and `arithmetic` are from the exact ones at most, relative to
  /// their norm; and the loss.
  double distance(bool isScaled, Arithmetic arithmetic) {
    OwningOpRef<ModuleOp> reference = compile(false), module = compile(isScaled);
    if (!reference || !module)
      return INFINITY;
    StateMap expected, actual;
    const double loss = run(*reference, expected, Arithmetic::exact);
    double most = std::abs(run(*module, actual, arithmetic) - loss) / std::abs(loss);
    for (const auto &[name, want] : expected) {
      if (name.rfind("grad.", 0) != 0)
        continue;
      const std::vector<double> &have = actual.at(name).data;
      double off = 0, norm = 0;
      for (auto [a, b] : llvm::zip_equal(have, want.data)) {
        off += (a - b) * (a - b);
        norm += b * b;
      }
      EXPECT_GT(norm, 0) << name;
      most = std::max(most, std::sqrt(off / norm));
    }
    return most;
  }

  MLIRContext context;
};

// In double precision only the order of sums and factors differs.
TEST_P(ScaleResultsTest, SameInExactArithmetic) {
  EXPECT_LE(distance(true, Arithmetic::exact), 1e-12);
}

// Where every op rounds, no farther from the exact gradients than before, by a quarter.
TEST_P(ScaleResultsTest, AsCloseWhenEveryOpRounds) {
  EXPECT_LE(distance(true, Arithmetic::rounded), 1.25 * distance(false, Arithmetic::rounded));
}

// No product reads the norm: the weights' gradients are of the rows that it would be made of.
TEST_P(ScaleResultsTest, ProductsReadWhatIsNormed) {
  OwningOpRef<ModuleOp> module = compile(true);
  ASSERT_TRUE(module);
  std::map<Operation *, size_t> readers;
  for (MatmulOp product : programWithRole(*module, "train").getOps<MatmulOp>())
    for (Value factor : {product.getA(), product.getB()})
      if (auto x = factor.getDefiningOp<MatmulOp>())
        ++readers[x];
  ASSERT_FALSE(readers.empty());
  EXPECT_EQ(readers.begin()->second, 2 * GetParam().weights);
}

INSTANTIATE_TEST_SUITE_P(Mlps, ScaleResultsTest, testing::ValuesIn(mlps),
                         testing::PrintToStringParamName());

} // namespace
