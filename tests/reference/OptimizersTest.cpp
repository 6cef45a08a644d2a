// Adam by hand, and Muon against its definition: what Newton–Schulz does to singular values.
#include "tests/reference/Optimizers.h"
#include "tests/reference/Gpt2.h"
#include "tests/reference/Ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace nano::reference;

namespace {

/// p(s) = a·s + b·s³ + c·s⁵, five times: what NS5 does to each singular value.
Real newtonSchulzOfSingularValue(Real s) {
  for (int i = 0; i < 5; ++i)
    s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  return s;
}

/// A rows×cols matrix with orthonormal columns, cols ≤ rows (Gram–Schmidt of random columns).
Vec orthonormalColumns(int64_t rows, int64_t cols, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<Real> normal;
  std::vector<Vec> columns(cols, Vec(rows));
  for (int64_t j = 0; j < cols; ++j) {
    for (Real &value : columns[j])
      value = normal(generator);
    for (int64_t i = 0; i < j; ++i)
      addScaled(columns[j], -dot(columns[i].data(), columns[j].data(), rows), columns[i]);
    const Real norm = std::sqrt(dot(columns[j].data(), columns[j].data(), rows));
    for (Real &value : columns[j])
      value /= norm;
  }
  Vec result(rows * cols);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      result[i * cols + j] = columns[j][i];
  return result;
}

/// left[rows, n] · diag(values) · right[cols, n]ᵀ.
Vec fromSingularValues(const Vec &left, const Vec &values, const Vec &right, int64_t cols) {
  const int64_t n = values.size();
  Vec scaled = left;
  for (size_t i = 0; i < scaled.size(); ++i)
    scaled[i] *= values[i % n];
  return linear(scaled, right.data(), n, cols);
}

void expectNewtonSchulz(int64_t rows, int64_t cols) {
  const Vec values{3, 2, 1, 0.4, 0.05};
  const Vec left = orthonormalColumns(rows, values.size(), 1);
  const Vec right = orthonormalColumns(cols, values.size(), 2);
  const Real norm = std::sqrt(dot(values.data(), values.data(), values.size()));
  Vec mapped;
  for (Real value : values)
    mapped.push_back(newtonSchulzOfSingularValue(value / (norm + 1e-7)));
  const Vec expected = fromSingularValues(left, mapped, right, cols);
  const Vec actual = newtonSchulz5(fromSingularValues(left, values, right, cols), rows, cols);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
}

} // namespace

TEST(NewtonSchulz, MapsSingularValuesOfAWideMatrix) { expectNewtonSchulz(6, 11); }

TEST(NewtonSchulz, MapsSingularValuesOfATallMatrix) { expectNewtonSchulz(11, 6); }

TEST(NewtonSchulz, LeavesZeroAtZero) { EXPECT_EQ(newtonSchulz5(Vec(12, 0), 3, 4), Vec(12, 0)); }

TEST(Muon, TwoStepsOfAOneByOneStack) {
  // Matrices of one element: NS5(u) = the polynomial at u/(|u| + 1e-7), rows/cols = 1.
  Tensor p{{2, 1, 1}, {1, -1}};
  Vec buffer;
  muonStep(p, {0.5, 2}, buffer, 0.1, 0.9);
  EXPECT_NEAR(buffer[0], 0.05, 1e-15);
  EXPECT_NEAR(buffer[1], 0.2, 1e-15);
  const Real first = newtonSchulzOfSingularValue(0.095 / (0.095 + 1e-7));
  const Real second = newtonSchulzOfSingularValue(0.38 / (0.38 + 1e-7));
  EXPECT_NEAR(p.data[0], 1 - 0.1 * first, 1e-12);
  EXPECT_NEAR(p.data[1], -1 - 0.1 * second, 1e-12);

  muonStep(p, {-1, 0}, buffer, 0.1, 0.5);
  // b = 0.05 + 0.5·(−1.05) = −0.475, u = −1 + 0.5·0.525 = −0.7375; b = 0.1, u = 0.05.
  EXPECT_NEAR(buffer[0], -0.475, 1e-15);
  EXPECT_NEAR(buffer[1], 0.1, 1e-15);
  EXPECT_NEAR(p.data[0],
              1 - 0.1 * first + 0.1 * newtonSchulzOfSingularValue(0.7375 / (0.7375 + 1e-7)), 1e-12);
}

TEST(Muon, TallMatricesTakeLongerSteps) {
  const Vec gradient{1, 2, 3, 4};
  for (const auto &[shape, factor] :
       {std::pair<Shape, Real>{{4, 1}, 2}, {{1, 4}, 1}, {{2, 2}, 1}}) {
    Tensor p{shape, Vec(4, 0)};
    Vec buffer;
    muonStep(p, gradient, buffer, 0.1, 0);
    const Vec o = newtonSchulz5(gradient, shape[0], shape[1]);
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(p.data[i], -0.1 * factor * o[i], 1e-14);
  }
}

TEST(Adam, TwoStepsByHand) {
  Vec p{1};
  AdamState state;
  const AdamConstants constants{0.8, 0.95, 1e-10, 0};
  adamStep(p, {2}, state, constants, 0.5, 1);
  EXPECT_NEAR(state.m[0], 0.4, 1e-15);
  EXPECT_NEAR(state.v[0], 0.2, 1e-15);
  // m̂ = 0.4/0.2 = 2, v̂ = 0.2/0.05 = 4: a step of lr.
  EXPECT_NEAR(p[0], 0.5, 1e-9);
  adamStep(p, {-1}, state, constants, 0.5, 2);
  // m = 0.32 − 0.2 = 0.12, v = 0.19 + 0.05 = 0.24; m̂ = 0.12/0.36, v̂ = 0.24/0.0975.
  EXPECT_NEAR(state.m[0], 0.12, 1e-15);
  EXPECT_NEAR(state.v[0], 0.24, 1e-15);
  EXPECT_NEAR(p[0], 0.5 - 0.5 * (1.0 / 3) / std::sqrt(0.24 / 0.0975), 1e-9);
}

TEST(Adam, WeightDecayIsDecoupled) {
  Vec p{3};
  AdamState state;
  adamStep(p, {0}, state, {0.9, 0.95, 1e-8, 0.1}, 0.5, 1);
  EXPECT_NEAR(p[0], 3 - 0.5 * 0.1 * 3, 1e-15);
}

TEST(Clip, ScalesOnlyAboveTheLimit) {
  Tensors gradients{{"a", {{2}, {3, 0}}}, {"b", {{1}, {4}}}};
  clipByNorm(gradients, 5);
  EXPECT_EQ(gradients["a"].data, (Vec{3, 0}));
  clipByNorm(gradients, 1);
  EXPECT_NEAR(gradients["a"].data[0], 0.6, 1e-15);
  EXPECT_NEAR(gradients["b"].data[0], 0.8, 1e-15);
}
