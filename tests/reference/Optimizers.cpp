// Adam(W) and Muon, written from their update equations.
#include "tests/reference/Optimizers.h"

#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

void adamStep(Vec &p, const Vec &g, AdamState &state, const AdamConstants &constants, Real lr,
              int64_t t) {
  const auto [beta1, beta2, epsilon, weightDecay] = constants;
  state.m.resize(p.size(), 0);
  state.v.resize(p.size(), 0);
  for (size_t i = 0; i < p.size(); ++i) {
    Real &m = state.m[i], &v = state.v[i];
    m = beta1 * m + (1 - beta1) * g[i];
    v = beta2 * v + (1 - beta2) * g[i] * g[i];
    const Real mHat = m / (1 - std::pow(beta1, t));
    const Real vHat = v / (1 - std::pow(beta2, t));
    p[i] -= lr * (mHat / (std::sqrt(vHat) + epsilon) + weightDecay * p[i]);
  }
}

Vec newtonSchulz5(const Vec &u, int64_t rows, int64_t cols) {
  if (rows > cols) {
    const Vec result = newtonSchulz5(transpose(u.data(), rows, cols), cols, rows);
    return transpose(result.data(), cols, rows);
  }
  const Real a = 3.4445, b = -4.7750, c = 2.0315;
  const Real norm = std::sqrt(dot(u.data(), u.data(), u.size()));
  Vec x(u.size());
  for (size_t i = 0; i < u.size(); ++i)
    x[i] = u[i] / (norm + Real(1e-7));
  for (int iteration = 0; iteration < 5; ++iteration) {
    Vec gram(rows * rows, 0), gramSquared(rows * rows, 0), next(u.size(), 0);
    addMatmul(gram.data(), x.data(), transpose(x.data(), rows, cols).data(), rows, cols, rows);
    addMatmul(gramSquared.data(), gram.data(), gram.data(), rows, rows, rows);
    Vec polynomial(rows * rows, 0);
    addScaled(polynomial, b, gram);
    addScaled(polynomial, c, gramSquared);
    addMatmul(next.data(), polynomial.data(), x.data(), rows, rows, cols);
    addScaled(next, a, x);
    x = next;
  }
  return x;
}

void muonStep(Tensor &p, const Vec &g, Vec &buffer, Real lr, Real momentum) {
  const int64_t rows = p.shape[p.shape.size() - 2], cols = p.shape.back();
  const Real step = lr * std::sqrt(std::max(Real(1), Real(rows) / cols));
  buffer.resize(p.data.size(), 0);
  for (size_t start = 0; start < p.data.size(); start += rows * cols) {
    Vec u(rows * cols);
    for (size_t i = 0; i < u.size(); ++i) {
      Real &b = buffer[start + i];
      b += (1 - momentum) * (g[start + i] - b);
      u[i] = g[start + i] + momentum * (b - g[start + i]);
    }
    const Vec o = newtonSchulz5(u, rows, cols);
    for (size_t i = 0; i < u.size(); ++i)
      p.data[start + i] -= step * o[i];
  }
}

} // namespace nano::reference
