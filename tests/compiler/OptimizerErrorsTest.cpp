// Every mistake in an optimizer's equations: one line with the model's file and line, what is wrong
// and what to do.
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <limits>

using namespace nano::test;

namespace {

/// What a parameter w [4, 8] says that is updated by the equations.
template <typename F> std::string equationsSay(F equations, OptimizerOptions how = {}) {
  return saidBy([=] {
    OptimizerOptions whole = how;
    whole.lr = 0.1;
    param("w", {4, 8}, f32, constant(0), optimizer("o", whole, equations));
  });
}

TEST(OptimizerErrors, WhatIsSet) {
  EXPECT_EQ(equationsSay([](Update) {
            }).find("optimizer 'o': its equations do not set the parameter 'w' of line "),
            0u);
  EXPECT_EQ(equationsSay([](Update u) {
              u.set(u.parameter - u.gradient);
              u.set(u.parameter, 0.0);
            }).find("set: the parameter 'w' is set twice, before at line "),
            0u);
  EXPECT_EQ(
      equationsSay([](Update u) { u.set(u.state("m", f32) + u.gradient); }),
      "state 'm': the equations of optimizer 'o' never set it, so that it stays 0; set it, or "
      "use the number");
  EXPECT_EQ(equationsSay([](Update u) {
              const Tensor m = u.state("m", f32);
              u.set(m, 1.0);
              u.set(m, m + u.gradient);
            }).find("set: state 'm' of 'w' is set twice, before at line "),
            0u);
  EXPECT_EQ(
      equationsSay([](Update u) { u.set(u.gradient, 0.0); }),
      "set: the update of 'w' can set its parameter and its states, as `state` returned them");
  EXPECT_EQ(
      equationsSay([](Update u) { u.set(u.state("m", f32) + 1.0, 0.0); }),
      "set: the update of 'w' can set its parameter and its states, as `state` returned them");
}

TEST(OptimizerErrors, Shapes) {
  EXPECT_EQ(equationsSay([](Update u) { u.set(sum(u.gradient, -1)); }),
            "set: the parameter 'w' is [4, 8], the new value [4, 1]; reshape or reduce it to that");
  EXPECT_EQ(equationsSay([](Update u) {
              const Tensor v = u.state("v", f32, {4});
              u.set(u.parameter - u.gradient);
              u.set(v, sum(u.gradient * u.gradient, -1));
            }),
            "set: state 'v' of 'w' is [4], the new value [4, 1]; reshape or reduce it to that");
  EXPECT_EQ(equationsSay([](Update u) { u.set(u.parameter - u.state("v", f32, {4, 4})); }),
            "−: shapes do not go together: [4, 8] and [4, 4]; sizes must be equal or 1, from the "
            "last on");
  EXPECT_EQ(equationsSay([](Update u) { u.set(matmul(u.parameter, u.gradient)); }),
            "matmul: inner dimensions differ: [4, 8] × [4, 8]; transpose or reshape one of them");
  EXPECT_EQ(saidBy([] {
              param("w", {8}, f32, constant(0), optimizer("o", {.lr = 0.1}, [](Update u) {
                      u.set(u.parameter - transpose(u.gradient));
                    }));
            }),
            "transpose: takes matrices, not f32 [8]");
}

TEST(OptimizerErrors, States) {
  EXPECT_EQ(equationsSay([](Update u) {
              u.state("m", f32);
              u.state("m", f32);
            }).find("state 'm': the update of 'w' has it already, from line "),
            0u);
  EXPECT_EQ(equationsSay([](Update u) { u.state("m", f8e4m3); }),
            "state 'm': can be stored as f32, bf16, i32 or u16, not f8e4m3");
  EXPECT_EQ(equationsSay([](Update u) { u.state("", f32); }), "state: the name is empty");
  EXPECT_EQ(equationsSay([](Update u) { u.state("m", i32, constant(0.5)); }),
            "state 'm': the initial value 0.5 is no i32");
  EXPECT_EQ(equationsSay([](Update u) {
              u.state("m", f32, constant(std::numeric_limits<double>::infinity()));
            }),
            "state 'm': the initial value inf is no f32");
  EXPECT_EQ(equationsSay([](Update u) { u.state("m", f32, normal(0, 1)); }),
            "state 'm': begins as one constant everywhere");
  EXPECT_EQ(equationsSay([](Update u) {
              const Tensor n = u.state("n", i32);
              u.set(n, u.gradient);
            }),
            "set: state 'n' of 'w' is i32, the new value f32; cast it");
  EXPECT_EQ(equationsSay([](Update u) {
              const Tensor n = u.state("n", i32);
              u.set(n, 0.5);
            }),
            "set: state 'n' of 'w' is i32, 0.5 is no whole number");
  // A name that another parameter has.
  EXPECT_EQ(equationsSay([](Update u) { u.state("m", u16, constant(-1)); }),
            "state 'm': the initial value -1 is no u16");
  EXPECT_EQ(equationsSay([](Update u) { u.set(u.state("n", u16), 65536); }),
            "set: state 'n' of 'w': 65536 is not a u16");
  EXPECT_EQ(equationsSay([](Update u) { u.set(u.state("n", u16), 0.5); }),
            "set: state 'n' of 'w' is u16, 0.5 is no whole number");
  EXPECT_EQ(equationsSay([](Update u) { u.set(u.state("n", u16), u.gradient); }),
            "set: state 'n' of 'w' is u16, the new value f32; cast it");
  EXPECT_EQ(saidBy([] {
              const auto o = optimizer("o", {.lr = 0.1}, [](Update u) {
                const Tensor m = u.state("m", f32);
                u.set(m, u.gradient);
                u.set(u.parameter - m);
              });
              param("w.m", {8}, f32, constant(0), o);
              param("w", {8}, f32, constant(0), o);
            }).find("state: the name 'w.m' is taken by line "),
            0u);
}

TEST(OptimizerErrors, StatesOfOtherPrograms) {
  EXPECT_EQ(saidBy([] {
              const Tensor w =
                  param("w", {8}, f32, constant(0), sgd("s", {.lr = 0.1, .momentum = 0.9}));
              stateOf(w, "m");
            }),
            "stateOf: 'm': the optimizer of 'w' has no such state; it has momentum");
  EXPECT_EQ(saidBy([] { stateOf(frozen("w", {8}, f32, constant(0)), "m"); }),
            "stateOf: 'm': 'w' has no optimizer, and so no state of one; declare it with param(…)");
  EXPECT_EQ(saidBy([] { stateOf(scalar("s", step(), f32), "m"); }),
            "stateOf: 'm': 's' has no optimizer, and so no state of one; declare it with param(…)");
}

TEST(OptimizerErrors, WhatTheyRead) {
  EXPECT_EQ(saidBy([] {
              const Tensor other = param("v", {4, 8}, f32, constant(0), sgd("s", {.lr = 0.1}));
              param("w", {4, 8}, f32, constant(0),
                    optimizer("o", {.lr = 0.1}, [=](Update u) { u.set(u.parameter - other); }));
            }),
            "−: the update of 'w' reads 'v'; it computes from its own parameter, gradient and "
            "states, and from scalars");
  // The model's own states, to read and to set.
  auto withState = [](auto equations) {
    return saidBy([=] {
      const Tensor seen = state("seen", {}, f32, constant(0));
      param("w", {4, 8}, f32, constant(0),
            optimizer("o", {.lr = 0.1}, [=](Update u) { equations(u, seen); }));
    });
  };
  EXPECT_EQ(withState([](Update u, Tensor seen) { u.set(u.gradient * seen); }),
            "*: the update of 'w' reads 'seen'; it computes from its own parameter, gradient and "
            "states, and from scalars");
  EXPECT_EQ(withState([](Update u, Tensor seen) {
              set(seen, 1.0);
              u.set(u.gradient);
            }),
            "set: the update of 'w' sets its own parameter and states only, by the update's own "
            "set");
  EXPECT_EQ(equationsSay([](Update u) {
              report("gradient", u.gradient);
              u.set(u.gradient);
            }),
            "report 'gradient': inside an optimizer's equations; --reports norms reports what "
            "updates do");
  Update kept;
  EXPECT_EQ(saidBy([&] {
              const auto o = optimizer("o", {.lr = 0.1}, [&](Update u) {
                u.set(u.parameter - (kept.name ? kept.gradient : u.gradient));
                kept = u;
              });
              param("w", {4, 8}, f32, constant(0), o);
              param("v", {4, 8}, f32, constant(0), o);
            }),
            "−: a tensor of another program or model; only this model's parameters and scalars can "
            "be used in every program");
  EXPECT_EQ(saidBy([&] { kept.set(0.0); }), "set: outside of an optimizer's equations");
  EXPECT_EQ(saidBy([&] { kept.state("m", f32); }),
            "state 'm': outside of an optimizer's equations");
}

TEST(OptimizerErrors, Options) {
  auto sets = [](Update u) { u.set(u.parameter - u.lr * u.gradient); };
  EXPECT_EQ(equationsSay(sets), "no line of a test in: models/x.cpp: the model builds no loss; "
                                "call train(tokens, Loss::sum, …) in NANO_MODEL")
      << "this one is whole";
  EXPECT_EQ(equationsSay(sets, {.every = 0}), "optimizer 'o': every = 0 must be at least 1");
  EXPECT_EQ(saidBy([=] { optimizer("o", {}, sets); }),
            "optimizer 'o': it has no learning rate; give it {.lr = …}");
  EXPECT_EQ(saidBy([=] {
              sgd("o", {.lr = 0.1});
              optimizer("o", {.lr = 0.1}, sets);
            }).find("optimizer: the name 'lr.o' is taken by line "),
            0u);
  auto whole = [=](int64_t first, int64_t second) {
    return saidBy([=] {
      param("w", {4, 8}, f32, constant(0), optimizer("o", {.lr = 0.1, .every = first}, sets));
      param("v", {4, 8}, f32, constant(0), optimizer("p", {.lr = 0.1, .every = second}, sets));
      auto zero = [](Tensor x, Tensor) { return 0.0 * cast(x, f32); };
      training({.vocabSize = 8, .eosToken = 0, .globalBatch = 4, .numIterations = 100});
      train(4, Loss::sum, zero);
      validate(4, Loss::sum, zero);
    });
  };
  EXPECT_EQ(whole(1, 101), "optimizer 'p': every = 101 must be at most numIterations, 100");
  EXPECT_EQ(whole(9, 8),
            "optimizer 'p': with every = 8 the optimizers meet again after more than 64 steps; "
            "choose numbers that divide each other");
  EXPECT_EQ(whole(8, 4), "no line of a test in: ");
}

TEST(OptimizerErrors, Cuts) {
  auto rows = [](Update u) {
    u.set(u.parameter - u.gradient * rsqrt(mean(u.gradient * u.gradient, -1)));
  };
  auto matrices = [](Update u) {
    u.set(u.parameter - matmul(matmul(u.gradient, transpose(u.gradient)), u.gradient));
  };
  EXPECT_EQ(equationsSay(rows, {.cut = Cut::elements}),
            "optimizer 'o': the update of 'w' [4, 8] cannot be cut into elements: the reduce of "
            "line " +
                std::to_string(__LINE__ - 8) +
                " needs more at once, and pieces are of a row; leave the cut to the compiler, or "
                "change the equations");
  EXPECT_NE(equationsSay(matrices, {.cut = Cut::rows}).find("pieces are of a matrix"),
            std::string::npos);
  for (Cut cut : {Cut::any, Cut::rows, Cut::matrices, Cut::whole})
    EXPECT_EQ(equationsSay(rows, {.cut = cut})
                  .find("no line of a test in: models/x.cpp: the "
                        "model builds no loss"),
              0u);
}

} // namespace
