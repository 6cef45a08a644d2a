// The pieces that random models are made of, each a few ops on values of the order of one, and the
// parameters that they read.
#pragma once

#include "tests/e2e/ModelText.h"
#include "tests/e2e/RandomModel.h"

#include <optional>
#include <random>

namespace nano::test {

/// Every piece takes values [T, C], unless it says otherwise, and draws what it leaves open.
class RandomPieces : protected ModelText {
protected:
  explicit RandomPieces(uint64_t seed) : random(seed) {}

  // Numbers.
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }
  int64_t randomWidth();
  std::string randomFloat(); ///< f32, or sometimes bf16 in models that have it

  // Parameters.
  Value parameter(const Shape &shape, const std::string &element, double deviation,
                  double mean = 0);
  Value embed(int64_t width);
  /// x [T, K] · a parameter, [T, N].
  Value linear(Value x, int64_t columns, const std::string &element);
  /// Products of one value, each by a function of a parameter, and the sum of products of theirs.
  Value branches(Value given);
  /// x beside two products of wide rows, which blocks of 8-bit scales divide.
  Value wide(Value given);

  /// Products of bf16 as kernels can end them: by a function, a gate, a bias or a norm.
  Value ended(Value given);

  // Along the last dimension, of any rank.
  /// x/√(mean x² + ε); LayerNorm when `centers`.
  Value norm(Value given, bool centers);
  Value softmax(Value given);
  Value logSoftmax(Value given); ///< x − ln Σ eˣ

  /// x plus a number for each index of `dim`, so that no two elements are equal.
  Value apart(Value x, int64_t dim);
  /// First keys of queries: none masked, a window, the document, or both.
  Value firstKeys();
  Value rotary(Value x); ///< rows of heads, of which each half turns the other
  Value attention(Value x);
  /// Rows in groups, wherever these end, through a layer of each group's own.
  Value groups(Value x);
  /// Attention to the last tokens by products along a band, with weights that heads mix.
  Value band(Value x);
  /// A recurrence along the tokens or along groups of columns, from one end or the other: with
  /// `decay`, of x's shape and in (0, 0.8), or else a running sum or product.
  Value recurrence(Value x, const std::optional<Value> &decay);
  /// Gathers or adds up along the groups of columns, or along the tokens, by numbers made of tokens
  /// and positions.
  Value indexed(Value x);
  /// The k largest columns choose rows of a table; what a row counts for is how far its column is
  /// above the largest one that is not chosen, so that a tie changes nothing.
  Value routed(Value x);
  /// Columns in the order of numbers made of tokens and positions.
  Value sorted(Value x);
  /// The projection of rows onto the simplex, whose columns without probability x does not choose.
  Value projected(Value x);
  /// Rows moved by some places towards either end, with zeros where none is moved to, along the
  /// tokens or parts of a row.
  Value moved(Value x);
  /// Some columns of parts of a product turned, beside the others as they are.
  Value turned(Value x);
  /// Dimensions in another order, a function of the last one there, and back.
  Value reordered(Value x);
  /// Logits divided by a number a column, times a number for all.
  Value scaled(Value z);
  /// [T], what a loss of one's own makes of logits in f32, beside the cross-entropy: smoothed
  /// targets, the entropy, the target's logit by hand, or how far columns are from each other.
  Value besideLoss(const Value &z);
  /// Whole numbers beside x, where these change x's own are equal.
  Value rounded(Value x);

  /// 32 random bits for each element; another stream for every call.
  Value randomBits(const Shape &shape);
  /// A quarter of the elements becomes 0.
  Value dropout(Value x);
  /// A normal number more for each element.
  Value noise(Value x);

  std::mt19937_64 random;
  RandomModel model;
  int64_t bf16Percent = 0;
  struct Declared {
    std::string name;
    Shape shape;
    std::string element;
    double mean, deviation;
    bool isMuon;
  };
  std::vector<Declared> declared;
  Value position; ///< [T], i32

private:
  /// Of an attention; some have heads that tensor cores compute.
  int64_t headSize();
  Value firstOfDocument(); ///< of each token's
  /// Integers of `shape`, [T] or [T, k], in [0, size), a literal, that depend on tokens and places.
  Value numbersBelow(const Shape &shape, const std::string &size);
  int64_t parameters = 0, uses = 0;
};

} // namespace nano::test
