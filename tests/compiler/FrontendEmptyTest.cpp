// Tensors of no elements: where an equation has no value for what its results have, and where it
// has.
#include "models/optimizers.h"
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

using namespace nano::frontend;
using namespace nano::test;

namespace {

TEST(FrontendEmpty, Errors) {
  const auto none = [](Tensor x, int64_t axis) { return slice(x, axis, 0, 0); };
  using T = Tensor;
  EXPECT_EQ(saidIn([&](T x, T, T) { return maximum(none(x, 0), 0); }),
            "maximum: of no numbers: [0, 8]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return mean(none(x, 1), -1); }), "mean: of no numbers: [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return mean(none(x, 1)); }), "mean: of no numbers: [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return logSumExp(none(x, 1), -1); }),
            "logSumExp: of no numbers: [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return norm(none(x, 1)); }), "mean: of no numbers: [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return argmax(none(x, 1)); }),
            "maximum: of no numbers: [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T t) { return gather(none(x, 0), t); }),
            "gather: 4 ids of a table with no rows, f32 [0, 8]");
  EXPECT_EQ(saidIn([&](T x, T, T) { return gather(none(x, 1), iota({4, 2}), 1); }),
            "gather: 8 indices along an axis of 0 of f32 [4, 0]");
  EXPECT_EQ(saidIn([&](T x, T, T t) { return crossEntropy(none(x, 1), t); }),
            "crossEntropy: the logits f32 [4, 0] have no columns that a target could be");
  EXPECT_EQ(saidIn([&](T x, T, T t) {
              const T q = reshape(none(x, 1), {4, 2, 0});
              return attention(q, q, q, {.first = t, .last = t});
            }),
            "attention: q is f32 [4, 2, 0]; a head at least, of an element at least");
  EXPECT_EQ(saidIn([&](T x, T, T t) {
              const T q = reshape(x, {4, 2, 4}), v = slice(q, 2, 0, 0);
              return attention(q, q, v, {.first = t, .last = t});
            }),
            "attention: k and v are f32 [4, 2, 4] and f32 [4, 2, 0]; a head at least, of an "
            "element at least");
  EXPECT_EQ(saidIn([&](T x, T, T) {
              report("nothing", none(x, 0));
              return x;
            }),
            "report 'nothing': [0, 8] has no elements");
}

/// All others make of it what there is.
TEST(FrontendEmpty, Values) {
  const auto none = [](Tensor x, int64_t axis) { return slice(x, axis, 0, 0); };
  using T = Tensor;
  EXPECT_EQ(errorOf(wholeModel([&] {
              const T x = frozen("frozen", {4, 8}, f32, constant(1));
              afterStep([=] {
                const T empty = none(x, 1);
                T y = concat({x, topK(x, 0).values, empty}, 1);
                y = y + sum(none(x, 0), 0) + linear(empty, full({8, 0}, 0, f32));
                y = y + scatterAdd(none(y, 0), full({0}, 0, i32), 4);
                y = y + sum(norm(none(y, 0))) + sum(gather(y, full({4, 0}, 0, i32), 1));
                set(x, y + sum(none(y, 0) * full({1, 1}, 1, f32)));
              });
            })),
            "");
}

} // namespace
