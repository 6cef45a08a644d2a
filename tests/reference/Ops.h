// The operations of the two models, forward and backward, on flat row-major arrays.
// A backward function takes what its forward took and ∂loss/∂y, and returns or adds ∂loss/∂x.
#pragma once

#include "tests/reference/Tensor.h"

#include <functional>

namespace nano::reference {

/// c[m, n] += a[m, k] · b[k, n].
void addMatmul(Real *c, const Real *a, const Real *b, int64_t m, int64_t k, int64_t n);

/// The transpose [cols, rows] of a[rows, cols].
Vec transpose(const Real *a, int64_t rows, int64_t cols);

/// Σ a[i]·b[i] over `count` elements.
Real dot(const Real *a, const Real *b, int64_t count);

/// y += scale·x, elementwise.
void addScaled(Vec &y, Real scale, const Vec &x);

/// y[rows, out] = x[rows, in] · Wᵀ, with W [out, in].
Vec linear(const Vec &x, const Real *weight, int64_t in, int64_t out);

/// For y = x·Wᵀ: adds dyᵀ·x to dWeight [out, in] and returns dx = dy·W, [rows, in].
Vec linearBackward(const Vec &x, const Real *weight, const Vec &dy, int64_t in, int64_t out,
                   Real *dWeight);

/// y = x / sqrt(mean(x²) + epsilon) over each row of `width` elements.
Vec rmsNorm(const Vec &x, int64_t width, Real epsilon);
Vec rmsNormBackward(const Vec &x, const Vec &dy, int64_t width, Real epsilon);

/// y = (x − mean)/sqrt(var + 1e-5)·weight + bias over each row, var biased.
Vec layerNorm(const Vec &x, const Tensor &weight, const Tensor &bias);
/// Adds to dWeight and dBias.
Vec layerNormBackward(const Vec &x, const Tensor &weight, const Vec &dy, Tensor &dWeight,
                      Tensor &dBias);

/// relu(x)².
Vec reluSquared(const Vec &x);
Vec reluSquaredBackward(const Vec &x, const Vec &dy);

/// 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
Vec geluTanh(const Vec &x);
Vec geluTanhBackward(const Vec &x, const Vec &dy);

/// Half-truncated rotary embedding of x[rows, heads, headDim]; the row is the position.
/// direction +1 rotates as the model does, −1 back (which is also the derivative).
Vec rotary(const Vec &x, int64_t heads, int64_t headDim, Real direction);

/// Sizes and mask of one attention: y = softmax(scale·q·kᵀ + mask)·v per head,
/// q, k, v, y [rows, heads, headDim].
struct Attention {
  int64_t heads;
  int64_t headDim;
  Real scale;
  /// Whether the query position may see the key position; asked for key ≤ query only.
  std::function<bool(int64_t query, int64_t key)> sees;
};

Vec attention(const Attention &how, const Vec &q, const Vec &k, const Vec &v);

struct AttentionGradient {
  Vec dq, dk, dv;
};
AttentionGradient attentionBackward(const Attention &how, const Vec &q, const Vec &k, const Vec &v,
                                    const Vec &dy);

/// −log softmax(logits)[target] of one row of `count` logits; when dLogits is given it is set to
/// softmax(logits) − onehot(target).
Real crossEntropy(const Real *logits, int64_t count, int64_t target, Real *dLogits);

} // namespace nano::reference
