// Every mistake that the front end names: one line with file, line and what is wrong.
#include "models/optimizers.h"
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
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

TEST(FrontendErrors, Matmul) {
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(x, w); }),
            "matmul: inner dimensions differ: [4, 8] × [3, 8]; transpose or reshape one of them");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return linear(reshape(x, {8, 4}), w); }),
            "matmul: inner dimensions differ: [8, 4] × [3, 8]ᵀ; transpose or reshape one of them");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) {
              return matmul(reshape(x, {2, 2, 8}), reshape(w, {3, 8, 1}));
            }),
            "matmul: leading dimensions differ: [2, 2, 8] × [3, 8, 1]");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(x, w[0]); }),
            "matmul: both sides need the same number of dimensions, at least 2: [4, 8] × [8]");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor w, Tensor) { return matmul(cast(x, bf16), reshape(w, {8, 3})); }),
      "matmul: types differ: bf16 × f32; cast one");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) { return matmul(cast(x, i32), w); }),
            "matmul: takes f32 or bf16, not i32 × f32");
}

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
  EXPECT_EQ(saidIn([](Tensor, Tensor, Tensor t) { return maximum(t); }),
            "maximum: takes f32 or bf16, not i32");
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

TEST(FrontendErrors, Bands) {
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
            "crossEntropy: the logits are bf16 [4, 8]; wanted is f32 [T, V]");
}

TEST(FrontendErrors, Attention) {
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

//===- Declarations ------------------------------------------------------------===//

TEST(FrontendErrors, Parameters) {
  auto declared = [](Name name, Shape shape, DType type, Init init) {
    return saidBy([&] { param(name, shape, type, init, someGroup()); });
  };
  EXPECT_EQ(declared("w", {0}, f32, constant(0)), "param 'w': every size must be at least 1: [0]");
  EXPECT_EQ(declared("w", {2}, i32, constant(0)),
            "param 'w': can be stored as f32 or bf16, not i32");
  EXPECT_EQ(declared("w", {3}, f32, constants({1, 2})),
            "param 'w': 2 initial values for 3 elements");
  EXPECT_EQ(declared("w", {3}, f32, uniform(1, -1)),
            "param 'w': uniform(1, -1): low is above high");
  EXPECT_EQ(declared("w", {3}, f32, normal(0, -1)),
            "param 'w': normal(0, -1): the deviation is negative");
  EXPECT_EQ(declared("w", {3}, f32, constant(0.0 / 0.0)),
            "param 'w': the initial value is not finite");
  EXPECT_EQ(declared("train", {3}, f32, constant(0)),
            "param: the name 'train' is the compiler's own; choose another");
  EXPECT_EQ(declared("last", {3}, f32, constant(0)),
            "param: the name 'last' is the compiler's own; choose another");
  EXPECT_EQ(declared("update_1", {3}, f32, constant(0)),
            "param: the name 'update_1' is the compiler's own; choose another");
  EXPECT_EQ(declared("grad.w", {3}, f32, constant(0)),
            "param: the name 'grad.w' is the compiler's own; choose another");
  EXPECT_EQ(declared("", {3}, f32, constant(0)), "param: the name is empty");
  EXPECT_NE(
      declared("group", {3}, f32, constant(0)).find("param: the name 'group' is taken by line "),
      std::string::npos);
  EXPECT_EQ(saidBy([] { param("w", {3}, f32, constant(0), Optimizer()); }),
            "param 'w': not an optimizer of this model");
  EXPECT_EQ(
      saidBy([] { param("w", {3}, f32, constant(0), muon("m", {.lr = 1.0, .momentum = 0.9})); }),
      "param 'w' [3]: muon updates matrices, the last two dimensions");
  EXPECT_EQ(saidBy([] { constants({}); }), "constants: 0 numbers; give 1 to 268435456");
  EXPECT_EQ(saidBy([] { Name(std::string(130, 'x').c_str()); }),
            "the name '" + std::string(130, 'x') + "' is longer than 119 bytes");
}

TEST(FrontendErrors, Optimizers) {
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  auto adamSays = [](auto change) {
    return saidBy([change] {
      Adam how = {.lr = 0.1};
      change(how);
      adam("a", how);
    });
  };
  EXPECT_EQ(adamSays([](Adam &how) { how.beta1 = 1.0; }),
            "adam: beta1 and beta2 must lie in [0, 1)");
  EXPECT_EQ(adamSays([](Adam &how) { how.beta2 = -0.5; }),
            "adam: beta1 and beta2 must lie in [0, 1)");
  EXPECT_EQ(adamSays([=](Adam &how) { how.beta2 = nan; }),
            "adam: beta1 and beta2 must lie in [0, 1)");
  EXPECT_EQ(adamSays([](Adam &how) { how.eps = 0.0; }), "adam: eps must be a positive f32");
  EXPECT_EQ(adamSays([=](Adam &how) { how.eps = nan; }), "adam: eps must be a positive f32");
  EXPECT_EQ(adamSays([](Adam &how) { how.eps = 1e-50; }), "adam: eps must be a positive f32");
  EXPECT_EQ(adamSays([=](Adam &how) { how.eps = infinity; }), "adam: eps must be a positive f32");
  EXPECT_EQ(adamSays([](Adam &how) { how.weightDecay = -1.0; }),
            "adam: weightDecay must be an f32 that is not negative");
  EXPECT_EQ(adamSays([](Adam &how) { how.weightDecay = 1e39; }),
            "adam: weightDecay must be an f32 that is not negative");
  EXPECT_EQ(adamSays([](Adam &how) {
              how.beta1 = 0.0;
              how.beta2 = 0.0;
              how.eps = 1e-30;
            }).rfind("no line of a test", 0),
            0u)
      << "these are allowed";
  EXPECT_EQ(saidBy([=] { adam("a", {.lr = nan}); }), "optimizer: a schedule holds the number nan");
  EXPECT_EQ(saidBy([=] { adam("a", {.lr = 1.0 - step() / infinity}); }),
            "optimizer: a schedule holds the number inf");
  EXPECT_EQ(saidBy([] { adam("a", {}); }),
            "optimizer 'a': it has no learning rate; give it {.lr = …}");
  EXPECT_EQ(saidBy([] { muon("m", {.lr = 0.1}); }), "scalar: a schedule is missing");
  EXPECT_EQ(saidBy([] { muon("m", {.lr = 0.1, .momentum = 0.9, .computeType = i32}); }),
            "muon: computeType can be f32 or bf16");
  EXPECT_EQ(saidBy([] { muon("m", {.lr = 0.1, .momentum = 0.9, .steps = 0}); }),
            "muon: steps must be 1 to 100");
  EXPECT_EQ(saidBy([] { muon("m", {.lr = 0.1, .momentum = 0.9, .steps = 101}); }),
            "muon: steps must be 1 to 100");
  EXPECT_EQ(
      saidBy([=] { muon("m", {.lr = 0.1, .momentum = 0.9, .coefficients = {3, infinity, 2}}); }),
      "muon: the coefficients must be f32");
  EXPECT_EQ(saidBy([=] { muon("m", {.lr = 0.1, .momentum = infinity}); }),
            "scalar: a schedule holds the number inf");
  EXPECT_EQ(saidBy([=] { scalar("s", min(step(), -infinity), f32); }),
            "scalar: a schedule holds the number -inf");
  EXPECT_EQ(saidBy([] { scalar("s", step(), bf16); }), "scalar: 's' can be f32 or i32, not bf16");
  EXPECT_EQ(errorOf([] { scalar("s", Sched() + 1.0, f32); }),
            "a schedule is made of one that was never given a value");
}

TEST(FrontendErrors, Training) {
  auto trained = [](Training how) { return saidBy(wholeModel([] {}, how)); };
  EXPECT_EQ(trained({0, 0, 8, 5}),
            "training: vocabSize 0, globalBatch 8 and numIterations 5 must be at least 1");
  EXPECT_EQ(trained({10, 10, 8, 5}),
            "training: eosToken 10 is not one of the 10 tokens of the vocabulary");
  EXPECT_EQ(trained({10, 0, 6, 5}),
            "training: globalBatch 6 is not a multiple of the 4 tokens of a training sequence");
  EXPECT_EQ(trained({10, 0, 8, 5, -1.0}),
            "training: gradClip = -1 must be finite and not negative");
  EXPECT_EQ(saidBy(wholeModel([] { training({10, 0, 8, 5}); })), "training: called twice");
}

TEST(FrontendErrors, Columns) {
  auto read = [](const char *name, const ColumnType &type) {
    return saidIn([=](Tensor, Tensor, Tensor) { return column(name, type); });
  };
  for (const char *name : {"", "a.b", "a/b", "tokens", "targets"})
    EXPECT_EQ(read(name, f32), std::string("column: '") + name +
                                   "' cannot be a column's name: letters, digits, _ and - make "
                                   "one, and it is not tokens or targets");
  EXPECT_EQ(read("x", f8e4m3), "column: 'x' can be f32, bf16, i32 or u8, not f8e4m3");
  EXPECT_EQ(read("in_document", i32), "column: 'in_document' is u8, not i32");
  EXPECT_EQ(
      saidIn([](Tensor, Tensor, Tensor) { return column("x", f32) + column("x", i32, OfInput); }),
      "column: 'x' is read as f32 and as i32");
  EXPECT_EQ(saidBy([] { column("x", f32); }),
            "column: 'x' is read outside of a training or validation program");
  EXPECT_EQ(saidBy(wholeModel([] {
              generate(4, [](Tensor tokens) {
                return reshape(cast(tokens, f32) + column("x", f32), {4, 1});
              });
            })),
            "column: 'x' is read outside of a training or validation program");
}

TEST(FrontendErrors, Documents) {
  EXPECT_EQ(saidBy([] {
              documents({.rule = Documents::Cut});
              documents({.rule = Documents::Cut});
            }),
            "documents: called twice");
  for (Documents::Rule rule : {Documents::Contiguous, Documents::Aligned}) {
    EXPECT_EQ(saidBy([=] { documents({.rule = rule, .shuffle = true}); }),
              "documents: only the rules Cut and Packed take documents apart, so that shuffle goes "
              "with them alone");
    EXPECT_EQ(saidBy([=] { documents({.rule = rule, .longest = 5}); }),
              "documents: only the rules Cut and Packed take documents apart, so that longest goes "
              "with them alone");
  }
}

TEST(FrontendErrors, ProductsWithScales) {
  auto product = [](const Shape &x, const Shape &w, const Fp8Scales &scales) {
    return saidIn(
        [=](Tensor, Tensor, Tensor) { return linear(full(x, 1, f32), full(w, 1, bf16), scales); });
  };
  EXPECT_EQ(product({4, 32}, {16, 32}, {.input = 0.0, .weight = 1.0}),
            "matmul in FP8: a scale of 0; it must lie between 2^-100 and 2^100");
  EXPECT_EQ(
      saidIn([](Tensor x, Tensor w, Tensor) { return matmul(x, w, {.input = x, .weight = 1.0}); }),
      "matmul in FP8: a scale is f32 [4, 8]; wanted is f32 []");
  EXPECT_EQ(product({4, 24}, {16, 24}, {.input = 1.0, .weight = 1.0}),
            "matmul in FP8: an inner dimension of 24 and 16 columns; both must be multiples of 16");
  EXPECT_EQ(product({4, 32}, {24, 32}, {.input = 1.0, .weight = 1.0}),
            "matmul in FP8: an inner dimension of 32 and 24 columns; both must be multiples of 16");
  EXPECT_EQ(
      product({4, 32}, {16, 16}, {.input = 1.0, .weight = 1.0}),
      "matmul: inner dimensions differ: [4, 32] × [16, 16]ᵀ; transpose or reshape one of them");
  EXPECT_EQ(product({2, 4, 32}, {2, 16, 32}, {.input = 1.0, .weight = 1.0}),
            "matmul in FP8: takes matrices, not f32 [2, 4, 32] × f32 [2, 16, 32]");
}

TEST(FrontendErrors, Fp8Products) {
  auto given = [](const Fp8 &how) {
    return saidBy([how] {
      const Tensor w = param("w", {3, 8}, f32, constant(1), someGroup());
      fp8Products(w, how);
      wholeModel()();
    });
  };
  EXPECT_EQ(given({.recipe = Fp8::Static, .input = 1, .weight = -1, .gradient = 1}),
            "fp8Products: 'w': the scales 1, -1, 1 must be positive");
  EXPECT_EQ(given({.recipe = Fp8::Delayed, .history = 0}),
            "fp8Products: 'w': a history of 0 steps; it can be 1 to 4096");
  EXPECT_EQ(given({.recipe = Fp8::Delayed, .history = 5000}),
            "fp8Products: 'w': a history of 5000 steps; it can be 1 to 4096");
  EXPECT_EQ(given({.recipe = Fp8::Current, .margin = 65}),
            "fp8Products: 'w': a margin of 65; it can be -64 to 64");
  EXPECT_EQ(saidBy([] { fp8Products(scalar("s", step(), f32), {.recipe = Fp8::Current}); }),
            "fp8Products: takes a parameter");
  EXPECT_EQ(saidBy([] {
              const Tensor w = param("w", {3, 8}, f32, constant(1), someGroup());
              fp8Products(w, {});
              fp8Products(w, {});
            }),
            "fp8Products: 'w' has been given before");
  EXPECT_EQ(saidIn([](Tensor x, Tensor w, Tensor) {
              fp8Products(w, {.recipe = Fp8::Current});
              return reshape(sum(x * w[0], 1), {4});
            }),
            "fp8Products: no matrix product of the training program has 'w' as its second operand, "
            "whole");
  auto head = [](const Fp8 &how) {
    return saidBy([how] {
      const Tensor table = param("table", {16, 16}, f32, normal(0, 1), someGroup());
      fp8Products(table, how);
      train(4, Loss::sum, [&](Tensor tokens, Tensor targets) {
        return crossEntropy(linear(table[tokens], table), targets);
      });
    });
  };
  EXPECT_EQ(head({.recipe = Fp8::Static}),
            "fp8Products: no static scales are known for 'table'; give --fp8-scales FILE.json, "
            "which nanorun --calibrate writes");
}

TEST(FrontendErrors, WhatAModelLacks) {
  EXPECT_EQ(
      errorOf([] {}),
      "models/x.cpp: the model builds no loss; call train(tokens, Loss::sum, …) in NANO_MODEL");
  auto zeros = [](Tensor t, Tensor) { return cast(t, f32); };
  EXPECT_EQ(errorOf([&] { train(4, Loss::sum, zeros); }),
            "models/x.cpp: the model has no validation program; call validate(tokens, Loss::mean, "
            "…) in NANO_MODEL");
  EXPECT_EQ(
      errorOf([&] {
        train(4, Loss::sum, zeros);
        validate(4, Loss::sum, zeros);
      }),
      "models/x.cpp: the model does not say how it is trained; call training({…}) in NANO_MODEL");
  EXPECT_EQ(errorOf([&] {
              train(4, Loss::sum, zeros);
              validate(4, Loss::sum, zeros);
              training({10, 0, 8, 5});
            }),
            "models/x.cpp: the model has no optimizer; call optimizer, or one of "
            "models/optimizers.h, and param, in NANO_MODEL");
  EXPECT_EQ(errorOf([&] {
              someGroup();
              train(4, Loss::sum, zeros);
              validate(4, Loss::sum, zeros);
              training({10, 0, 8, 5});
            }),
            "models/x.cpp: the model has no parameters; call param in NANO_MODEL");
}

TEST(FrontendErrors, WhatABodyThrows) {
  EXPECT_EQ(errorOf([] { throw std::runtime_error("out of ideas"); }),
            "models/x.cpp: the model threw an exception: out of ideas");
  EXPECT_EQ(errorOf([] { throw 42; }), "models/x.cpp: the model threw an exception");
  EXPECT_EQ(saidBy([] { require(false, "seq_len must be even"); }), "seq_len must be even");
  EXPECT_EQ(errorOf([] {
              List<int> list(3);
              list[3] = 1;
            }),
            "the model reads position 3 of a list of 3");
  EXPECT_EQ(errorOf([] { List<int> list(longestList + 1); }),
            "the model asks for sizes that do not fit: a list of 1048577 things; at most 1048576");
}

TEST(FrontendErrors, MoreThanATableHolds) {
  const Default one{"layers", 6};
  EXPECT_THROW(
      Defaults({one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one,
                one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one,
                one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one, one,
                one, one, one, one, one, one, one, one, one, one, one, one, one, one}),
      ModelError);
  EXPECT_EQ(saidBy([] { hyper("word", std::initializer_list<const char *>{}, ""); }),
            "hyper: 'word' allows no value");
}

TEST(FrontendErrors, UseOutsideOfAModel) { EXPECT_THROW(step(), ModelError); }

//===- Hyperparameters ---------------------------------------------------------===//

void declareAll() {
  hyper("layers", 12, "how many layers", 6);
  hyper("rate", 0.5, "how fast");
  hyper("dtype", {bf16, f32}, "compute type");
  hyper("fp8", {"off"}, "not supported yet");
}

TEST(FrontendErrors, Overrides) {
  auto overridden = [](const char *name, const char *value) {
    TraceInput input = inputFor([] { declareAll(); });
    input.overrides = {{name, value}};
    return errorOf(input);
  };
  EXPECT_EQ(overridden("layers", "5"), "-D layers=5: must be at least 6 (how many layers)");
  EXPECT_EQ(overridden("layers", "6.5"), "-D layers=6.5: not an integer (how many layers)");
  EXPECT_EQ(overridden("layers", ""), "-D layers=: not an integer (how many layers)");
  EXPECT_EQ(overridden("layers", "99999999999999999999"),
            "-D layers=99999999999999999999: not an integer (how many layers)");
  EXPECT_EQ(overridden("rate", "fast"), "-D rate=fast: not a finite number (how fast)");
  EXPECT_EQ(overridden("rate", "inf"), "-D rate=inf: not a finite number (how fast)");
  EXPECT_EQ(overridden("dtype", "f16"), "-D dtype=f16: can be bf16, f32 (compute type)");
  EXPECT_EQ(overridden("fp8", "head"), "-D fp8=head: can be off (not supported yet)");
  EXPECT_EQ(overridden("heads", "3"),
            "-D heads: x has no such hyperparameter; it has layers, rate, dtype, fp8");
}

TEST(FrontendErrors, Defaults) {
  auto with = [](Defaults defaults) {
    TraceInput input = inputFor([] { declareAll(); });
    input.defaults = &defaults;
    return said(errorOf(input));
  };
  EXPECT_EQ(
      with(Defaults({{"heads", 3}})),
      "NANO_DEFAULTS: there is no hyperparameter 'heads'; there are layers, rate, dtype, fp8");
  EXPECT_EQ(with(Defaults({{"layers", 5}})), "layers = 5: must be at least 6 (how many layers)");
  EXPECT_EQ(with(Defaults({{"dtype", "f16"}})), "dtype = f16: can be bf16, f32 (compute type)");
  EXPECT_EQ(saidBy([] {
              declareAll();
              hyper("rate", 1, "again");
            }),
            "hyper: 'rate' is declared twice");
}

TEST(FrontendValues, OverridesComeBeforeDefaults) {
  int64_t layers = 0;
  double rate = 0;
  DType type = f8e4m3;
  int word = -1;
  TraceInput input = inputFor([&] {
    layers = hyper("layers", 12, "");
    rate = hyper("rate", 0.5, "");
    type = hyper("dtype", {bf16, f32}, "");
    word = hyper("word", {"a", "b"}, "");
    wholeModel()();
  });
  const Defaults defaults({{"layers", 6}, {"rate", 0.25}, {"word", "b"}});
  input.defaults = &defaults;
  input.overrides = {{"layers", "24"}, {"dtype", "f32"}};
  EXPECT_EQ(errorOf(input), "");
  EXPECT_EQ(layers, 24);
  EXPECT_EQ(rate, 0.25);
  EXPECT_EQ(type, f32);
  EXPECT_EQ(word, 1);
}

} // namespace
