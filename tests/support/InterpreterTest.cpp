// The interpreter against values worked out by hand: it is the oracle of others, so nothing of it
// comes from the compiler.
#include "tests/support/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano::test {
namespace {

using Data = std::vector<double>;

struct InterpreterTest : testing::Test {
  InterpreterTest() { context.loadDialect<NanoDialect>(); }

  /// The results of function @f of `text`.
  SmallVector<TensorValue> run(const std::string &text, ArrayRef<TensorValue> arguments,
                               Arithmetic arithmetic = Arithmetic::exact,
                               std::mt19937_64 *dither = nullptr) {
    message.clear();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << message;
    if (!module)
      return {};
    auto results =
        interpret(module->lookupSymbol<ProgramOp>("f"), arguments, states, {arithmetic, dither});
    return succeeded(results) ? std::move(*results) : SmallVector<TensorValue>();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  StateMap states;
  std::string message;
};

TEST_F(InterpreterTest, RoundsToEachType) {
  auto round = [&](double x, Type type) { return roundTo(x, type); };
  Type f32 = Float32Type::get(&context), bf16 = BFloat16Type::get(&context);
  Type e4m3 = Float8E4M3FNType::get(&context), e5m2 = Float8E5M2Type::get(&context);
  Type i32 = IntegerType::get(&context, 32);
  EXPECT_EQ(round(1 + std::ldexp(1, -30), f32), 1);
  EXPECT_EQ(round(1 + std::ldexp(1, -8), bf16), 1); // halfway, to even
  EXPECT_EQ(round(1 + 3 * std::ldexp(1, -8), bf16), 1 + std::ldexp(1, -6));
  EXPECT_EQ(round(1e6, e4m3), 448);
  EXPECT_EQ(round(-1e6, e5m2), -57344);
  EXPECT_EQ(round(17, e4m3), 16);
  EXPECT_EQ(round(19, e4m3), 20);
  EXPECT_EQ(round(-2.9, i32), -2);
  EXPECT_TRUE(std::isnan(round(NAN, e4m3)));
}

TEST_F(InterpreterTest, RoundsEveryOpWhenAsked) {
  const char *text = R"(nano.program @f(%x: tensor<1xbf16>) -> tensor<1xbf16> {
    %y = nano.mul %x, %x : tensor<1xbf16>
    nano.return %y : tensor<1xbf16>
  })";
  double x = 1 + std::ldexp(1, -7);
  EXPECT_EQ(run(text, {{{1}, {x}}})[0].data[0], x * x);
  EXPECT_EQ(run(text, {{{1}, {x}}}, Arithmetic::rounded)[0].data[0], 1 + std::ldexp(1, -6));
}

TEST_F(InterpreterTest, RoundsWithinOpsWhenAsked) {
  const char *text =
      R"(nano.program @f(%a: tensor<1x3xf32>, %b: tensor<3x1xf32>) -> (tensor<1x1xf32>, tensor<1xf32>) {
    %y = nano.matmul %a, %b : (tensor<1x3xf32>, tensor<3x1xf32>) -> tensor<1x1xf32>
    %s = nano.reduce sum %a dims [1] : tensor<1x3xf32> -> tensor<1xf32>
    nano.return %y, %s : tensor<1x1xf32>, tensor<1xf32>
  })";
  // A sum that keeps 2⁻³⁰ in double and loses it in f32.
  const double small = std::ldexp(1, -30);
  const std::vector<TensorValue> arguments = {{{1, 3}, {1, small, -1}}, {{3, 1}, {1, 1, 1}}};
  auto sums = [&](Arithmetic arithmetic) {
    auto results = run(text, arguments, arithmetic);
    return Data{results[0].data[0], results[1].data[0]};
  };
  EXPECT_EQ(sums(Arithmetic::exact), (Data{small, small}));
  EXPECT_EQ(sums(Arithmetic::rounded), (Data{small, small}));
  EXPECT_EQ(sums(Arithmetic::plain), (Data{0, 0}));
}

TEST_F(InterpreterTest, RoundsAtRandomToNothingOnAverage) {
  const char *text =
      R"(nano.program @f(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xbf16>) {
    %y = nano.add %x, %x : tensor<4096xf32>
    %z = nano.cast %x : tensor<4096xf32> -> tensor<4096xbf16>
    nano.return %y, %z : tensor<4096xf32>, tensor<4096xbf16>
  })";
  // A quarter of the way from one number of the type to the next: up one time in four.
  auto upward = [&](double unit, int result) {
    std::mt19937_64 dither(1);
    const double x = (1 + unit / 4) / (result == 0 ? 2 : 1);
    const auto results =
        run(text, {{{4096}, Data(4096, x)}}, Arithmetic::plain, &dither)[result].data;
    for (const double y : results)
      EXPECT_TRUE(y == 1 || y == 1 + unit) << y;
    return double(std::count(results.begin(), results.end(), 1 + unit)) / 4096;
  };
  EXPECT_NEAR(upward(std::ldexp(1, -23), 0), 0.25, 0.03); // four standard deviations
  EXPECT_NEAR(upward(std::ldexp(1, -7), 1), 0.25, 0.03);
}

TEST_F(InterpreterTest, IntegersWrapAndDivideDown) {
  auto results = run(
      R"(nano.program @f(%a: tensor<2xi32>, %b: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) {
    %q = nano.div %a, %b : tensor<2xi32>
    %p = nano.mul %a, %a : tensor<2xi32>
    %s = nano.scan sum %a : tensor<2xi32>
    nano.return %q, %p, %s : tensor<2xi32>, tensor<2xi32>, tensor<2xi32>
  })",
      {{{2}, {-7, 2147483647}}, {{2}, {2, 2}}});
  EXPECT_EQ(results[0].data, (Data{-4, 1073741823}));
  EXPECT_EQ(results[1].data, (Data{49, 1}));
  EXPECT_EQ(results[2].data, (Data{-7, 2147483640}));
}

TEST_F(InterpreterTest, OrdersRows) {
  auto results = run(R"(nano.program @f(%x: tensor<2x5xf32>) -> tensor<2x5xi32> {
    %y = nano.argsort %x : tensor<2x5xf32> -> tensor<2x5xi32>
    nano.return %y : tensor<2x5xi32>
  })",
                     {{{2, 5}, {1, 3, -INFINITY, 3, NAN, -0.0, -1, 0, INFINITY, 0}}});
  EXPECT_EQ(results[0].data, (Data{4, 1, 3, 0, 2, 3, 0, 2, 4, 1}));
}

TEST_F(InterpreterTest, ProjectsRowsOntoTheSimplex) {
  auto results = run(R"(nano.program @f(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {
    %y = nano.sparsemax %x : tensor<6x3xf32>
    nano.return %y : tensor<6x3xf32>
  })",
                     {{{6, 3},
                       {1, 0.5, -1,            //
                        7, 9, 7,               //
                        0.125, 0.125, 0.125,   //
                        -INFINITY, 0.25, 0.75, //
                        NAN, 1, 2,             //
                        -INFINITY, 0, INFINITY}}});
  const Data &y = results[0].data;
  for (const auto &[at, expected] :
       {std::pair<size_t, Data>{0, {0.75, 0.25, 0}}, {3, {0, 1, 0}}, {9, {0, 0.25, 0.75}}})
    EXPECT_EQ(Data(y.begin() + at, y.begin() + at + 3), expected);
  for (size_t i = 6; i < 9; ++i)
    EXPECT_FLOAT_EQ(y[i], 1.0 / 3);
  for (size_t i = 12; i < 18; ++i)
    EXPECT_TRUE(std::isnan(y[i]));
}

TEST_F(InterpreterTest, MovesElements) {
  auto results = run(
      R"(nano.program @f(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x2x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3x3xf32>) {
    %s = nano.slice %x dim 1 at 1 : tensor<2x3xf32> -> tensor<2x2xf32>
    %r = nano.rotate %x by 1 : tensor<2x3xf32>
    %b = nano.broadcast %x dims [1, 2] : tensor<2x3xf32> -> tensor<2x2x3xf32>
    %m = nano.reduce max %x dims [0] : tensor<2x3xf32> -> tensor<3xf32>
    %a = nano.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
    %t = nano.slice %x dim 0 at 1 : tensor<2x3xf32> -> tensor<1x3xf32>
    %c = nano.concat %t, %x dim 0 : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
    nano.return %s, %r, %b, %m, %a, %c : tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x2x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3x3xf32>
  })",
      {{{2, 3}, {1, 5, 3, 4, 2, 6}}});
  EXPECT_EQ(results[0].data, (Data{5, 3, 2, 6}));
  EXPECT_EQ(results[1].data, (Data{5, 3, 1, 2, 6, 4}));
  EXPECT_EQ(results[2].data, (Data{1, 5, 3, 4, 2, 6, 1, 5, 3, 4, 2, 6}));
  EXPECT_EQ(results[3].data, (Data{4, 5, 6}));
  EXPECT_EQ(results[4].data, (Data{9, 12}));
  EXPECT_EQ(results[5].data, (Data{4, 2, 6, 1, 5, 3, 4, 2, 6}));
}

TEST_F(InterpreterTest, LogSumExp) {
  const char *text = R"(nano.program @f(%x: tensor<6x2xf32>) -> tensor<6xf32> {
    %y = nano.reduce logsumexp %x dims [1] : tensor<6x2xf32> -> tensor<6xf32>
    nano.return %y : tensor<6xf32>
  })";
  Data x{std::log(2.0), std::log(3.0), 1000,     1000, -1000, -INFINITY,
         -INFINITY,     -INFINITY,     INFINITY, 1,    NAN,   1};
  Data y = run(text, {{{6, 2}, x}})[0].data;
  EXPECT_NEAR(y[0], std::log(5.0), 1e-15);
  EXPECT_EQ(y[1], 1000 + std::log(2.0));
  EXPECT_EQ(y[2], -1000);
  EXPECT_EQ(y[3], -INFINITY);
  EXPECT_EQ(y[4], INFINITY);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_F(InterpreterTest, MultipliesMatrices) {
  // a = [[1, 2, 3], [4, 5, 6]], b = [[1, 0], [2, 1], [0, 3]]: a·b = [[5, 11], [14, 23]].
  auto results = run(
      R"(nano.program @f(%a: tensor<2x3xf32>, %at: tensor<3x2xf32>, %b: tensor<3x2xf32>, %bt: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %p = nano.matmul %a, %b : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %q = nano.matmul %at, %bt add %p {transpose_a, transpose_b, alpha = 2.0 : f64, beta = -1.0 : f64} : (tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    nano.return %p, %q : tensor<2x2xf32>, tensor<2x2xf32>
  })",
      {{{2, 3}, {1, 2, 3, 4, 5, 6}},
       {{3, 2}, {1, 4, 2, 5, 3, 6}},
       {{3, 2}, {1, 0, 2, 1, 0, 3}},
       {{2, 3}, {1, 2, 0, 0, 1, 3}}});
  EXPECT_EQ(results[0].data, (Data{5, 11, 14, 23}));
  EXPECT_EQ(results[1].data, (Data{5, 11, 14, 23}));
}

/// What lies halfway between two numbers of the type goes to the even one; the rest to the nearest.
TEST_F(InterpreterTest, QuantizesWithOneScaleOrOneABlock) {
  const char *text =
      R"(nano.program @f(%x: tensor<2x4xf32>, %s: tensor<f32>, %b: tensor<2x2xf32>) -> (tensor<2x4xf8E5M2>, tensor<2x4xf8E4M3FN>, tensor<2x4xf32>, tensor<4x2xf8E5M2>) {
    %q = nano.quantize %x, %s : tensor<2x4xf32>, tensor<f32> -> tensor<2x4xf8E5M2>
    %p = nano.quantize %x, %b : tensor<2x4xf32>, tensor<2x2xf32> -> tensor<2x4xf8E4M3FN>
    %y = nano.dequantize %p, %b : tensor<2x4xf8E4M3FN>, tensor<2x2xf32> -> tensor<2x4xf32>
    %t = nano.transpose %q : tensor<2x4xf8E5M2> -> tensor<4x2xf8E5M2>
    nano.return %q, %p, %y, %t : tensor<2x4xf8E5M2>, tensor<2x4xf8E4M3FN>, tensor<2x4xf32>, tensor<4x2xf8E5M2>
  })";
  std::vector<TensorValue> arguments = {
      {{2, 4}, {3, -1, 17, 1e6, 0.5, 2, -19, NAN}}, {{}, {0.5}}, {{2, 2}, {1, 2, 0.25, 1}}};
  auto rounded = run(text, arguments, Arithmetic::rounded);
  ASSERT_EQ(rounded.size(), 4U);
  Data q = rounded[0].data;
  EXPECT_TRUE(std::isnan(q.back()));
  q.back() = 0;
  EXPECT_EQ(q, (Data{6, -2, 32, 57344, 1, 4, -40, 0})); // 34 and −38 lie halfway, to even
  Data p = rounded[1].data;
  p.back() = 0;
  EXPECT_EQ(p, (Data{3, -1, 8, 448, 2, 8, -20, 0})); // 8.5 and 19 too
  Data y = rounded[2].data;
  y.back() = 0;
  EXPECT_EQ(y, (Data{3, -1, 16, 896, 0.5, 2, -20, 0}));
  EXPECT_EQ(rounded[3].data[1], 1); // its row 0, column 1 is row 1, column 0 of q
  auto exact = run(text, arguments);
  EXPECT_EQ(exact[0].data[3], 2e6);
  EXPECT_EQ(exact[2].data[6], -19);
}

/// [1, 2]·[3, 4]ᵀ with scales 0.5 and 4, and sums over blocks of 128 with their own scales.
TEST_F(InterpreterTest, MultipliesScaledMatrices) {
  auto results = run(
      R"(nano.program @f(%a: tensor<1x2xf8E5M2>, %b: tensor<1x2xf8E4M3FN>, %sa: tensor<f32>, %sb: tensor<f32>, %d: tensor<1x1xf32>) -> tensor<1x1xf32> {
    %y = nano.scaled_matmul %a, %b scales(%sa, %sb) add %d {transpose_b, alpha = 3.0 : f64, beta = -1.0 : f64}
        : (tensor<1x2xf8E5M2>, tensor<1x2xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<1x1xf32>) -> tensor<1x1xf32>
    nano.return %y : tensor<1x1xf32>
  })",
      {{{1, 2}, {1, 2}}, {{1, 2}, {3, 4}}, {{}, {0.5}}, {{}, {4}}, {{1, 1}, {6}}});
  EXPECT_EQ(results[0].data, (Data{3 * 0.5 * 4 * 11 - 6}));
  results = run(
      R"(nano.program @f(%a: tensor<1x256xf8E5M2>, %b: tensor<256x128xf8E4M3FN>, %sa: tensor<1x2xf32>, %sb: tensor<2x1xf32>) -> tensor<1x128xf32> {
    %y = nano.scaled_matmul %a, %b scales(%sa, %sb)
        : (tensor<1x256xf8E5M2>, tensor<256x128xf8E4M3FN>, tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x128xf32>
    nano.return %y : tensor<1x128xf32>
  })",
      {{{1, 256}, Data(256, 1)},
       {{256, 128}, Data(256 * 128, 2)},
       {{1, 2}, {0.5, 8}},
       {{2, 1}, {3, 0.25}}});
  EXPECT_EQ(results[0].data, Data(128, 256 * 0.5 * 3 + 256 * 8 * 0.25));
}

TEST_F(InterpreterTest, ReadsAndFillsTables) {
  auto results = run(
      R"(nano.program @f(%w: tensor<3x2xf32>, %ids: tensor<4xi32>) -> (tensor<4x2xf32>, tensor<3x2xf32>) {
    %x = nano.gather %w, %ids : (tensor<3x2xf32>, tensor<4xi32>) -> tensor<4x2xf32>
    %y = nano.scatter_add %x, %ids : (tensor<4x2xf32>, tensor<4xi32>) -> tensor<3x2xf32>
    nano.return %x, %y : tensor<4x2xf32>, tensor<3x2xf32>
  })",
      {{{3, 2}, {1, 2, 3, 4, 5, 6}}, {{4}, {2, 0, 2, 2}}});
  EXPECT_EQ(results[0].data, (Data{5, 6, 1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(results[1].data, (Data{1, 2, 0, 0, 15, 18}));
}

/// Scores of query 1: 2·1·1 = 2 for key 0 and 2·1·2 = 4 for key 1, from which f takes ln 3.
TEST_F(InterpreterTest, AttendsWithinRangesAndScores) {
  auto results = run(
      R"(nano.program @f(%q: tensor<2x1x1xf32>, %k: tensor<2x1x1xf32>, %v: tensor<2x1x1xf32>, %first: tensor<2xi32>, %last: tensor<2xi32>)
      -> (tensor<2x1x1xf32>, tensor<2x1xf32>) {
    %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.0
        : (tensor<2x1x1xf32>, tensor<2x1x1xf32>, tensor<2x1x1xf32>, tensor<2xi32>, tensor<2xi32>) -> (tensor<2x1x1xf32>, tensor<2x1xf32>) {
    ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
      %k32 = nano.cast %key : tensor<i32> -> tensor<f32>
      %l = nano.constant 1.0986122886681098 : tensor<f32>
      %p = nano.mul %k32, %l : tensor<f32>
      %r = nano.sub %s, %p : tensor<f32>
      nano.yield %r : tensor<f32>
    }
    nano.return %y, %lse : tensor<2x1x1xf32>, tensor<2x1xf32>
  })",
      {{{2, 1, 1}, {5, 1}},
       {{2, 1, 1}, {1, 2}},
       {{2, 1, 1}, {10, 20}},
       {{2}, {0, 0}},
       {{2}, {0, 1}}});
  double a = std::exp(2.0), b = std::exp(4.0) / 3;
  EXPECT_DOUBLE_EQ(results[0].data[0], 10);
  EXPECT_NEAR(results[0].data[1], (10 * a + 20 * b) / (a + b), 1e-12);
  EXPECT_DOUBLE_EQ(results[1].data[0], 10);
  EXPECT_NEAR(results[1].data[1], std::log(a + b), 1e-12);
}

TEST_F(InterpreterTest, LossIsTheNegativeLogLikelihood) {
  auto results = run(
      R"(nano.program @f(%x: tensor<1x3xf32>, %t: tensor<1xi32>) -> (tensor<1xf32>, tensor<1xf32>) {
    %loss, %lse = nano.cross_entropy %x, %t : (tensor<1x3xf32>, tensor<1xi32>) -> (tensor<1xf32>, tensor<1xf32>)
    nano.return %loss, %lse : tensor<1xf32>, tensor<1xf32>
  })",
      {{{1, 3}, {0, std::log(2.0), std::log(5.0)}}, {{1}, {1}}});
  EXPECT_NEAR(results[0].data[0], std::log(4.0), 1e-12);
  EXPECT_NEAR(results[1].data[0], std::log(8.0), 1e-12);
}

constexpr const char *stateful = R"(
  nano.state @s : tensor<2xbf16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0, 2.0]>}
  nano.state @g : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.program @f(%x: tensor<2xbf16>) -> tensor<2xbf16> {
    %s = nano.load @s : tensor<2xbf16>
    %y = nano.fused (%s, %x) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16> {
    ^bb0(%a: tensor<2xbf16>, %b: tensor<2xbf16>):
      %c = nano.add %a, %b : tensor<2xbf16>
      nano.yield %c : tensor<2xbf16>
    }
    nano.store %y, @s : tensor<2xbf16>
    nano.accumulate %x, @g : tensor<2xbf16>
    %again = nano.load @s : tensor<2xbf16>
    nano.return %again : tensor<2xbf16>
  })";

TEST_F(InterpreterTest, StatesLiveFromCallToCall) {
  states["s"] = {{2}, {1, 2}};
  EXPECT_EQ(run(stateful, {{{2}, {10, 20}}})[0].data, (Data{11, 22}));
  EXPECT_EQ(run(stateful, {{{2}, {10, 20}}})[0].data, (Data{21, 42}));
  EXPECT_EQ(states["g"].data, (Data{20, 40}));
}

TEST_F(InterpreterTest, InitializesWhatIsMissing) {
  states["s"] = {{2}, {7, 8}};
  run(stateful, {{{2}, {0, 0}}});
  states.erase("g");
  std::mt19937_64 random(1);
  initializeStates(*module, states, random);
  EXPECT_EQ(states["s"].data, (Data{7, 8}));
  EXPECT_EQ(states["g"].data, (Data{0, 0}));
  states.clear();
  initializeStates(*module, states, random);
  EXPECT_EQ(states["s"].data, (Data{1, 2}));
}

TEST_F(InterpreterTest, SaysWhatIsWrong) {
  EXPECT_TRUE(run(stateful, {{{2}, {0, 0}}}).empty());
  EXPECT_EQ(message, "interpreter: no value given for @s");
  states["s"] = {{3}, {1, 2, 3}};
  EXPECT_TRUE(run(stateful, {{{2}, {0, 0}}}).empty());
  EXPECT_EQ(message, "interpreter: the value given for @s has another shape");
  EXPECT_TRUE(run(stateful, {}).empty());
  EXPECT_EQ(message, "interpreter: 0 arguments given");
  EXPECT_TRUE(run(stateful, {{{1}, {0}}}).empty());
  EXPECT_EQ(message, "interpreter: an argument's shape is not that of 'tensor<2xbf16>'");
  EXPECT_TRUE(run(R"(nano.program @f(%w: tensor<3x2xf32>, %ids: tensor<1xi32>) -> tensor<1x2xf32> {
    %x = nano.gather %w, %ids : (tensor<3x2xf32>, tensor<1xi32>) -> tensor<1x2xf32>
    nano.return %x : tensor<1x2xf32>
  })",
                  {{{3, 2}, Data(6)}, {{1}, {3}}})
                  .empty());
  EXPECT_EQ(message, "interpreter: id 3 lies outside [0, 3)");
}

} // namespace
} // namespace nano::test
