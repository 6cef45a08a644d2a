// The operations of the two models as plain loops; products run row by row so that the
// innermost loop walks contiguous memory.
#include "tests/reference/Ops.h"

#include <algorithm>
#include <cmath>

// Most of a run's time. Wider vectors change no bit: each lane sums one element, and products and
// sums stay apart (-ffp-contract=off).
#define NANO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))

namespace nano::reference {

namespace {

/// Rows of addMatmul, each sum in the same order whatever their number; b is read once for all.
template <int Rows>
[[gnu::always_inline]] inline void addRows(Real *__restrict c, const Real *__restrict a,
                                           const Real *__restrict b, int64_t k, int64_t n) {
  int64_t inner = 0;
  for (; inner + 4 <= k; inner += 4) {
    const Real *b0 = b + inner * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
    for (int64_t col = 0; col < n; ++col)
      for (int row = 0; row < Rows; ++row) {
        const Real *factors = a + row * k + inner;
        c[row * n + col] += factors[0] * b0[col] + factors[1] * b1[col] + factors[2] * b2[col] +
                            factors[3] * b3[col];
      }
  }
  for (; inner < k; ++inner)
    for (int row = 0; row < Rows; ++row)
      for (int64_t col = 0; col < n; ++col)
        c[row * n + col] += a[row * k + inner] * b[inner * n + col];
}

/// y += factor·x.
NANO_VECTOR_CLONES
void addTimes(Real *__restrict y, Real factor, const Real *__restrict x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] += factor * x[i];
}

} // namespace

NANO_VECTOR_CLONES
void addMatmul(Real *c, const Real *a, const Real *b, int64_t m, int64_t k, int64_t n) {
  int64_t row = 0;
  for (; row + 4 <= m; row += 4)
    addRows<4>(c + row * n, a + row * k, b, k, n);
  for (; row < m; ++row)
    addRows<1>(c + row * n, a + row * k, b, k, n);
}

Vec transpose(const Real *a, int64_t rows, int64_t cols) {
  constexpr int64_t tile = 8; // of lines of the cache
  Vec result(rows * cols);
  for (int64_t begin = 0; begin < rows; begin += tile)
    for (int64_t col = 0; col < cols; ++col)
      for (int64_t row = begin; row < std::min(begin + tile, rows); ++row)
        result[col * rows + row] = a[row * cols + col];
  return result;
}

Real dot(const Real *a, const Real *b, int64_t count) {
  Real sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int lane = 0; lane < 4; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i)
    sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void addScaled(Vec &y, Real scale, const Vec &x) {
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += scale * x[i];
}

Vec linear(const Vec &x, const Real *weight, int64_t in, int64_t out) {
  const int64_t rows = x.size() / in;
  Vec y(rows * out, 0);
  addMatmul(y.data(), x.data(), transpose(weight, out, in).data(), rows, in, out);
  return y;
}

Vec linearBackward(const Vec &x, const Real *weight, const Vec &dy, int64_t in, int64_t out,
                   Real *dWeight) {
  const int64_t rows = x.size() / in;
  addMatmul(dWeight, transpose(dy.data(), rows, out).data(), x.data(), out, rows, in);
  Vec dx(rows * in, 0);
  addMatmul(dx.data(), dy.data(), weight, rows, out, in);
  return dx;
}

Vec rmsNorm(const Vec &x, int64_t width, Real epsilon) {
  Vec y(x.size());
  for (size_t start = 0; start < x.size(); start += width) {
    const Real *row = &x[start];
    const Real inverse = 1 / std::sqrt(dot(row, row, width) / width + epsilon);
    for (int64_t i = 0; i < width; ++i)
      y[start + i] = row[i] * inverse;
  }
  return y;
}

// With r = (mean(x²) + ε)^−½: ∂r/∂x_i = −r³·x_i/width, so dx = r·dy − x·r³·mean(x·dy).
Vec rmsNormBackward(const Vec &x, const Vec &dy, int64_t width, Real epsilon) {
  Vec dx(x.size());
  for (size_t start = 0; start < x.size(); start += width) {
    const Real *row = &x[start];
    const Real r = 1 / std::sqrt(dot(row, row, width) / width + epsilon);
    const Real meanProduct = dot(row, &dy[start], width) / width;
    for (int64_t i = 0; i < width; ++i)
      dx[start + i] = r * dy[start + i] - row[i] * r * r * r * meanProduct;
  }
  return dx;
}

namespace {

struct RowMoments {
  Real mean, inverseDeviation;
};

RowMoments layerNormMoments(const Real *row, int64_t width) {
  Real mean = 0, variance = 0;
  for (int64_t i = 0; i < width; ++i)
    mean += row[i] / width;
  for (int64_t i = 0; i < width; ++i)
    variance += (row[i] - mean) * (row[i] - mean) / width;
  return {mean, 1 / std::sqrt(variance + Real(1e-5))};
}

} // namespace

Vec layerNorm(const Vec &x, const Tensor &weight, const Tensor &bias) {
  const int64_t width = weight.data.size();
  Vec y(x.size());
  for (size_t start = 0; start < x.size(); start += width) {
    const auto [mean, inverse] = layerNormMoments(&x[start], width);
    for (int64_t i = 0; i < width; ++i)
      y[start + i] = (x[start + i] - mean) * inverse * weight.data[i] + bias.data[i];
  }
  return y;
}

// With n = (x − mean)·r and dn = dy·weight: dx = r·(dn − mean(dn) − n·mean(n·dn)).
Vec layerNormBackward(const Vec &x, const Tensor &weight, const Vec &dy, Tensor &dWeight,
                      Tensor &dBias) {
  const int64_t width = weight.data.size();
  Vec dx(x.size());
  for (size_t start = 0; start < x.size(); start += width) {
    const auto [mean, inverse] = layerNormMoments(&x[start], width);
    Real meanDn = 0, meanNDn = 0;
    for (int64_t i = 0; i < width; ++i) {
      const Real n = (x[start + i] - mean) * inverse;
      const Real dn = dy[start + i] * weight.data[i];
      meanDn += dn / width;
      meanNDn += n * dn / width;
      dWeight.data[i] += dy[start + i] * n;
      dBias.data[i] += dy[start + i];
    }
    for (int64_t i = 0; i < width; ++i) {
      const Real n = (x[start + i] - mean) * inverse;
      dx[start + i] = inverse * (dy[start + i] * weight.data[i] - meanDn - n * meanNDn);
    }
  }
  return dx;
}

Vec reluSquared(const Vec &x) {
  Vec y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] > 0 ? x[i] * x[i] : 0;
  return y;
}

Vec reluSquaredBackward(const Vec &x, const Vec &dy) {
  Vec dx(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0;
  return dx;
}

namespace {
const Real geluScale = std::sqrt(2 / std::acos(Real(-1)));
constexpr Real geluCubic = 0.044715;
} // namespace

Vec geluTanh(const Vec &x) {
  Vec y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const Real inner = geluScale * (x[i] + geluCubic * x[i] * x[i] * x[i]);
    y[i] = x[i] / 2 * (1 + std::tanh(inner));
  }
  return y;
}

Vec geluTanhBackward(const Vec &x, const Vec &dy) {
  Vec dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const Real t = std::tanh(geluScale * (x[i] + geluCubic * x[i] * x[i] * x[i]));
    const Real dInner = geluScale * (1 + 3 * geluCubic * x[i] * x[i]);
    dx[i] = dy[i] * ((1 + t) / 2 + x[i] / 2 * (1 - t * t) * dInner);
  }
  return dx;
}

Vec rotary(const Vec &x, int64_t heads, int64_t headDim, Real direction) {
  const int64_t rows = x.size() / (heads * headDim), half = headDim / 2, quarter = headDim / 4;
  Vec y(x.size());
  for (int64_t position = 0; position < rows; ++position)
    for (int64_t j = 0; j < half; ++j) {
      const Real frequency = j < quarter ? std::pow(Real(1) / 1024, Real(j) / (quarter - 1)) : 0;
      const Real theta = direction * position * frequency;
      const Real cosine = std::cos(theta), sine = std::sin(theta);
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t first = (position * heads + head) * headDim + j, second = first + half;
        y[first] = x[first] * cosine + x[second] * sine;
        y[second] = -x[first] * sine + x[second] * cosine;
      }
    }
  return y;
}

namespace {

/// The softmax weights of one query of one head: for every visible key its position and weight.
struct AttentionRow {
  std::vector<int64_t> keys;
  Vec weights;
};

AttentionRow attentionRow(const Attention &how, const Vec &q, const Vec &k, int64_t query,
                          int64_t head) {
  const int64_t stride = how.heads * how.headDim, offset = head * how.headDim;
  AttentionRow row;
  for (int64_t key = 0; key <= query; ++key)
    if (how.sees(query, key)) {
      row.keys.push_back(key);
      row.weights.push_back(
          how.scale * dot(&q[query * stride + offset], &k[key * stride + offset], how.headDim));
    }
  const Real largest = *std::max_element(row.weights.begin(), row.weights.end());
  Real sum = 0;
  for (Real &weight : row.weights)
    sum += weight = std::exp(weight - largest);
  for (Real &weight : row.weights)
    weight /= sum;
  return row;
}

} // namespace

Vec attention(const Attention &how, const Vec &q, const Vec &k, const Vec &v) {
  const int64_t stride = how.heads * how.headDim, rows = q.size() / stride;
  Vec y(q.size(), 0);
  for (int64_t head = 0; head < how.heads; ++head)
    for (int64_t query = 0; query < rows; ++query) {
      const AttentionRow row = attentionRow(how, q, k, query, head);
      Real *out = &y[query * stride + head * how.headDim];
      for (size_t i = 0; i < row.keys.size(); ++i) {
        const Real *value = &v[row.keys[i] * stride + head * how.headDim];
        addTimes(out, row.weights[i], value, how.headDim);
      }
    }
  return y;
}

// For one query with weights p over its keys: dp = dy·v, ds = p·(dp − Σ p·dp), the derivative of
// softmax; then dq = scale·Σ ds·k, dk = scale·ds·q, dv = p·dy.
AttentionGradient attentionBackward(const Attention &how, const Vec &q, const Vec &k, const Vec &v,
                                    const Vec &dy) {
  const int64_t stride = how.heads * how.headDim, rows = q.size() / stride, width = how.headDim;
  AttentionGradient result{Vec(q.size(), 0), Vec(k.size(), 0), Vec(v.size(), 0)};
  for (int64_t head = 0; head < how.heads; ++head)
    for (int64_t query = 0; query < rows; ++query) {
      const AttentionRow row = attentionRow(how, q, k, query, head);
      const int64_t at = query * stride + head * width;
      Vec dWeights(row.keys.size());
      Real mean = 0;
      for (size_t i = 0; i < row.keys.size(); ++i) {
        dWeights[i] = dot(&dy[at], &v[row.keys[i] * stride + head * width], width);
        mean += row.weights[i] * dWeights[i];
      }
      for (size_t i = 0; i < row.keys.size(); ++i) {
        const int64_t keyAt = row.keys[i] * stride + head * width;
        const Real dScore = how.scale * row.weights[i] * (dWeights[i] - mean);
        addTimes(&result.dq[at], dScore, &k[keyAt], width);
        addTimes(&result.dk[keyAt], dScore, &q[at], width);
        addTimes(&result.dv[keyAt], row.weights[i], &dy[at], width);
      }
    }
  return result;
}

Real crossEntropy(const Real *logits, int64_t count, int64_t target, Real *dLogits) {
  const Real largest = *std::max_element(logits, logits + count);
  Real sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(logits[i] - largest);
  const Real logSum = largest + std::log(sum);
  if (dLogits) {
    for (int64_t i = 0; i < count; ++i)
      dLogits[i] = std::exp(logits[i] - logSum);
    dLogits[target] -= 1;
  }
  return logSum - logits[target];
}

} // namespace nano::reference
