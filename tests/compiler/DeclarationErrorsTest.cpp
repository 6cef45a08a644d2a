// Every mistake in what a model declares: parameters, optimizers, data, programs and
// hyperparameters.
#include "models/optimizers.h"
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

using namespace nano::frontend;
using namespace nano::test;

namespace {

TEST(DeclarationErrors, Parameters) {
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

TEST(DeclarationErrors, Optimizers) {
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

TEST(DeclarationErrors, Training) {
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

TEST(DeclarationErrors, Columns) {
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

TEST(DeclarationErrors, Documents) {
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

TEST(DeclarationErrors, ProductsWithScales) {
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

TEST(DeclarationErrors, Fp8Products) {
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

TEST(DeclarationErrors, WhatAModelLacks) {
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

TEST(DeclarationErrors, WhatABodyThrows) {
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

TEST(DeclarationErrors, MoreThanATableHolds) {
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

TEST(DeclarationErrors, UseOutsideOfAModel) { EXPECT_THROW(step(), ModelError); }

//===- Hyperparameters ---------------------------------------------------------===//

void declareAll() {
  hyper("layers", 12, "how many layers", 6);
  hyper("rate", 0.5, "how fast");
  hyper("dtype", {bf16, f32}, "compute type");
  hyper("fp8", {"off"}, "not supported yet");
}

TEST(DeclarationErrors, Overrides) {
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

TEST(DeclarationErrors, Defaults) {
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
