// Each optimizer of models/optimizers.h over 20 steps: against numbers of PyTorch's, where it has
// the same in double precision, and against loops in double precision written from the papers'
// equations; exactly, and in the types that a plan computes in.
#include "ir/graph/Program.h"
#include "models/optimizers.h"
#include "passes/Passes.h"
#include "tests/support/Declarations.h"
#include "tests/support/Interpreter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace nano::graph;
using nano::test::Arithmetic;
using nano::test::TensorValue;

namespace {

namespace f = nano::frontend;
using Vec = std::vector<double>;

constexpr int steps = 20;
constexpr double sequences = 4;

double initial(size_t i) { return std::sin(1.7 * double(i) + 0.3); }
double gradientAt(int step, size_t i) {
  return std::cos(0.9 * step + 1.3 * double(i)) * (1 + 0.1 * double(i % 7));
}

const std::map<std::string, Vec> torchReferences{
#include "tests/passes/optimizer/TorchReferences.inc"
};

class OptimizerHeaderTest : public testing::Test {
protected:
  OptimizerHeaderTest() {
    context.loadDialect<NanoDialect, arith::ArithDialect, math::MathDialect>();
  }

  /// The parameter, of that shape, after 20 steps with the optimizer that `make` declares.
  Vec train(const std::vector<int64_t> &sizes, const std::function<f::Optimizer()> &make,
            Arithmetic arithmetic = Arithmetic::exact) {
    std::string shape;
    for (int64_t size : sizes)
      shape += std::to_string(size) + "x";
    const std::string type = "tensor<" + shape + "f32>";
    auto module = parseSourceString<ModuleOp>(
        "module {\nnano.model \"m\" {training = {grad_clip = 0.0 : f64}}\n" +
            nano::test::declarations([&] {
              f::Shape declared({});
              for (int64_t size : sizes)
                declared.sizes[declared.rank++] = size;
              f::param("w", declared, f::f32, f::constant(0), make());
            }) +
            "nano.state @grad.w : " + type +
            " {role = #nano.role<gradient>, init = #nano.init<\"constant\", [0.0]>}\n}\n",
        &context);
    PassManager passes(&context);
    passes.addPass(nano::createExpandOptimizers());
    if (!module || failed(passes.run(*module))) {
      ADD_FAILURE() << "no update";
      return {};
    }
    nano::test::Options options;
    options.arithmetic = arithmetic;
    nano::test::StateMap states;
    std::mt19937_64 unused;
    nano::test::initializeStates(*module, states, unused);
    Vec &w = states.at("w").data;
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = rounded(initial(i), arithmetic);
    for (int step = 0; step < steps; ++step) {
      Vec &g = states.at("grad.w").data;
      for (size_t i = 0; i < g.size(); ++i)
        g[i] = rounded(sequences * gradientAt(step, i), arithmetic);
      for (auto scalar : module->getOps<ScalarOp>())
        states[scalar.getSymName().str()] = TensorValue{
            {}, {rounded(nano::test::evaluate(scalar, step, 100, sequences, 1), arithmetic)}};
      EXPECT_TRUE(succeeded(
          nano::test::interpret(programWithRole(*module, "update"), {}, states, options)));
    }
    return w;
  }

  double rounded(double value, Arithmetic arithmetic) {
    return arithmetic == Arithmetic::exact ? value
                                           : nano::test::roundTo(value, Float32Type::get(&context));
  }

  static void expectNear(const Vec &actual, const Vec &expected, double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }

  /// Exactly within 1e-9 of the reference, in f32 within `inF32`.
  void check(const std::vector<int64_t> &sizes, const std::function<f::Optimizer()> &make,
             const Vec &expected, double inF32 = 1e-6) {
    expectNear(train(sizes, make), expected, 1e-9);
    expectNear(train(sizes, make, Arithmetic::rounded), expected, inF32);
  }

  MLIRContext context;
};

//===- Of PyTorch --------------------------------------------------------===//

TEST_F(OptimizerHeaderTest, Adam) {
  check(
      {4, 6}, [] { return f::adam("a", {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95}); },
      torchReferences.at("adam"));
}

TEST_F(OptimizerHeaderTest, AdamW) {
  check(
      {4, 6}, [] { return f::adamW("a", {.lr = 0.02, .beta2 = 0.95, .weightDecay = 0.1}); },
      torchReferences.at("adamW"));
}

TEST_F(OptimizerHeaderTest, Sgd) {
  check({4, 6}, [] { return f::sgd("s", {.lr = 0.05}); }, torchReferences.at("sgd"));
}

TEST_F(OptimizerHeaderTest, SgdWithMomentumAndDecay) {
  check(
      {4, 6}, [] { return f::sgd("s", {.lr = 0.05, .momentum = 0.9, .weightDecay = 0.01}); },
      torchReferences.at("momentum"));
}

TEST_F(OptimizerHeaderTest, SgdWithNesterov) {
  check(
      {4, 6}, [] { return f::sgd("s", {.lr = 0.05, .momentum = 0.9, .nesterov = true}); },
      torchReferences.at("nesterov"));
}

TEST_F(OptimizerHeaderTest, Adafactor) {
  check(
      {4, 6}, [] { return f::adafactor("a", {.lr = 0.02, .weightDecay = 0.1}); },
      torchReferences.at("adafactor"), 1e-6);
}

//===- Of papers ---------------------------------------------------------===//

/// The parameter and 20 gradients.
Vec start(size_t count) {
  Vec p(count);
  for (size_t i = 0; i < count; ++i)
    p[i] = initial(i);
  return p;
}

TEST_F(OptimizerHeaderTest, AdafactorOfVectors) {
  Vec p = start(10), v(10, 0);
  for (int step = 0; step < steps; ++step) {
    const double beta = 1 - std::pow(step + 1, -0.8);
    Vec u(p.size());
    double squaresOfP = 0, squaresOfU = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradientAt(step, i);
      v[i] = beta * v[i] + (1 - beta) * (g * g + 1e-30);
      u[i] = g / std::sqrt(v[i]);
      squaresOfP += p[i] * p[i];
      squaresOfU += u[i] * u[i];
    }
    const double length = std::max(1e-3, std::sqrt(squaresOfP / 10));
    const double clip = std::max(1.0, std::sqrt(squaresOfU / 10) / 1.0);
    for (size_t i = 0; i < p.size(); ++i)
      p[i] -= 0.02 * length * u[i] / clip;
  }
  check({10}, [] { return f::adafactor("a", {.lr = 0.02}); }, p, 1e-6);
}

TEST_F(OptimizerHeaderTest, Lion) {
  Vec p = start(24), m(24, 0);
  for (int step = 0; step < steps; ++step)
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradientAt(step, i), c = 0.9 * m[i] + 0.1 * g;
      p[i] -= 0.01 * ((c > 0 ? 1 : c < 0 ? -1 : 0) + 0.25 * p[i]);
      m[i] = 0.99 * m[i] + 0.01 * g;
    }
  check({4, 6}, [] { return f::lion("l", {.lr = 0.01, .weightDecay = 0.25}); }, p);
}

/// A matrix [rows, columns] in plain loops.
struct Matrix {
  int64_t rows, columns;
  Vec data;
  double &at(int64_t i, int64_t j) { return data[i * columns + j]; }
  double at(int64_t i, int64_t j) const { return data[i * columns + j]; }
  double norm() const {
    return std::sqrt(std::inner_product(data.begin(), data.end(), data.begin(), 0.0));
  }
};

Matrix times(const Matrix &a, const Matrix &b) {
  Matrix c{a.rows, b.columns, Vec(a.rows * b.columns, 0)};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k)
        c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Matrix transposed(const Matrix &a) {
  Matrix b{a.columns, a.rows, Vec(a.data.size())};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j)
      b.at(j, i) = a.at(i, j);
  return b;
}

constexpr double express[5][3] = {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                  {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                  {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                  {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                  {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};
constexpr double quintic[3] = {3.4445, -4.7750, 2.0315};

/// X ← a·X + (b·A + c·A·A)·X with A = X·Xᵀ, always on the rows.
Matrix iterated(Matrix x, const std::function<const double *(int)> &coefficients) {
  for (int step = 0; step < 5; ++step) {
    const double *c = coefficients(step);
    const Matrix a = times(x, transposed(x)), square = times(a, a);
    Matrix b = a;
    for (size_t i = 0; i < b.data.size(); ++i)
      b.data[i] = c[1] * a.data[i] + c[2] * square.data[i];
    const Matrix bx = times(b, x);
    for (size_t i = 0; i < x.data.size(); ++i)
      x.data[i] = c[0] * x.data[i] + bx.data[i];
  }
  return x;
}

/// NorMuon of MODEL_44 (columns) and MODEL_89 (rows) on one matrix of the parameter.
Vec norMuon(int64_t count, int64_t rows, int64_t columns, bool ofColumns, double decay) {
  const int64_t size = rows * columns;
  Vec p = start(count * size), m(p.size(), 0), v(count * (ofColumns ? columns : rows), 0);
  const double lr = 0.02, theta = 0.95, beta2 = 0.9;
  for (int step = 0; step < steps; ++step)
    for (int64_t matrix = 0; matrix < count; ++matrix) {
      Matrix x{rows, columns, Vec(size)};
      for (int64_t i = 0; i < size; ++i) {
        const double g = gradientAt(step, matrix * size + i);
        double &momentum = m[matrix * size + i];
        momentum += (1 - theta) * (g - momentum);
        x.data[i] = g + theta * (momentum - g);
      }
      const double norm = x.norm();
      for (double &e : x.data)
        e /= 1.02 * norm + 1e-6;
      const bool tall = rows > columns;
      x = tall ? transposed(iterated(transposed(x), [](int i) { return express[i]; }))
               : iterated(x, [](int i) { return express[i]; });
      const double before = x.norm();
      const int64_t lines = ofColumns ? columns : rows, across = ofColumns ? rows : columns;
      for (int64_t line = 0; line < lines; ++line) {
        auto element = [&](int64_t k) -> double & {
          return ofColumns ? x.at(k, line) : x.at(line, k);
        };
        double squares = 0;
        for (int64_t k = 0; k < across; ++k)
          squares += element(k) * element(k) / double(across);
        double &moment = v[matrix * lines + line];
        moment += (1 - beta2) * (squares - moment);
        for (int64_t k = 0; k < across; ++k)
          element(k) /= std::sqrt(std::max(moment, 1e-10));
      }
      const double factor = before / std::max(x.norm(), 1e-10);
      for (int64_t i = 0; i < size; ++i) {
        double &w = p[matrix * size + i];
        double u = x.data[i] * factor;
        if (u * w >= 0)
          u += decay * lr * w;
        w -= lr * u;
      }
    }
  return p;
}

std::function<f::Optimizer()> norMuonOf(bool ofColumns, double decay) {
  return [=] {
    return f::norMuon(
        "n", {.lr = 0.02, .momentum = 0.95, .beta2 = 0.9, .decay = decay, .columns = ofColumns});
  };
}

TEST_F(OptimizerHeaderTest, NorMuonOfRows) {
  check({4, 6}, norMuonOf(false, 0), norMuon(1, 4, 6, false, 0), 1e-6);
}
TEST_F(OptimizerHeaderTest, NorMuonOfColumns) {
  check({4, 6}, norMuonOf(true, 0), norMuon(1, 4, 6, true, 0), 1e-6);
}
TEST_F(OptimizerHeaderTest, NorMuonOfTallMatricesWithCautiousDecay) {
  check({3, 6, 4}, norMuonOf(false, 1.2), norMuon(3, 6, 4, false, 1.2), 1e-6);
}

TEST_F(OptimizerHeaderTest, Muon) {
  constexpr int64_t rows = 6, columns = 4, count = 2;
  Vec p = start(count * rows * columns), b(p.size(), 0);
  const double lr = 0.02, mu = 0.9;
  for (int step = 0; step < steps; ++step)
    for (int64_t matrix = 0; matrix < count; ++matrix) {
      const int64_t first = matrix * rows * columns;
      Matrix x{rows, columns, Vec(rows * columns)};
      for (int64_t i = 0; i < rows * columns; ++i) {
        const double g = gradientAt(step, first + i);
        b[first + i] += (1 - mu) * (g - b[first + i]);
        x.data[i] = g + mu * (b[first + i] - g);
      }
      const double norm = x.norm();
      for (double &e : x.data)
        e /= norm + 1e-7;
      x = transposed(iterated(transposed(x), [](int) { return quintic; }));
      for (int64_t i = 0; i < rows * columns; ++i)
        p[first + i] -= lr * std::sqrt(double(rows) / columns) * x.data[i];
    }
  check(
      {count, rows, columns}, [] { return f::muon("m", {.lr = 0.02, .momentum = 0.9}); }, p, 1e-6);
}

} // namespace
