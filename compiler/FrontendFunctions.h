// More functions of the model-building API: of elements, of bits, along rows, and random numbers.
// A part of Frontend.h, which includes it.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

//===- Elements ----------------------------------------------------------------===//

/// The op nano.NAME, in small letters, of every element of x, which is f32 or bf16.
Tensor elementwise(const char *name, const At &x);
/// Of every pair of elements; types and shapes go together as those of arithmetic.
Tensor elementwise(const char *name, const Operand &a, const Operand &b);

inline Tensor abs(const At &x) { return elementwise("abs", x); }
/// 1, −1, or x where that is 0; no gradient
inline Tensor sign(const At &x) { return elementwise("sign", x); }
/// Down; no gradient, as of ceil and round.
inline Tensor floor(const At &x) { return elementwise("floor", x); }
inline Tensor ceil(const At &x) { return elementwise("ceil", x); }
/// To the nearest, the even one of two.
inline Tensor round(const At &x) { return elementwise("round", x); }
inline Tensor erf(const At &x) { return elementwise("erf", x); }
/// ln(1 + x), as exact near 0 as elsewhere: ln(1 − p) of a small p is log1p(-p).
inline Tensor log1p(const At &x) { return elementwise("log1p", x); }
/// ln(eᵃ + eᵇ), without overflow.
inline Tensor logAddExp(const Operand &a, const Operand &b) {
  return elementwise("logAddExp", a, b);
}
/// Φ(x) = (1 + erf(x/√2))/2; where x is negative it loses no digits to that sum.
inline Tensor normalCdf(const At &x) { return elementwise("normalCdf", x); }
/// x·Φ(x) = x/2·(1 + erf(x/√2)), in f32, rounded to x's type.
Tensor gelu(const At &x);
/// Its approximation x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), which GPT-2 has.
Tensor geluTanh(const At &x);

// Integers, i32 alone. Shapes go together as those of arithmetic.
Tensor operator%(const Operand &a, const Operand &b); ///< a − b·⌊a/b⌋, of b's sign; b is not 0
Tensor operator&(const Operand &a, const Operand &b);
Tensor operator|(const Operand &a, const Operand &b);
Tensor operator^(const Operand &a, const Operand &b);
Tensor operator<<(const Operand &a, const Operand &b); ///< by b mod 32 bits
Tensor operator>>(const Operand &a, const Operand &b); ///< likewise; zeros come in from the left

/// The same bits as another type: f32 as i32, bf16 as u16, and back. No gradient. An f32 in two
/// pieces, a bf16 that is cut off and not rounded, and the 16 bits behind it:
///
///   const Tensor whole = bitcast((cast(bitcast(w, u16), i32) << 16) | cast(low, i32), f32);
///   w = bitcast(cast(bitcast(whole, i32) >> 16, u16), bf16);
///   low = cast(bitcast(whole, i32), u16);                          // the lower 16 bits
Tensor bitcast(const At &x, DType type);

/// Dimensions in another order: dimension k of the result is dimension order[k] of x.
Tensor transpose(const At &x, const Axes &order);

//===- Rows --------------------------------------------------------------------===//

/// The op nano.NAME, in small letters, a function of rows, along the last dimension of x, which is
/// f32 or bf16.
Tensor alongRows(const char *name, const At &x);

/// ln Σ eˣ over the last dimensions, which stay with size 1; in f32, without overflow. Of the
/// logits of a `crossEntropy`, before or behind it, nothing more is moved or held: a z-loss costs
/// nothing.
Tensor logSumExp(const At &x, const Axes &axes);
/// The first index of the largest number along the last dimension, which stays with size 1: i32.
/// NaN is above all numbers. At most 2²⁴ columns.
Tensor argmax(const At &x);
/// The columns of the numbers along the last dimension, the largest number's first; of equal ones
/// the first. Of f32, bf16 or i32, i32 of x's shape: argsort(-x) begins with the smallest, and
/// gather(x, argsort(x), -1) is sorted.
Tensor argsort(const At &x);
/// The probabilities along the last dimension that are nearest to x: max(x − τ, 0), with τ of each
/// row such that its sum is 1. Most are 0 where softmax has small ones. NaN, and rows whose largest
/// number is infinite, make their row NaN. At most 2²⁴ columns.
inline Tensor sparsemax(const At &x) { return alongRows("sparsemax", x); }
/// y[…, j] = x[…, indices[…, j]] of x […, C] and i32 [.., k]; 0 where an index is not in [0, C).
/// For small k: every column of the result looks at all of x's. The gradient goes back to where
/// the numbers came from.
Tensor takeAlong(const At &x, const Tensor &indices);
/// y[…, j, rest] = x[…, indices[…, j], rest]: `axis` of x, f32, bf16 or i32, looked up by i32 of
/// x's sizes before it and one more, [s₀, …, k]. Any k, each looked up once; indices are those of
/// `gather(table, ids)`: proven to lie in [0, size of the axis), or checked while the program runs,
/// in numbers of the rows of all tables.
Tensor gather(const At &x, const Tensor &indices, int64_t axis);
/// y[…, i, rest] = Σ x[…, j, rest] over the j with indices[…, j] = i, in order of j, in f32 and
/// rounded once; 0 where there is none. Dimension `axis` becomes `size`; the indices are those of
/// `gather`, [s₀, …, size of x's axis].
Tensor scatterAdd(const At &x, const Tensor &indices, int64_t size, int64_t axis = 0);
struct TopK {
  Tensor values, indices; ///< […, k], of x's type and i32, the largest first
};
/// The k largest numbers of the last dimension, none of them −∞ unless they are bf16, and their
/// indices; of equal ones the first. NaN, of any bits, is above all numbers, +∞ too, and equal to
/// NaN. Up to 64 of them by looking at the rows k times, more by `argsort`.
TopK topK(const At &x, int64_t k);

//===- Random numbers ----------------------------------------------------------===//

// In the training program alone. A number depends on the run's seed, the sequence's number in the
// run (step · sequences of a batch + sequence of the batch), the use (the calls in the program's
// order) and the element's position, by Philox 4x32-10: it is the same for any number of ranks and
// after a resume, and is computed again in the backward pass instead of being kept.

/// 32 random bits an element: i32.
Tensor randomBits(const Shape &shape, Line at = Line::here());
/// f32, uniform in [low, high), in 2²⁴ steps.
Tensor randomUniform(const Shape &shape, double low = 0, double high = 1, Line at = Line::here());
/// f32, normal, at most 5.8 deviations from the mean.
Tensor randomNormal(const Shape &shape, double mean = 0, double stddev = 1, Line at = Line::here());
/// f32: 1 with probability p, else 0.
Tensor randomBernoulli(const Shape &shape, double p, Line at = Line::here());
/// x/(1 − p) with probability 1 − p, else 0, element by element; x itself in validation and
/// sampling, and where p is 0.
Tensor dropout(const At &x, double p);

//===- Memory ------------------------------------------------------------------===//

void beginRecompute(Line at);
void endRecompute();
/// What `make()` computes in the training program is not kept for the backward pass, which makes it
/// again, to the bit: all but what is read outside of it, its result above all. Elsewhere it is
/// `make()` alone. Cheap values need it not, and `nanoc compile --max-memory` finds the others.
///
///   x = recompute([&] { return x + linear(gelu(linear(norm(x), in)), out); });
template <typename F> auto recompute(const F &make, Line at = Line::here()) {
  beginRecompute(at);
  auto result = make();
  endRecompute();
  return result;
}

/// Training sequences are rows of `row` tokens that do not see each other, of which every loss is a
/// token's own; how many rows a sequence has, the hyperparameter `hyper`, changes nothing but the
/// order of sums. `nanoc compile --max-memory` may then choose it where it is not given by -D.
void microBatch(const char *hyper, int64_t row, Line at = Line::here());

} // namespace nano::frontend
