// Attention over ranges of keys in doubles: what the templates are compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace nano::test {

/// Row-major [T, H, D], [T, Hk, D] or [T, H], D the size of heads of keys or of values.
using Numbers = std::vector<double>;

struct AttentionProblem {
  int tokens = 1, heads = 1, sharing = 1, size = 64; ///< sharing: H/Hk; size: of keys
  int valueSize = 64;
  double scale = 0.12;
  /// f and f′ of (scale·q·k, query, key, head); null: the identity.
  std::function<double(double, int, int, int)> score, slope;
  std::vector<int> first, last;
  Numbers q, k, v, dy, delta;

  size_t place(int token, int head, int column) const {
    return (size_t(token) * heads + head) * size + column;
  }
  /// Of the key that belongs to a head of queries.
  size_t keyPlace(int token, int head, int column) const {
    return (size_t(token) * (heads / sharing) + head / sharing) * size + column;
  }
  /// Of a result, and of the value that belongs to a head of queries.
  size_t resultPlace(int token, int head, int column) const {
    return (size_t(token) * heads + head) * valueSize + column;
  }
  size_t valuePlace(int token, int head, int column) const {
    return (size_t(token) * (heads / sharing) + head / sharing) * valueSize + column;
  }
};

struct AttentionResult {
  Numbers y, lse, dq, dk, dv;
};
AttentionResult attentionReference(const AttentionProblem &problem);

/// Random operands: normal, rounded to bf16 if asked.
void fillOperands(AttentionProblem &problem, bool isBf16, std::mt19937_64 &random);

// Ranges of keys.
/// Causal, in documents that end with a probability after each token, within `window` blocks of
/// `block` keys.
void causalRanges(AttentionProblem &problem, double endOfDocument, int window, int block,
                  std::mt19937_64 &random);
/// Whole documents, not causal.
void documentRanges(AttentionProblem &problem, double endOfDocument, std::mt19937_64 &random);
/// Any that never decrease.
void arbitraryRanges(AttentionProblem &problem, std::mt19937_64 &random);

/// Largest |actual − expected| / (1 + |expected|); infinite where one is NaN.
double largestError(const Numbers &actual, const Numbers &expected);

} // namespace nano::test
