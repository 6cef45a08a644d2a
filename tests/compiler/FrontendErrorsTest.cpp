// Every mistake in what a model computes: one line with file, line and what is wrong.
#include "models/optimizers.h"
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <string>

using namespace nano::frontend;
using namespace nano::test;

namespace {

TEST(FrontendErrors, AWholeModelHasNone) { EXPECT_EQ(errorOf(wholeModel()), ""); }

TEST(FrontendErrors, NameTheLineThatMadeTheMistake) {
  unsigned line = 0;
  const std::string message = errorOf([&] {
    const Tensor x = param("x", {4, 8}, f32, constant(1), someGroup());
    train(4, Loss::sum, [&](Tensor tokens, Tensor) {
      const Tensor fine = x * 2.0;
      line = __LINE__ + 1;
      return matmul(fine, x);
    });
  });
  EXPECT_NE(message.find("FrontendErrorsTest.cpp:" + std::to_string(line) + ": matmul: "),
            std::string::npos)
      << message;
}

//===- Shapes and types --------------------------------------------------------===//

TEST(FrontendErrors, BitsAndIntegers) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return x % 3.0; }), "%: takes i32, not f32");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return t ^ 0.5; }),
            "^: 0.5 is not an i32; cast the tensor to f32 first");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return cast(t, u16) + t; }),
            "+: no arithmetic on u16 and i32; cast one");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return bitcast(x, u16); }),
            "bitcast: has no bits of f32 for u16; pairs are f32 and i32, bf16 and u16");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return erf(t); }),
            "erf: takes f32 or bf16, not i32");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return logAddExp(t, 1.0); }),
            "logAddExp: takes f32 or bf16, not i32");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return logAddExp(x, w); }),
            "logAddExp: shapes do not go together: [4, 8] and [3, 8]; sizes must be equal or 1, "
            "from the last on");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return gelu(t); }),
            "gelu: takes f32 or bf16, not i32 [4]");
}

TEST(FrontendErrors, Rows) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return topK(x, 9).values; }),
            "topK: 9 of rows of 8 numbers");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return topK(x, -1).values; }),
            "topK: -1 of rows of 8 numbers");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return argmax(t); }),
            "argmax: takes f32 or bf16 rows, not i32 [4]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return argsort(sum(x)); }),
            "argsort: takes rows of f32, bf16 or i32, not f32 []");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return sparsemax(t); }),
            "sparsemax: takes f32 or bf16 rows, not i32 [4]");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return sparsemax(full({(1 << 24) + 1}, 0, f32)); }),
            "sparsemax: 16777217 columns; at most 16777216");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return alongRows("median", x); }),
            "alongRows: there is no function of rows 'median'");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return takeAlong(x, t); }),
            "takeAlong: the indices are i32 [4] of rows of f32 [4, 8]; wanted is i32 with as many "
            "rows");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return gather(x, t, 1); }),
            "gather: the indices are i32 [4]; wanted is i32 [4, k]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return gather(x, t, 2); }),
            "gather: axis 2 of a tensor of 2 dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return scatterAdd(x, t, 0); }),
            "scatterAdd: into a dimension of 0");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return scatterAdd(x, slice(t, 0, 0, 3), 9); }),
            "scatterAdd: the indices are i32 [3]; wanted is i32 [4]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return scatterAdd(x, t, 600'000'000, 1); }),
            "scatterAdd: the indices are i32 [4]; wanted is i32 [4, 8]");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor, Tensor) { return scatterAdd(x, iota({4, 8}), 600'000'000, 1); }),
      "scatterAdd: the model asks for sizes that do not fit: 2400000000 rows; at most 2^31 - 1");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return logSumExp(x, 0); }),
            "logSumExp: is over the last dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return transpose(x, {0, 0}); }),
            "transpose: the order must name each dimension of [4, 8] once");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return transpose(x, {1}); }),
            "transpose: the order must name each dimension of [4, 8] once");
}

TEST(FrontendErrors, Arithmetic) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return x + w; }),
            "+: shapes do not go together: [4, 8] and [3, 8]; sizes must be equal or 1, from the "
            "last on");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor, Tensor t) { return x * t; }),
      "*: shapes do not go together: [4, 8] and [4]; sizes must be equal or 1, from the last on");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return x[0] / iota({8}); }),
            "/: no arithmetic on f32 and i32; cast one");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return cast(x, f8e4m3) + 1.0; }),
            "+: no arithmetic on f8e4m3 and f8e4m3; cast one");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return t * 0.5; }),
            "*: 0.5 is not an i32; cast the tensor to f32 first");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return exp(t); }),
            "exp: takes f32 or bf16, not i32");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return max(Operand(1.0), Operand(2.0)); }),
            "max: needs a tensor; these are numbers");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return select(x < 0.0, w, 0.0); }),
            "select: shapes do not go together: [4, 8] and [3, 8]; sizes must be equal or 1, from "
            "the last on");
}

TEST(FrontendErrors, ShapeFunctions) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return reshape(x, {5, 8}); }),
            "reshape: the numbers of elements differ: [4, 8] and [5, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return reshape(x, {-4, -8}); }),
            "reshape: every size must be at least 0: [-4, -8]");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return full({1 << 30, 1 << 30}, 0, f32); }),
            "full: [1073741824, 1073741824] has more than 2^40 elements");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return full({2}, 0, f8e5m2); }),
            "full: makes f32, bf16 or i32, not f8e5m2");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) {
              return reshape(full({1}, 0, f32), {1, 1, 1, 1, 1, 1, 1, 1, 1});
            }),
            "a shape has 9 dimensions; at most 8 are possible");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return iota({4}, 1); }),
            "iota: axis 1 of a tensor of 1 dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return slice(x, 1, 6, 3); }),
            "slice: [6, 9) of axis 1 of [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return slice(x, 1, 6, -1); }),
            "slice: [6, 5) of axis 1 of [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return slice(x, 2, 0, 1); }),
            "slice: axis 2 of a tensor of 2 dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return split<3>(x, 1).first; }),
            "split: 3 equal parts of axis 1 of [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return concat({x, w}, 1); }),
            "concat: parts do not go together along axis 1: f32 [4, 8] and f32 [3, 8]");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor) { return concat({}, 0); }), "concat: no parts");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return rotate(x, 8); }),
            "rotate: by 8 along the last dimension of [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return x[4]; }), "[]: position 4 of [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return sum(x)[0]; }),
            "[]: a single number has no positions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return full({x.size(2)}, 0, f32); }),
            "size: axis 2 of a tensor of 2 dimensions");
}

TEST(FrontendErrors, ReductionsAndScans) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return sum(x, 2); }),
            "sum: axis 2 of a tensor of 2 dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return mean(x, {}); }), "0 axes; name 1 to 8");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return sum(t); }),
            "sum: takes f32 or bf16, not i32");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return maximum(cast(t, u16)); }),
            "maximum: takes f32, bf16 or i32, not u16");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return cumsum(reshape(t, {2, 2})); }),
            "cumsum: takes i32 [T], not i32 [2, 2]");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return cumsum(t, {.reverse = true}); }),
            "cumsum: i32 is summed from the start of [T]; cast it to f32 first");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return cumsum(x, {.axis = 2}); }),
            "cumsum: axis 2 of a tensor of 2 dimensions");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return cumsum(sum(x)); }),
            "cumsum: takes f32 or bf16 of at least one dimension, not f32 []");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return cumprod(t); }),
            "cumprod: takes f32 or bf16 of at least one dimension, not i32 [4]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return cummax(x); }),
            "cummax: takes i32 [T], not f32 [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return recurrence(x, reshape(t, {4, 1})); }),
            "recurrence: no arithmetic on f32 and i32; cast one");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return recurrence(x, full({3, 8}, 0, f32)); }),
            "recurrence: shapes do not go together: [4, 8] and [3, 8]; sizes must be equal or 1, "
            "from the last on");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor, Tensor) { return recurrence(0.5, x, {.initial = 1.0 / 0.0}); }),
      "recurrence: the initial value is not finite");
}

TEST(FrontendErrors, Layers) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return x[0][t]; }),
            "gather: the table is f32 [8]; wanted is f32, bf16 or i32 [V, D]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return gather(x, w); }),
            "gather: the ids are f32 [3, 8]; wanted is i32 [T]");
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return norm(t); }),
            "norm: takes f32 or bf16 rows, not i32 [4]");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor, Tensor t) { return layerNorm(x, x[0], cast(t, f32), 1e-5); }),
      "layerNorm: scale and shift need one element a column: [4] for [4, 8]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return crossEntropy(x, iota({3})); }),
            "crossEntropy: targets is i32 [3]; wanted is i32 [4]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor t) { return crossEntropy(cast(x, bf16), t); }),
            "crossEntropy: the logits are bf16 [4, 8]; wanted is f32 [T, V]: cast or reshape them");
}

//===- Handles -----------------------------------------------------------------===//

TEST(FrontendErrors, TensorsOfOtherPrograms) {
  EXPECT_EQ(saidBy([] {
              const Tensor x = param("x", {4, 8}, f32, constant(1), someGroup());
              Tensor kept;
              train(4, Loss::sum, [&](Tensor t, Tensor) {
                kept = x * 2.0;
                return cast(t, f32);
              });
              validate(4, Loss::sum, [&](Tensor t, Tensor) { return kept + 1.0; });
            }),
            "+: a tensor of another program or model; only this model's parameters and scalars can "
            "be used in every program");
  Tensor kept;
  EXPECT_EQ(errorOf(wholeModel([&] { kept = scalar("s", 1.0, f32); })), "");
  EXPECT_EQ(saidIn([&](Tensor x, Tensor, Tensor) { return x + kept; }),
            "+: a tensor of another program or model; only this model's parameters and scalars can "
            "be used in every program");
  EXPECT_EQ(
      saidBy([] {
        const Tensor x = param("x", {4, 8}, f32, constant(1), someGroup());
        x + 1.0;
      }),
      "+: tensors are computed inside train, validate, generate and the equations of optimizers "
      "only");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return x + Tensor(); }),
            "+: this tensor was never given a value");
}

TEST(FrontendErrors, Programs) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return x; }),
            "train: the losses are f32 [4, 8]; wanted is f32 [4], one a token");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) { return sum(x); }),
            "train: the losses are f32 []; wanted is f32 [4], one a token");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) {
              train(4, Loss::sum, [](Tensor t, Tensor) { return t; });
              return x;
            }),
            "train: inside another program");
  EXPECT_EQ(saidIn([](Tensor x, Tensor, Tensor) {
              return param("y", {1}, f32, constant(0), someGroup("late"));
            }),
            "scalar: 'late.bias1' is declared inside a program; declare it before");
  auto logits = [](Tensor t) { return cast(t, f32); };
  EXPECT_EQ(saidBy([&] { generate(4, logits); }),
            "generate: the logits are f32 [4]; wanted is f32 [4, columns]");
  EXPECT_EQ(saidBy([&] { generate(0, logits); }), "generate: a sequence of 0 tokens");
  EXPECT_EQ(saidBy(wholeModel(
                [] { train(4, Loss::sum, [](Tensor t, Tensor) { return cast(t, f32); }); })),
            "train: the model has this program already");
  EXPECT_EQ(saidBy(wholeModel([] {
              auto zeros = [](Tensor) { return full({4, 2}, 0, f32); };
              generate(4, zeros);
              generate(4, zeros);
            })),
            "generate: the model has this program already");
}

} // namespace
