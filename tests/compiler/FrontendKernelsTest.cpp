// Every mistake with kernels of the model's own that the front end names.
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <limits>

using namespace nano::frontend;
using namespace nano::test;

namespace {

constexpr const char *text = "template <class X, class Y> void f(int64_t, int64_t, X, Y);";

/// What `saidBy` says of a model without a mistake.
constexpr const char *sound = "no line of a test in: ";

KernelCode soundCode() {
  KernelCode code;
  code.cpu = text;
  code.results = [](const Tensors &in) -> KernelResults { return {in[0]}; };
  return code;
}

/// What declaring a changed kernel says.
std::string declaring(const std::function<void(KernelCode &)> &change, const char *name = "f") {
  return saidBy([&] {
    KernelCode code = soundCode();
    change(code);
    kernel(name, code);
  });
}

/// What a training program says that calls a changed kernel on x f32 [4, 2] and n i32 [4].
std::string calling(const std::function<void(KernelCode &)> &change,
                    const std::function<void(const Kernel &k, Tensor x, Tensor n)> &call = {}) {
  return saidBy([&] {
    KernelCode code = soundCode();
    change(code);
    const Kernel k = kernel("f", code);
    const Optimizer group = adam("group", {.lr = 0.1});
    const Tensor w = param("w", {4, 2}, f32, constant(1), group);
    const Tensor bf = param("b", {2}, bf16, constant(1), group);
    training({.vocabSize = 10, .eosToken = 0, .globalBatch = 8, .numIterations = 6});
    train(4, Loss::sum, [&](Tensor tokens, Tensor) {
      if (call)
        call(k, w, tokens);
      else
        k(w);
      return reshape(sum(w * cast(bf, f32), 1), {4}) + cast(tokens, f32);
    });
    validate(4, Loss::sum, [&](Tensor tokens, Tensor) { return cast(tokens, f32); });
  });
}

TEST(FrontendKernels, Declarations) {
  const auto nothing = [](KernelCode &) {};
  EXPECT_EQ(declaring(nothing, "a-b"),
            "kernel 'a-b': the name is no identifier of C++: letters, digits and _ only");
  EXPECT_EQ(declaring([](KernelCode &c) { c.cpu = nullptr; }),
            "kernel 'f': it has neither .cpu nor .cuda");
  EXPECT_EQ(declaring(nothing, "squared"),
            "kernel 'squared': its .cpu defines no function of that name");
  EXPECT_EQ(declaring([](KernelCode &c) { c.cuda = "void g();"; }),
            "kernel 'f': its .cuda defines no function of that name");
  EXPECT_EQ(declaring([](KernelCode &c) { c.results = {}; }),
            "kernel 'f': it does not say its .results");
  EXPECT_EQ(declaring([](KernelCode &c) { c.threads = 48; }),
            "kernel 'f': .threads is 48; it must be a multiple of 32 from 32 to 1024");
  EXPECT_EQ(declaring([](KernelCode &c) { c.grain = 0; }),
            "kernel 'f': .grain is 0; it must be at least 1");
  EXPECT_EQ(declaring([](KernelCode &c) { c.iterationsPerBlock = -1; }),
            "kernel 'f': .iterationsPerBlock is -1; it must be at least 1");
  EXPECT_EQ(declaring([](KernelCode &c) { c.sharedBytes = 300000; }),
            "kernel 'f': .sharedBytes is 300000; a block has at most 232448");
  EXPECT_EQ(declaring([](KernelCode &c) { c.indexInput = 1; }),
            "kernel 'f': it has an .indexInput and no .indexBound");
  EXPECT_EQ(declaring([](KernelCode &c) { c.flops = std::numeric_limits<double>::quiet_NaN(); }),
            "kernel 'f': .flops is nan; it must be a number of at least 0");
  EXPECT_EQ(saidBy([] {
              kernel("f", soundCode());
              kernel("f", soundCode());
            }),
            "kernel 'f': there is one of this name already");
  EXPECT_NE(saidBy([] { textOfFile("no-such.cuh"); }).find("no-such.cuh"), std::string::npos);
}

TEST(FrontendKernels, Calls) {
  const auto nothing = [](KernelCode &) {};
  EXPECT_EQ(calling(nothing), sound);
  EXPECT_EQ(calling(nothing, [](const Kernel &, Tensor x, Tensor) { Kernel()(x); }),
            "this kernel was never declared: kernel(\"name\", {…}) does");
  EXPECT_EQ(calling(nothing, [](const Kernel &k, Tensor, Tensor) { k.all({}); }),
            "kernel 'f': needs an input at least");
  EXPECT_EQ(calling(nothing, [](const Kernel &k, Tensor, Tensor) { k(Tensor()); }),
            "kernel 'f': this tensor was never given a value");
  EXPECT_EQ(
      calling([](KernelCode &c) { c.results = [](const Tensors &) { return KernelResults{}; }; }),
      "kernel 'f': has no result");
  EXPECT_EQ(calling([](KernelCode &c) {
              c.results = [](const Tensors &in) -> KernelResults { return {in[0], in[0]}; };
            }),
            "this kernel has 2 results: call it by .all({…})");
  EXPECT_EQ(calling([](KernelCode &c) {
              c.results = [](const Tensors &) -> KernelResults { return {{{4, 0}, f32}}; };
            }),
            "kernel 'f': every size must be at least 1: [4, 0]");
  EXPECT_EQ(calling([](KernelCode &c) {
              c.indexInput = 0;
              c.indexBound = [](const Tensors &) { return 4; };
            }),
            "kernel 'f': .indexInput 0 is no i32 input, or below 4 is no index");
  EXPECT_EQ(calling([](KernelCode &c) { c.iterations = [](const Tensors &) { return 0; }; }),
            "kernel 'f': 0 iterations; it must have at least 1");
  EXPECT_EQ(calling(nothing,
                    [](const Kernel &k, Tensor x, Tensor) {
                      Tensors many;
                      for (int i = 0; i < 17; ++i)
                        many.add(x);
                      k.all(many);
                    }),
            "more than 16 tensors for a kernel");
}

TEST(FrontendKernels, Rows) {
  auto with = [](const Inputs &byRows, const Inputs &kept = {},
                 const Function<Tensors(const Tensors &, const Tensor &)> &row = {}) {
    return calling([&](KernelCode &c) { c.byRows = byRows, c.kept = kept, c.row = row; },
                   [](const Kernel &k, Tensor x, Tensor n) { (void)k.all({x, n}); });
  };
  using In = const Tensors &;
  const auto first = [](In in, const Tensor &) -> Tensors { return {in[0]}; };
  EXPECT_EQ(with({0}), sound);
  EXPECT_EQ(with({0, 1}), sound);
  EXPECT_EQ(with({0}, {1}, first), sound);
  EXPECT_EQ(with({2}),
            "kernel 'f': .byRows names input 2, which is not one of its 2 or is named twice");
  EXPECT_EQ(with({0}, {0}, first),
            "kernel 'f': .kept names input 0, which is not one of its 2 or is named twice");
  EXPECT_EQ(with({}, {0}), "kernel 'f': it has .kept inputs and no .row that reads them");
  EXPECT_EQ(with({}, {0}, first),
            "kernel 'f': its row has 1 results, and result 0 is f32 [4, 2]; wanted are 1, that one "
            "f32 [1, 2]");
  EXPECT_EQ(with({0}, {}, [](In, const Tensor &) { return Tensors(); }),
            "kernel 'f': its row has 0 results, and result 0 is missing; wanted are 1, that one "
            "f32 [1, 2]");
  EXPECT_EQ(calling(
                [](KernelCode &c) {
                  c.byRows = {0};
                  c.results = [](In) -> KernelResults { return {{{8}, f32}}; };
                },
                [](const Kernel &k, Tensor x, Tensor n) { (void)k.all({x, n}); }),
            "kernel 'f': result 0, [8], has not the positions as its dimension 0, of which there "
            "are 4");
  const Tensor *other = nullptr;
  EXPECT_EQ(calling(
                [&](KernelCode &c) {
                  c.byRows = {0};
                  c.row = [&](In, const Tensor &) -> Tensors { return {*other}; };
                },
                [&](const Kernel &k, Tensor x, Tensor n) {
                  other = &x;
                  (void)k.all({x, n});
                }),
            "kernel 'f': a kernel's row is computed from its inputs, the position and numbers "
            "alone");
}

TEST(FrontendKernels, Derivatives) {
  auto with = [](const Function<Tensors(const Tensors &, const Tensors &, const Tensors &)> &f) {
    return calling([&](KernelCode &c) { c.derivative = f; },
                   [](const Kernel &k, Tensor x, Tensor n) { (void)k.all({x, n}); });
  };
  using In = const Tensors &;
  EXPECT_EQ(with([](In, In, In dy) -> Tensors { return {dy[0], Tensor()}; }), sound);
  EXPECT_EQ(with([](In, In, In dy) -> Tensors { return {dy[0]}; }),
            "the derivative of kernel 'f' returns 1 tensors for 2 inputs; return Tensor() for one "
            "that has no gradient");
  EXPECT_EQ(with([](In, In, In dy) -> Tensors { return {dy[0], dy[0]}; }),
            "the derivative of kernel 'f' returns a gradient of input 1, which is i32: return "
            "Tensor() there");
  EXPECT_EQ(with([](In, In, In dy) -> Tensors { return {sum(dy[0]), Tensor()}; }),
            "the derivative of kernel 'f' returns f32 [] for input 0, which is f32 [4, 2]");
  EXPECT_EQ(with([](In in, In, In dy) -> Tensors { return {gather(dy[0], in[1]), Tensor()}; }),
            "the derivative of kernel 'f' uses gather, whose indices nothing checks there; read "
            "them in a kernel of its own");
  EXPECT_EQ(with([](In, In, In) -> Tensors { return {randomNormal({4, 2}), Tensor()}; }),
            "random numbers: the derivative of a kernel computes from its inputs, results, their "
            "gradients and numbers alone");
  EXPECT_EQ(calling([](KernelCode &) {},
                    [](const Kernel &, Tensor x, Tensor) {
                      KernelCode code = soundCode();
                      code.cpu = "void g();";
                      code.derivative = [x](In, In, In dy) -> Tensors { return {dy[0] * x}; };
                      const Kernel g = kernel("g", code);
                      g(x);
                    }),
            "*: the derivative of a kernel computes from its inputs, results, their gradients and "
            "numbers alone");
}

TEST(FrontendKernels, Replacements) {
  auto replacing = [](const char *function, const Replacement &how) {
    return saidBy([&] { replace(function, kernel("f", soundCode()), how); });
  };
  EXPECT_EQ(replacing("crossentropy", {}),
            "replace: there is no function 'crossentropy' that a kernel can take the place of; the "
            "nearest are crossEntropy, attention and logSumExp");
  EXPECT_EQ(replacing("norm", {.target = "tpu"}),
            "replace: there is no target 'tpu'; there are cpu and cuda");
  EXPECT_EQ(replacing("norm", {.tolerance = 1.5}),
            "replace: a tolerance of 1.5; it must lie in [0, 1)");
  EXPECT_EQ(saidBy([] { replace("norm", Kernel()); }),
            "replace: this kernel was never declared: kernel(\"name\", {…}) does");
}

} // namespace
