// Every element-wise function that is registered, of floats and of integers, compiled and run on
// this machine and on the emulator, in f32 and bf16, of odd sizes, one row, one column and one
// number, against what its op says in double precision. Tolerance: 4e-6 of 1 + |f(x)| for f32, of
// which the GPU's exponential needs (2 + |x|)·2^-23·e^x; one rounding more for bf16. What is exact,
// integers and bits, is compared as such.
#include "tests/codegen/Everywhere.h"

#include "ir/graph/BinaryFunctions.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace nano;
using namespace nano::test;

namespace {

using Shape = std::vector<int64_t>;
const Shape allSizes[] = {{1}, {1, 7}, {5, 1}, {3, 130}, {2, 3, 8}};

std::string typeText(const Shape &sizes, const std::string &element) {
  std::string text;
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + element;
}

TensorValue filled(const Shape &sizes, const std::function<double()> &next) {
  TensorValue value{sizes, {}};
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    value.data.push_back(next());
  return value;
}

class UnaryFunctions : public testing::TestWithParam<const graph::UnaryFunction *> {};

TEST_P(UnaryFunctions, AreWhatTheirOpsSay) {
  const graph::UnaryFunction &function = *GetParam();
  std::mt19937_64 random(7);
  const double above = function.traits.above;
  std::uniform_real_distribution<double> any(-8, 8);
  if (std::isfinite(above))
    any = std::uniform_real_distribution<double>(above + 0.05, above + 9);
  for (const Shape &sizes : allSizes)
    for (const char *element : {"f32", "bf16"}) {
      const bool isNarrow = std::string(element) == "bf16";
      const std::string type = typeText(sizes, element), tensor = "tensor<" + type + ">";
      const TensorValue x = filled(sizes, [&] { return any(random); });
      const std::string text = taskText({type}, {type},
                                        "    %y = " + function.op.str() + " %a0 : " + tensor +
                                            "\n    nano.yield %y : " + tensor);
      TensorValue rounded = x;
      {
        auto runner = TaskRunner::make(text, emitRow, TaskRunner::lanes().front());
        ASSERT_TRUE(runner);
        runner->setInput(0, x);
        rounded = runner->input(0);
      }
      runEverywhere(text, {x}, [&](const std::vector<TensorValue> &results) {
        for (size_t i = 0; i < rounded.data.size(); ++i) {
          const double exact = function.evaluate(rounded.data[i]);
          const double tolerance =
              function.traits.isExact
                  ? 0
                  : 4e-6 * (1 + std::abs(exact)) + (isNarrow ? std::ldexp(std::abs(exact), -8) : 0);
          ASSERT_NEAR(results[0].data[i], exact, tolerance) << "of " << rounded.data[i];
          if (std::isfinite(function.traits.low))
            ASSERT_GE(results[0].data[i], function.traits.low);
          if (std::isfinite(function.traits.high))
            ASSERT_LE(results[0].data[i], function.traits.high);
        }
      });
    }
}

std::vector<const graph::UnaryFunction *> allFunctions() {
  std::vector<const graph::UnaryFunction *> all;
  for (const graph::UnaryFunction &function : graph::unaryFunctions())
    all.push_back(&function);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registered, UnaryFunctions, testing::ValuesIn(allFunctions()),
                         [](const auto &info) { return info.param->op.substr(5).str(); });

TEST(UnaryFunctions, TreatNaNAndInfinitiesAsTheirOpsSay) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> arguments = {infinity, -infinity, std::nan(""), 0};
  for (const char *name :
       {"erf", "normalcdf", "sign", "abs", "floor", "ceil", "round", "tanh", "log1p"}) {
    const std::string tensor = "tensor<4xf32>";
    const std::string text = taskText({"4xf32"}, {"4xf32"},
                                      std::string("    %y = nano.") + name + " %a0 : " + tensor +
                                          "\n    nano.yield %y : " + tensor);
    const auto *function =
        llvm::find_if(graph::unaryFunctions(),
                      [&](const graph::UnaryFunction &each) { return each.op.substr(5) == name; });
    runEverywhere(text, {TensorValue{{4}, arguments}},
                  [&](const std::vector<TensorValue> &results) {
                    for (size_t i = 0; i < arguments.size(); ++i) {
                      const double exact = function->evaluate(arguments[i]);
                      if (std::isnan(exact))
                        EXPECT_TRUE(std::isnan(results[0].data[i])) << name;
                      else
                        EXPECT_EQ(results[0].data[i], exact) << name << " of " << arguments[i];
                    }
                  });
  }
}

class BinaryFunctions : public testing::TestWithParam<const graph::BinaryFunction *> {
protected:
  /// The function of both, everywhere: `check` gets what was read, and the results.
  using Check = std::function<void(double a, double b, double exact, double result)>;
  static void run(const graph::BinaryFunction &function, const std::string &type,
                  const TensorValue &a, const TensorValue &b, const Check &check) {
    const std::string tensor = "tensor<" + type + ">";
    const std::string text = taskText({type, type}, {type},
                                      "    %y = " + function.op.str() + " %a0, %a1 : " + tensor +
                                          "\n    nano.yield %y : " + tensor);
    auto runner = TaskRunner::make(text, emitRow, TaskRunner::lanes().front());
    ASSERT_TRUE(runner);
    runner->setInput(0, a);
    runner->setInput(1, b);
    const TensorValue x = runner->input(0), y = runner->input(1);
    runEverywhere(text, {a, b}, [&](const std::vector<TensorValue> &results) {
      for (size_t i = 0; i < x.data.size(); ++i)
        check(x.data[i], y.data[i], function.evaluate(x.data[i], y.data[i]), results[0].data[i]);
    });
  }
};

TEST_P(BinaryFunctions, AreWhatTheirOpsSay) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> any(-8, 8);
  for (const Shape &sizes : allSizes)
    for (const char *element : {"f32", "bf16"}) {
      auto next = [&] { return any(random); };
      const TensorValue a = filled(sizes, next), b = filled(sizes, next);
      const double rounding = std::string(element) == "bf16" ? std::ldexp(1, -8) : 0;
      run(*GetParam(), typeText(sizes, element), a, b,
          [&](double x, double y, double exact, double result) {
            EXPECT_NEAR(result, exact, 4e-6 * (1 + std::abs(exact)) + rounding * std::abs(exact))
                << "of " << x << " and " << y;
          });
    }
}

std::vector<const graph::BinaryFunction *> allFunctionsOfTwo() {
  std::vector<const graph::BinaryFunction *> all;
  for (const graph::BinaryFunction &function : graph::binaryFunctions())
    all.push_back(&function);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registered, BinaryFunctions, testing::ValuesIn(allFunctionsOfTwo()),
                         [](const auto &info) { return info.param->op.substr(5).str(); });

/// Infinities and NaN in both places; sums that would overflow; results near 0, of a relative error
/// of 4e-6, which 1 + what is small would lose: of it the GPU's exponential has (2 + 25)·2^-23.
TEST_F(BinaryFunctions, LogAddExpHoldsNearZeroAndFarAway) {
  const double infinity = std::numeric_limits<double>::infinity();
  TensorValue a{{20}, {}}, b{{20}, {}};
  auto add = [&](double x, double y) {
    a.data.push_back(x);
    b.data.push_back(y);
  };
  const double special[] = {infinity, -infinity, std::nan(""), 1};
  for (double x : special)
    for (double y : special)
      add(x, y);
  add(0, -16);
  add(-25, 0);
  add(1e30, -1e30);
  add(3e38, 3e38);
  const auto *function =
      llvm::find_if(graph::binaryFunctions(),
                    [](const graph::BinaryFunction &each) { return each.op == "nano.logaddexp"; });
  run(*function, "20xf32", a, b, [](double x, double y, double exact, double result) {
    if (std::isnan(exact))
      EXPECT_TRUE(std::isnan(result)) << x << ", " << y;
    else if (std::isinf(exact))
      EXPECT_EQ(result, exact) << x << ", " << y;
    else
      EXPECT_NEAR(result, exact, 4e-6 * std::abs(exact)) << x << ", " << y;
  });
}

//===- Integers -----------------------------------------------------------===//

std::vector<std::string> integerOps() {
  mlir::MLIRContext context;
  context.loadDialect<graph::NanoDialect>();
  std::vector<std::string> names;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<graph::IntegerFunctionInterface>())
      names.push_back(name.getStringRef().str());
  return names;
}

class IntegerFunctions : public testing::TestWithParam<std::string> {};

TEST_P(IntegerFunctions, AreWhatTheirOpsSay) {
  std::mt19937_64 random(11);
  const double few[] = {0, 1, -1, 31, 32, 33, INT32_MAX, INT32_MIN, 7, -8};
  auto any = [&] {
    return random() % 3 ? static_cast<double>(static_cast<int32_t>(random()))
                        : few[random() % std::size(few)];
  };
  auto notZero = [&] {
    const double number = any();
    return number == 0 ? 5 : number;
  };
  const bool divides = GetParam() == "nano.rem";
  for (const Shape &sizes : allSizes) {
    const std::string type = typeText(sizes, "i32"), tensor = "tensor<" + type + ">";
    const std::string yield = "    nano.yield %y : " + tensor;
    const TensorValue a = filled(sizes, any),
                      b = divides ? filled(sizes, notZero) : filled(sizes, any);
    expectExact(taskText({type, type}, {type},
                         "    %y = " + GetParam() + " %a0, %a1 : " + tensor + "\n" + yield),
                {a, b});
    for (const char *constant : {"7.0", "8.0", "33.0", "377279.0"})
      expectExact(taskText({type}, {type},
                           std::string("    %c = nano.constant ") + constant + " : " + tensor +
                               "\n    %y = " + GetParam() + " %a0, %c : " + tensor + "\n" + yield),
                  {a});
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, IntegerFunctions, testing::ValuesIn(integerOps()),
                         [](const auto &info) { return info.param.substr(5); });

//===- Bits ---------------------------------------------------------------===//

/// An f32 is a bf16, cut off, and the 16 bits behind it: put together, changed, taken apart.
TEST(Bits, AreTwoPiecesOfAnF32) {
  std::mt19937_64 random(13);
  std::normal_distribution<double> normal;
  for (const Shape &sizes : allSizes) {
    auto t = [&](const char *element) { return "tensor<" + typeText(sizes, element) + ">"; };
    auto m = [&](const char *element) { return typeText(sizes, element); };
    const std::string body = "    %w = nano.bitcast %a0 : " + t("bf16") + " -> " + t("i16") +
                             "\n    %w32 = nano.cast %w : " + t("i16") + " -> " + t("i32") +
                             "\n    %low = nano.cast %a1 : " + t("i16") + " -> " + t("i32") +
                             "\n    %sixteen = nano.constant 16.0 : " + t("i32") +
                             "\n    %up = nano.shl %w32, %sixteen : " + t("i32") +
                             "\n    %both = nano.or %up, %low : " + t("i32") +
                             "\n    %whole = nano.bitcast %both : " + t("i32") + " -> " + t("f32") +
                             "\n    %moved = nano.sub %whole, %a2 : " + t("f32") +
                             "\n    %bits = nano.bitcast %moved : " + t("f32") + " -> " + t("i32") +
                             "\n    %upper = nano.shr %bits, %sixteen : " + t("i32") +
                             "\n    %u16 = nano.cast %upper : " + t("i32") + " -> " + t("i16") +
                             "\n    %new = nano.bitcast %u16 : " + t("i16") + " -> " + t("bf16") +
                             "\n    %rest = nano.cast %bits : " + t("i32") + " -> " + t("i16") +
                             "\n    nano.yield %whole, %new, %rest : " + t("f32") + ", " +
                             t("bf16") + ", " + t("i16");
    const TensorValue w = filled(sizes, [&] { return normal(random); }),
                      low = filled(sizes, [&] { return double(random() & 0xffff); }),
                      step = filled(sizes, [&] { return 1e-3 * normal(random); });
    expectExact(taskText({m("bf16"), m("i16"), m("f32")}, {m("f32"), m("bf16"), m("i16")}, body),
                {w, low, step});
  }
}

/// i16 is unsigned; i32 to i16 keeps the lower bits.
TEST(Bits, OfIntegersAndFloatsConvert) {
  std::mt19937_64 random(17);
  for (const Shape &sizes : allSizes) {
    auto t = [&](const char *element) { return "tensor<" + typeText(sizes, element) + ">"; };
    auto m = [&](const char *element) { return typeText(sizes, element); };
    const std::string body = "    %f = nano.cast %a0 : " + t("i16") + " -> " + t("f32") +
                             "\n    %b = nano.cast %a0 : " + t("i16") + " -> " + t("bf16") +
                             "\n    %i = nano.cast %a1 : " + t("i32") + " -> " + t("i16") +
                             "\n    %j = nano.cast %a2 : " + t("f32") + " -> " + t("i16") +
                             "\n    nano.yield %f, %b, %i, %j : " + t("f32") + ", " + t("bf16") +
                             ", " + t("i16") + ", " + t("i16");
    expectExact(
        taskText({m("i16"), m("i32"), m("f32")}, {m("f32"), m("bf16"), m("i16"), m("i16")}, body),
        {filled(sizes, [&] { return double(random() & 0xffff); }),
         filled(sizes, [&] { return double(static_cast<int32_t>(random())); }),
         filled(sizes, [&] { return double(random() % 65536) + 0.5; })});
  }
}

} // namespace
