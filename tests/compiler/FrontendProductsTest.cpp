// Mistakes in products of matrices, bands and attention.
#include "models/optimizers.h"
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

using namespace nano::frontend;
using namespace nano::test;

namespace {

TEST(FrontendProducts, Matmul) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(x, w); }),
            "matmul: inner dimensions differ: [4, 8] × [3, 8]; transpose or reshape one of them");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return linear(reshape(x, {8, 4}), w); }),
            "matmul: inner dimensions differ: [8, 4] × [3, 8]ᵀ; transpose or reshape one of them");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) {
              return matmul(reshape(x, {2, 2, 8}), reshape(w, {3, 8, 1}));
            }),
            "matmul: leading dimensions differ; each is the same on both sides, or 1 or missing on "
            "one: [2, 2, 8] × [3, 8, 1]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return linear(x, reshape(w, {3, 1, 8})); }),
            "matmul: leading dimensions differ: [4, 8] × [3, 1, 8]ᵀ");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor w, Tensor) {
        return matmul(reshape(x, {4, 1, 1, 8}), reshape(w, {3, 4, 2}));
      }),
      "matmul: inner dimensions differ: [4, 1, 1, 8] × [3, 4, 2]; transpose or reshape one of "
      "them");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(x, w[0]); }),
            "matmul: both sides need two dimensions at least: [4, 8] × [8]");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor w, Tensor) { return matmul(cast(x, bf16), reshape(w, {8, 3})); }),
      "matmul: types differ: bf16 × f32; cast one");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(cast(x, i32), w); }),
            "matmul: takes f32 or bf16, not i32 × f32");
}

TEST(FrontendProducts, Bands) {
  auto heads = [](Tensor x) { return reshape(x, {4, 2, 4}); };
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return bandScores(x, x, 2); }),
            "bandScores: takes f32 or bf16 of three dimensions, not f32 [4, 8]");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) { return bandScores(heads(x), heads(x), 5); }),
            "bandScores: a band of 5 tokens in a sequence of 4");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) {
              return bandScores(heads(x), slice(heads(x), 2, 0, 3), 2);
            }),
            "bandScores: q and k differ: [4, 2, 4] and [4, 2, 3]");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) {
              return bandProduct(full({4, 1, 3}, 1, f32), heads(x));
            }),
            "bandProduct: tokens or heads differ: [4, 1, 3] and [4, 2, 4]");
}

TEST(FrontendProducts, Groups) {
  auto weights = [](int64_t groups, int64_t inner) { return full({groups, 3, inner}, 1, f32); };
  auto ends = [](int64_t groups) { return iota({groups}); };
  EXPECT_EQ(
      saidIn([&](Tensor x, Tensor w, Tensor) { return groupedLinear(x, w, ends(2)); }),
      "groupedLinear: takes rows of two dimensions and weights of three, f32 or bf16, not f32 "
      "[4, 8] and f32 [3, 8]");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) { return groupedLinear(x, weights(2, 8), x); }),
            "groupedLinear: the ends of 2 groups are i32 [2], of one at least, not f32 [4, 8]");
  EXPECT_EQ(
      saidIn([&](Tensor x, Tensor, Tensor) { return groupedLinear(x, weights(2, 7), ends(2)); }),
      "groupedLinear: rows of 8 numbers, and weights of 7");
}

TEST(FrontendProducts, Attention) {
  auto heads = [](Tensor x) { return reshape(x, {4, 2, 4}); };
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              return attention(x, x, x, {.first = t, .last = t});
            }),
            "attention: q is f32 [4, 8]; wanted is f32 or bf16 [T, H, Dh]");
  EXPECT_EQ(
      saidIn([&](Tensor x, Tensor, Tensor t) {
        return attention(heads(x), heads(x), cast(heads(x), bf16), {.first = t, .last = t});
      }),
      "attention: q, k and v differ: f32 [4, 2, 4], f32 [4, 2, 4] and bf16 [4, 2, 4]; k and v may "
      "have fewer heads than q, and v heads of another size");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              const Tensor keys = full({4, 3, 4}, 0.0, f32);
              return attention(heads(x), keys, keys, {.first = t, .last = t});
            }),
            "attention: the 3 heads of k and v do not divide the 2 of q");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              return attention(heads(x), heads(x), heads(x), {.first = iota({5}), .last = t});
            }),
            "attention: first is i32 [5]; wanted is i32 [4]");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              const Tensor keys = full({6, 2, 4}, 0.0, f32);
              return attention(heads(x), keys, keys, {.first = t, .last = iota({6})});
            }),
            "attention: last is i32 [6]; wanted is i32 [4]");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              const Tensor keys = full({6, 2, 4}, 0.0, f32);
              return attention(heads(x), keys, slice(keys, 0, 0, 5), {.first = t, .last = t});
            }),
            "attention: q, k and v differ: f32 [4, 2, 4], f32 [6, 2, 4] and f32 [5, 2, 4]; k and v "
            "may have fewer heads than q, and v heads of another size");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              return attention(heads(x), heads(x), heads(x),
                               {.first = t, .last = t, .scale = 1.0 / 0.0});
            }),
            "attention: the scale is not finite");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              return attention(heads(x), heads(x), heads(x),
                               {.first = t, .last = t, .scale = full({3, 1, 1, 1}, 1, f32)});
            }),
            "attention: a scale of f32 [3, 1, 1, 1] does not go with q, f32 [4, 2, 4]");
  EXPECT_EQ(saidIn([&](Tensor, Tensor, Tensor t) {
              const Tensor wide = full({4, 1, 4097}, 0.0, f32);
              return attention(wide, wide, wide, {.first = t, .last = t});
            }),
            "attention: the model asks for sizes that do not fit: heads of 4097 elements; at most "
            "4096");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) {
              Tensor sum = x;
              for (int i = 0; i < 100'000; ++i)
                sum = sum + x;
              return sum;
            }),
            "the model asks for sizes that do not fit: more than 65536 ops and parameters; give it "
            "fewer layers");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor t) {
              return attention(heads(x), heads(x), heads(x), {.first = t});
            }),
            "attention's last: this tensor was never given a value");
  auto scored = [&](auto score) {
    return saidIn([&](Tensor x, Tensor w, Tensor t) {
      return attention(heads(x), heads(x), heads(x),
                       {.first = t, .last = t, .score = [&](Tensor s, Tensor q, Tensor, Tensor) {
                          return score(s, q, w);
                        }});
    });
  };
  EXPECT_EQ(scored([](Tensor s, Tensor, Tensor w) { return s + w[0]; }),
            "[]: a score function computes from its four arguments and numbers alone");
  EXPECT_EQ(scored([](Tensor s, Tensor, Tensor) { return dropout(s, 0.1); }),
            "random numbers: a score function computes from its four arguments and numbers alone");
  EXPECT_EQ(scored([](Tensor, Tensor q, Tensor) { return q; }),
            "attention: the score function returns i32 []; a score is a single f32");
}

} // namespace
