// Texts of modules with one attention task, and key ranges, for tests and benchmarks.
#pragma once

#include "tests/support/Interpreter.h"

#include <random>
#include <string>

namespace nano::test {

struct AttentionShape {
  int64_t tokens = 128, heads = 2, sharing = 1, size = 32; ///< sharing: H/Hk
  std::string element = "f32";
  std::string score =
      {}; ///< ops from %s, %query, %key, %head (rank-0 tensors) to %r; empty: no region
  std::string scoreGrad = {}; ///< ops from these and %g to %r
  bool packed = false; ///< q, k, v and their gradients are views of [T, H + 2·Hk, Dh] buffers
  bool spread = false; ///< elements of q, k, v and their gradients are two apart: views of [T, H,
                       ///< Dh, 2] buffers
  bool statistics = true; ///< attention yields lse
  int64_t valueSize = 0;  ///< of heads of values; 0: as of keys, which packed ones are
  int64_t ofValues() const { return valueSize > 0 ? valueSize : size; }
};

/// ins: q, k, v, first, last; outs: y, lse.
std::string attentionText(const AttentionShape &shape);
/// ins: q, k, v, first, last, lse, delta, dy; outs: dq, dk, dv.
std::string attentionGradText(const AttentionShape &shape);

/// Key ranges of every query.
struct KeyRanges {
  TensorValue first, last;
};
/// Key k is seen by query q when they are in one document, k ≤ q (if causal), and ⌊q/block⌋ −
/// ⌊k/block⌋ < window. Documents end with probability `endOfDocument` after each token.
KeyRanges keyRanges(int64_t tokens, bool causal, int64_t window, int64_t block,
                    double endOfDocument, std::mt19937_64 &random);
/// Arbitrary non-decreasing ranges.
KeyRanges arbitraryRanges(int64_t tokens, std::mt19937_64 &random);

} // namespace nano::test
