// Every mistake with frozen parameters, tables, states and events that the front end names.
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

using namespace nano::frontend;
using namespace nano::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string frozenSays(const Shape &shape, DType type, const std::function<Init()> &init) {
  return saidBy([&] { frozen("w", shape, type, init()); });
}

/// What a whole model says whose training program first runs `body`, with states x f32 [2] and
/// n i32 {}, and parameter w f32 [2].
std::string trainSays(const std::function<void(Tensor x, Tensor n, Tensor w)> &body,
                      const std::function<void(Tensor x, Tensor n, Tensor w)> &after = {}) {
  return saidBy([&] {
    const Optimizer group = adam("group", {.lr = 0.1});
    const Tensor w = param("w", {2}, f32, constant(1), group);
    const Tensor x = state("x", {2}, f32, unset());
    const Tensor n = state("n", {}, i32, constant(0));
    auto losses = [&](Tensor tokens, Tensor) { return cast(tokens, f32) * w[0]; };
    training({.vocabSize = 10, .eosToken = 0, .globalBatch = 8, .numIterations = 6});
    train(4, Loss::sum, [&](Tensor tokens, Tensor targets) {
      body(x, n, w);
      return losses(tokens, targets);
    });
    validate(4, Loss::sum, losses);
    if (after)
      after(x, n, w);
  });
}

TEST(FrontendStates, FrozenParametersAndHowTheyStart) {
  EXPECT_EQ(frozenSays({2}, i32, [] { return constant(0); }),
            "frozen 'w': can be stored as f32 or bf16, not i32");
  EXPECT_EQ(frozenSays({2}, f32, [] { return sign(infinity); }),
            "frozen 'w': the initial value is not finite");
  EXPECT_EQ(frozenSays({2}, bf16, [] { return constant(1e39); }),
            "frozen 'w': the initial value 1e+39 is not a number of type bf16");
  EXPECT_EQ(frozenSays({20}, f32, [] { return constants(19, [](int64_t) { return 0; }); }),
            "frozen 'w': 19 initial values for 20 elements");
  EXPECT_EQ(frozenSays({6}, f32, [] { return byBlocks(4, [](int64_t) { return constant(0); }); }),
            "frozen 'w': 4 equal blocks of 6 elements");
  EXPECT_EQ(frozenSays({6}, f32,
                       [] { return byBlocks(2, [](int64_t) { return constants({1, 2, 3}); }); }),
            "frozen 'w': a block starts with one number or with random ones");
  EXPECT_EQ(frozenSays({6}, f32, [] { return byBlocks(0, [](int64_t) { return constant(0); }); }),
            "byBlocks: 0 blocks; give 1 to 65536");
  EXPECT_EQ(saidBy([] {
              frozen("w", {2}, f32, constant(0));
              frozen("w", {2}, f32, constant(0));
            }).rfind("param: the name 'w' is taken by line ", 0),
            0U);
}

TEST(FrontendStates, Copies) {
  auto copied = [](const Shape &shape, DType type, bool transposed) {
    return saidBy([&] {
      const Tensor source = frozen("source", {2, 3}, f32, sign());
      state("w", shape, type, transposed ? transposeOf(source) : copyOf(source));
    });
  };
  EXPECT_EQ(copied({3, 2}, f32, false),
            "state 'w': of shape [3, 2], starts as a copy of shape [2, 3]");
  EXPECT_EQ(copied({2, 3}, f32, true),
            "state 'w': of shape [2, 3], starts as a copy of shape [3, 2]");
  EXPECT_EQ(copied({2, 3}, i32, false), "state 'w': i32 starts as a copy of f32");
  EXPECT_EQ(saidBy([] {
              const Tensor source = frozen("source", {3}, f32, sign());
              frozen("w", {3}, f32, transposeOf(source));
            }),
            "frozen 'w': transposeOf a tensor of shape [3]");
  EXPECT_EQ(saidBy([] {
              Tensor self;
              self = frozen("w", {3}, f32, copyOf(self));
            }),
            "copyOf: this tensor was never given a value; a copy's source is declared before it");
  EXPECT_EQ(saidBy([] { copyOf(scalar("s", step(), f32)); }),
            "copyOf: takes a parameter, state or table of this model");
}

TEST(FrontendStates, Tables) {
  auto made = [](DType type, double (*element)(int64_t)) {
    return saidBy([&] { table("t", {20}, type, element); });
  };
  EXPECT_EQ(made(f32, [](int64_t i) { return i == 7 ? infinity : 1; }),
            "table 't': the initial value of element 7 is not finite");
  EXPECT_EQ(made(i32, [](int64_t i) { return i == 3 ? 0.5 : 1; }),
            "table 't': the initial value 0.5 of element 3 is not a number of type i32");
  EXPECT_EQ(made(bf16, [](int64_t) { return 1e39; }),
            "table 't': the initial value 1e+39 of element 0 is not a number of type bf16");
  EXPECT_EQ(made(f32,
                 [](int64_t i) -> double {
                   if (i == 5)
                     throw std::runtime_error("no such row");
                   return 1;
                 }),
            "constants: its function threw an exception for 5: no such row");
  EXPECT_EQ(made(f8e4m3, [](int64_t) { return 1.0; }),
            "table 't': can be stored as f32, bf16, i32 or u16, not f8e4m3");
  EXPECT_EQ(saidBy([] { table("t", {20}, f32, normal(0, 1)); }),
            "table 't': holds given numbers; a frozen parameter starts with random ones or as a "
            "copy");
  EXPECT_EQ(saidBy([] { table("t", {0, 3}, f32, [](int64_t) { return 1.0; }); }),
            "constants: 0 numbers; give 1 to 268435456");
}

/// A .npy file of that header and so many bytes of elements.
std::string npy(const std::string &header, size_t bytes) {
  const std::string path = testing::TempDir() + "numbers.npy";
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << char(header.size()) << '\0' << header
       << std::string(bytes, '\0');
  return path;
}

TEST(FrontendStates, FilesOfNumbers) {
  auto read = [](const std::string &path) {
    const std::string text = saidBy([&] { fromFile(path.c_str()); });
    const size_t at = text.find(path);
    return at == std::string::npos ? text : text.substr(at + path.size());
  };
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11)),
            ": 11 bytes of elements, its header says 12; write it again");
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12)),
            ": in Fortran order; write numpy.ascontiguousarray of it");
  EXPECT_EQ(read(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", 24)),
            ": elements of type '<c8'; write f32, f64, i32, i64 or u8");
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }", 0)),
            ": the shape (3, 0) is not one of 1 to 268435456 elements");
  EXPECT_EQ(read(npy("{'descr': '<f4'}", 0)),
            ": its header names no descr, fortran_order and shape; write it with numpy.save");
  const std::string other = testing::TempDir() + "other.npy";
  std::ofstream(other) << "not numbers";
  EXPECT_EQ(read(other), ": not a .npy file; write it with numpy.save");
  EXPECT_NE(read("/no/such.npy").find("No such file"), std::string::npos);
  // Right: goes on to the end of the model.
  EXPECT_EQ(errorOf([] {
              const std::string path =
                  npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }", 48);
              table("t", {2, 3}, i32, fromFile(path.c_str()));
              throw ModelError("the end");
            }),
            "the end");
}

TEST(FrontendStates, States) {
  EXPECT_EQ(saidBy([] { state("n", {}, i32, constant(0), OverRanks::mean); }),
            "state 'n': ranks combine f32 and bf16; keep i32 equal, or one on each");
  EXPECT_EQ(saidBy([] { state("n", {}, f32, normal(0, 1), OverRanks::each); }),
            "state 'n': what each rank keeps for itself starts with one number");
  EXPECT_EQ(saidBy([] { state("n", {}, i32, constant(0.5)); }),
            "state 'n': the initial value 0.5 is not a number of type i32");
  EXPECT_EQ(trainSays([](Tensor x, Tensor, Tensor) { x * 2.0; }),
            "*: state 'x' is read before it is set; set it above this line, or give it an initial "
            "value");
  const std::string twice = trainSays([](Tensor, Tensor n, Tensor) {
    set(n, n + 1);
    set(n, 2);
  });
  EXPECT_EQ(twice.rfind("set 'n': it is set in this program by line ", 0), 0U) << twice;
  EXPECT_EQ(trainSays([](Tensor x, Tensor n, Tensor) { set(x, n); }),
            "set 'x': to i32 []; it is f32 [2]");
  EXPECT_EQ(trainSays([](Tensor, Tensor n, Tensor) { set(n, 0.5); }), "set 'n': 0.5 is not an i32");
  auto setU16 = [](double number) {
    return saidBy([&] {
      const Tensor n = state("n", {}, u16, constant(1));
      training({.vocabSize = 10, .eosToken = 0, .globalBatch = 8, .numIterations = 6});
      train(4, Loss::sum, [&](Tensor tokens, Tensor) {
        set(n, number);
        return cast(tokens, f32);
      });
    });
  };
  EXPECT_EQ(setU16(65536), "set 'n': 65536 is not a u16");
  EXPECT_EQ(setU16(-1), "set 'n': -1 is not a u16");
  EXPECT_EQ(saidBy([] { state("n", {}, u16, constant(-1)); }),
            "state 'n': the initial value -1 is not a number of type u16");
  EXPECT_EQ(saidBy([] { state("n", {}, u16, normal(0, 1)); }),
            "state 'n': u16 starts with given numbers or as a copy");
  EXPECT_EQ(saidBy([] { state("n", {}, u16, constant(0), OverRanks::mean); }),
            "state 'n': ranks combine f32 and bf16; keep u16 equal, or one on each");
  EXPECT_EQ(saidBy([] { table("t", {2}, u16, [](int64_t i) { return 65535.0 + double(i); }); }),
            "table 't': the initial value 65536 of element 1 is not a number of type u16");
  EXPECT_EQ(trainSays([](Tensor x, Tensor, Tensor) { set(x + x, 1); }),
            "+: state 'x' is read before it is set; set it above this line, or give it an initial "
            "value");
  EXPECT_EQ(trainSays([](Tensor x, Tensor, Tensor) {
              set(x, 1);
              set(x * 2.0, 1);
            }),
            "set: only a state or a parameter of this model can be set");
  EXPECT_EQ(saidBy([] { set(state("n", {}, i32, constant(0)), 1); }),
            "set: states are set inside train, afterStep and at only");
}

TEST(FrontendStates, Events) {
  auto nothing = [](Tensor, Tensor, Tensor) {};
  EXPECT_EQ(trainSays(nothing, [](Tensor, Tensor, Tensor) { at(3, [] {}); }), "at: sets nothing");
  EXPECT_EQ(trainSays(nothing, [](Tensor, Tensor, Tensor) { afterStep([] {}); }),
            "afterStep: sets nothing");
  EXPECT_EQ(
      trainSays(nothing, [](Tensor, Tensor n, Tensor) { at(step() + 1, [&] { set(n, 1); }); }),
      "at: the step of an event cannot depend on step(); use numbers and iterations()");
  EXPECT_EQ(trainSays(nothing, [](Tensor, Tensor n,
                                  Tensor) { at(iterations() * 0.5 - 4, [&] { set(n, 1); }); }),
            "at: step -1; steps count from 0");
  EXPECT_EQ(trainSays(nothing, [](Tensor, Tensor n,
                                  Tensor) { at(1, [&] { afterStep([&] { set(n, 1); }); }); }),
            "event: inside another program");
}

} // namespace
