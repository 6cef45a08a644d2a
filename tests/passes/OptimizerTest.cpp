// Adam, AdamW and Muon of models/optimizers.h, written out by nano-expand-optimizers and run
// through the interpreter, against the same in double precision.
#include "ir/graph/Program.h"
#include "models/optimizers.h"
#include "passes/Passes.h"
#include "tests/support/Declarations.h"
#include "tests/support/Interpreter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::roundTo;
using nano::test::TensorValue;

namespace {

using Vec = std::vector<double>;
/// What an op's result is rounded to: a compute type, or nothing.
using Rounding = llvm::function_ref<double(double)>;

constexpr double sequences = 4;

//===- The equations -----------------------------------------------------===//

struct AdamConstants {
  double beta1, beta2, eps, decay;
};

/// p, m, v ← Adam(p, m, v, g) at step t = 1, 2, …
void adam(Vec &p, Vec &m, Vec &v, const Vec &g, const AdamConstants &c, double lr, int t) {
  for (size_t i = 0; i < p.size(); ++i) {
    m[i] = c.beta1 * m[i] + (1 - c.beta1) * g[i];
    v[i] = c.beta2 * v[i] + (1 - c.beta2) * g[i] * g[i];
    double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(c.beta2, t));
    p[i] -= lr / (1 - std::pow(c.beta1, t)) * m[i] / (root + c.eps) + lr * c.decay * p[i];
  }
}

Vec transposed(const Vec &x, int64_t rows, int64_t cols) {
  Vec y(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      y[j * rows + i] = x[i * cols + j];
  return y;
}

/// alpha·a [rows, inner]·b [inner, cols] + beta·c, rounded once.
Vec sum(double alpha, const Vec &a, const Vec &b, double beta, const Vec &c, int64_t rows,
        int64_t inner, int64_t cols, Rounding round) {
  Vec result(rows * cols, 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double &element = result[i * cols + j];
      for (int64_t k = 0; k < inner; ++k)
        element += alpha * a[i * inner + k] * b[k * cols + j];
      element = round(element + beta * c[i * cols + j]);
    }
  return result;
}

/// NS5 of x [rows, cols]; every matrix is rounded to the compute type.
Vec newtonSchulz(Vec x, int64_t rows, int64_t cols, Rounding round) {
  if (rows > cols)
    return transposed(newtonSchulz(transposed(x, rows, cols), cols, rows, round), cols, rows);
  double squares = 0;
  for (double &e : x) {
    e = round(e);
    squares += e * e;
  }
  for (double &e : x)
    e = round(e / (std::sqrt(squares) + 1e-7));
  for (int step = 0; step < 5; ++step) {
    Vec zero(rows * rows, 0);
    Vec a = sum(1, x, transposed(x, rows, cols), 0, zero, rows, cols, rows, round);
    Vec b = sum(2.0315, a, a, -4.7750, a, rows, rows, rows, round);
    x = sum(1, b, x, 3.4445, x, rows, rows, cols, round);
  }
  return x;
}

/// p, b ← Muon(p, b, g) of a stack of matrices [rows, cols].
void muon(Vec &p, Vec &b, const Vec &g, int64_t rows, int64_t cols, double lr, double mu,
          Rounding round) {
  double rate = lr * std::sqrt(std::max(1.0, static_cast<double>(rows) / cols));
  for (size_t start = 0; start < p.size(); start += rows * cols) {
    Vec u(rows * cols);
    for (size_t i = 0; i < u.size(); ++i) {
      double &buffer = b[start + i];
      buffer += (1 - mu) * (g[start + i] - buffer);
      u[i] = g[start + i] + mu * (buffer - g[start + i]);
    }
    Vec o = newtonSchulz(u, rows, cols, round);
    for (size_t i = 0; i < o.size(); ++i)
      p[start + i] -= rate * o[i];
  }
}

double asIs(double x) { return x; }

/// The schedules of the test's module.
double learningRate(int step) { return 0.1 / (step + 1); }
double momentum(int step) { return 0.95 - 0.5 / (step + 1); }

//===- The program -------------------------------------------------------===//

struct Parameter {
  std::string name, type; ///< type: "3x4xf32"
  std::string optimizer;  ///< "adam", "adamw" or "muon"
};

constexpr AdamConstants adamConstants{0.8, 0.95, 1e-10, 0};
constexpr AdamConstants adamwConstants{0.9, 0.95, 1e-8, 0.25};

/// The optimizers of models/optimizers.h and the parameters.
void declare(const std::vector<Parameter> &parameters, const std::string &computeType) {
  using namespace nano::frontend;
  const Sched t = step() + 1, lr = 0.1 / t;
  const std::map<std::string, Optimizer> optimizers{
      {"adam", nano::frontend::adam("adam", {.lr = lr, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-10})},
      {"adamw", adamW("adamw", {.lr = lr, .beta1 = 0.9, .beta2 = 0.95, .weightDecay = 0.25})},
      {"muon", nano::frontend::muon("muon", {.lr = lr,
                                             .momentum = 0.95 - 0.5 / t,
                                             .computeType = computeType == "bf16" ? bf16 : f32})}};
  for (const Parameter &p : parameters) {
    Shape shape({});
    SmallVector<StringRef> sizes;
    StringRef(p.type).split(sizes, 'x');
    for (StringRef size : ArrayRef(sizes).drop_back())
      size.getAsInteger(10, shape.sizes[shape.rank++]);
    param(p.name.c_str(), shape, sizes.back() == "bf16" ? bf16 : f32, normal(0, 1),
          optimizers.at(p.optimizer));
  }
}

std::string moduleText(const std::vector<Parameter> &parameters, double clip,
                       const std::string &computeType) {
  std::string text = "module {\nnano.model \"m\" {training = {grad_clip = " + std::to_string(clip) +
                     " : f64}}\n" +
                     nano::test::declarations([&] { declare(parameters, computeType); });
  for (const Parameter &p : parameters)
    text += "nano.state @grad." + p.name + " : tensor<" + p.type.substr(0, p.type.rfind('x')) +
            "xf32> {role = #nano.role<gradient>, init = #nano.init<\"normal\", [0.0, 4.0]>}\n";
  return text + "}\n";
}

class OptimizerTest : public testing::Test {
protected:
  OptimizerTest() { context.loadDialect<NanoDialect, arith::ArithDialect, math::MathDialect>(); }

  void expand(const std::vector<Parameter> &parameters, double clip = 0,
              const std::string &computeType = "f32") {
    module = parseSourceString<ModuleOp>(moduleText(parameters, clip, computeType), &context);
    ASSERT_TRUE(module);
    PassManager passes(&context);
    passes.addPass(nano::createExpandOptimizers());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    nano::test::initializeStates(*module, states, random);
  }

  /// Runs `update` of step `step`, counted from 0.
  void update(int step) {
    for (auto scalar : module->getOps<ScalarOp>()) {
      double value = nano::test::evaluate(scalar, step, 100, sequences, 1);
      if (options.arithmetic == Arithmetic::rounded)
        value = roundTo(value, scalar.getType());
      states[scalar.getSymName().str()] = TensorValue{{}, {value}};
    }
    ASSERT_TRUE(
        succeeded(nano::test::interpret(programWithRole(*module, "update"), {}, states, options)));
  }

  /// New gradients, as if summed over the sequences of a global batch.
  void drawGradients(double deviation = 4) {
    for (auto &[name, value] : states)
      if (StringRef(name).starts_with("grad.")) {
        std::normal_distribution<double> distribution(0, deviation);
        for (double &g : value.data)
          g = roundTo(distribution(random), Float32Type::get(&context));
      }
  }

  Vec &value(const std::string &name) { return states.at(name).data; }

  /// The mean gradient, times `scale`.
  Vec gradient(const std::string &name, double scale = 1) {
    Vec g = value("grad." + name);
    for (double &x : g)
      x *= scale / sequences;
    return g;
  }

  void expectNear(const std::string &name, const Vec &expected, double tolerance) {
    const Vec &actual = value(name);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
          << name << "[" << i << "]";
  }

  /// `steps` updates of one Adam parameter against the equations.
  void checkAdam(const std::string &optimizer, const AdamConstants &constants, int steps,
                 double tolerance) {
    expand({{"w", "5x7xf32", optimizer}});
    Vec p = value("w"), m(p.size(), 0), v(p.size(), 0);
    for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
      drawGradients();
      update(step);
      adam(p, m, v, gradient("w"), constants, learningRate(step), step + 1);
      expectNear("w", p, tolerance);
      expectNear("w.adam_m", m, tolerance);
      expectNear("w.adam_v", v, tolerance);
    }
  }

  /// `steps` updates of one Muon parameter of that shape against the equations.
  void checkMuon(const std::string &shape, int64_t rows, int64_t cols, double tolerance,
                 const std::string &computeType = "f32", Rounding round = asIs) {
    expand({{"w", shape + "xf32", "muon"}}, 0, computeType);
    Vec p = value("w"), b(p.size(), 0);
    for (int step = 0; step < 4 && !HasFatalFailure(); ++step) {
      drawGradients();
      update(step);
      muon(p, b, gradient("w"), rows, cols, learningRate(step), momentum(step), round);
      expectNear("w", p, tolerance);
      expectNear("w.muon_b", b, tolerance);
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  nano::test::StateMap states;
  nano::test::Options options;
  std::mt19937_64 random{1};
};

} // namespace

//===- Adam --------------------------------------------------------------===//

TEST_F(OptimizerTest, AdamFollowsItsEquations) { checkAdam("adam", adamConstants, 6, 1e-12); }

TEST_F(OptimizerTest, AdamWDecaysWeights) { checkAdam("adamw", adamwConstants, 6, 1e-12); }

TEST_F(OptimizerTest, AdamInF32StaysClose) {
  options.arithmetic = Arithmetic::rounded;
  checkAdam("adamw", adamwConstants, 20, 2e-6);
}

TEST_F(OptimizerTest, AdamsFirstStepHasTheLengthOfTheLearningRate) {
  expand({{"w", "3x4xf32", "adam"}});
  Vec before = value("w"), g = value("grad.w");
  update(0);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(value("w")[i], before[i] - std::copysign(learningRate(0), g[i]), 1e-9);
}

TEST_F(OptimizerTest, AdamIgnoresAZeroGradientButDecays) {
  expand({{"w", "3x4xf32", "adam"}, {"d", "3x4xf32", "adamw"}});
  Vec w = value("w"), d = value("d");
  drawGradients(0);
  update(0);
  EXPECT_EQ(value("w"), w);
  for (double &x : d)
    x -= learningRate(0) * adamwConstants.decay * x;
  expectNear("d", d, 1e-15);
}

/// Parameter and states are kept in bf16; a step moves the parameter by what m and v are before
/// that. Each step is compared from the program's own states, so that one rounding to another
/// neighbour does not hide what follows.
TEST_F(OptimizerTest, AdamKeepsBf16) {
  options.arithmetic = Arithmetic::rounded;
  expand({{"w", "32x16xbf16", "adam"}});
  Type bf16 = BFloat16Type::get(&context);
  int same = 0, count = 0;
  for (int step = 0; step < 6; ++step) {
    drawGradients();
    Vec p = value("w"), m = value("w.adam_m"), v = value("w.adam_v");
    update(step);
    adam(p, m, v, gradient("w"), adamConstants, learningRate(step), step + 1);
    for (auto [name, expected] :
         {std::pair("w", &p), std::pair("w.adam_m", &m), std::pair("w.adam_v", &v)})
      for (auto [actual, exact] : llvm::zip_equal(value(name), *expected)) {
        ASSERT_EQ(actual, roundTo(actual, bf16)) << name;
        ASSERT_NEAR(actual, exact, 0x1p-8 * std::abs(exact) + 1e-12) << name;
        same += actual == roundTo(exact, bf16);
        ++count;
      }
  }
  EXPECT_GT(same, count * 99 / 100);
}

//===- Muon --------------------------------------------------------------===//

TEST_F(OptimizerTest, MuonOnWideMatrices) { checkMuon("4x9", 4, 9, 1e-11); }

TEST_F(OptimizerTest, MuonOnTallMatrices) { checkMuon("12x5", 12, 5, 1e-11); }

TEST_F(OptimizerTest, MuonOnSquareMatrices) { checkMuon("6x6", 6, 6, 1e-11); }

TEST_F(OptimizerTest, MuonOnStacksOfMatrices) { checkMuon("3x8x5", 8, 5, 1e-11); }

TEST_F(OptimizerTest, MuonOnStacksOfWideMatrices) { checkMuon("3x5x8", 5, 8, 1e-11); }

TEST_F(OptimizerTest, MuonOnStacksOfStacks) { checkMuon("2x3x4x5", 4, 5, 1e-11); }

TEST_F(OptimizerTest, MuonOnASingleRow) { checkMuon("1x7", 1, 7, 1e-11); }

TEST_F(OptimizerTest, MuonInF32StaysClose) {
  options.arithmetic = Arithmetic::rounded;
  checkMuon("3x8x5", 8, 5, 1e-5);
}

/// Newton–Schulz rounds every result to bf16; the reference does the same, so that what remains is
/// f32 arithmetic around it, which now and then rounds to a neighbour.
TEST_F(OptimizerTest, MuonInBf16) {
  options.arithmetic = Arithmetic::rounded;
  Type bf16 = BFloat16Type::get(&context);
  checkMuon("4x9", 4, 9, 4e-3, "bf16", [&](double x) { return roundTo(x, bf16); });
}

TEST_F(OptimizerTest, MuonOnTallMatricesInBf16) {
  options.arithmetic = Arithmetic::rounded;
  Type bf16 = BFloat16Type::get(&context);
  checkMuon("9x4", 9, 4, 4e-3, "bf16", [&](double x) { return roundTo(x, bf16); });
}

TEST_F(OptimizerTest, MuonKeepsBf16Parameters) {
  options.arithmetic = Arithmetic::rounded;
  expand({{"w", "4x6xbf16", "muon"}});
  Type bf16 = BFloat16Type::get(&context);
  Vec b(value("w").size(), 0);
  for (int step = 0; step < 4; ++step) {
    drawGradients();
    Vec p = value("w");
    update(step);
    muon(p, b, gradient("w"), 4, 6, learningRate(step), momentum(step), asIs);
    for (auto [actual, exact] : llvm::zip_equal(value("w"), p)) {
      ASSERT_EQ(actual, roundTo(actual, bf16));
      ASSERT_NEAR(actual, exact, 0x1p-8 * std::abs(exact) + 1e-6);
    }
    expectNear("w.muon_b", b, 1e-6);
  }
}

TEST_F(OptimizerTest, MuonIgnoresAZeroGradient) {
  expand({{"w", "3x4x4xf32", "muon"}});
  Vec w = value("w");
  drawGradients(0);
  update(0);
  EXPECT_EQ(value("w"), w);
  EXPECT_EQ(value("w.muon_b"), Vec(w.size(), 0));
}

//===- Clipping ----------------------------------------------------------===//

/// Two steps of three parameters under one limit: below it nothing changes, above it all gradients
/// shrink by one factor.
TEST_F(OptimizerTest, ClipsAllGradientsTogether) {
  const double limit = 3;
  expand({{"a", "4x6xf32", "adamw"}, {"b", "5xf32", "adam"}, {"c", "6x4xf32", "muon"}}, limit);
  Vec a = value("a"), b = value("b"), c = value("c");
  Vec ma(a.size(), 0), va(a.size(), 0), mb(b.size(), 0), vb(b.size(), 0), bc(c.size(), 0);
  std::vector<bool> clipped;
  for (int step = 0; step < 4 && !HasFatalFailure(); ++step) {
    drawGradients(step % 2 ? 8 : 0.5);
    double squares = 0;
    for (const char *name : {"a", "b", "c"})
      for (double g : gradient(name))
        squares += g * g;
    double norm = std::sqrt(squares), scale = norm > limit ? limit / norm : 1;
    clipped.push_back(norm > limit);
    update(step);
    double lr = learningRate(step);
    adam(a, ma, va, gradient("a", scale), adamwConstants, lr, step + 1);
    adam(b, mb, vb, gradient("b", scale), adamConstants, lr, step + 1);
    muon(c, bc, gradient("c", scale), 6, 4, lr, momentum(step), asIs);
    expectNear("a", a, 1e-12);
    expectNear("b", b, 1e-12);
    expectNear("c", c, 1e-11);
    expectNear("a.adam_v", va, 1e-12);
  }
  EXPECT_EQ(clipped, (std::vector<bool>{false, true, false, true}));
}

TEST_F(OptimizerTest, ClippingBearsAZeroGradient) {
  options.arithmetic = Arithmetic::rounded;
  expand({{"w", "4x6xf32", "adam"}}, 1);
  Vec w = value("w");
  drawGradients(0);
  update(0);
  EXPECT_EQ(value("w"), w);
}
