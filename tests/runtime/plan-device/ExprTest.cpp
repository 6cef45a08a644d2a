// Schedule expressions: every operation, rounding to scalars, printing, and a schedule as a model
// writes it.
#include "runtime/plan/Expr.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace nano::plan {
namespace {

using Kind = Expr::Kind;

Expr constant(double value) { return {Kind::Constant, value, "", {}}; }
Expr variable(const char *name) { return {Kind::Variable, 0, name, {}}; }
Expr apply(Kind kind, std::vector<Expr> operands) { return {kind, 0, "", std::move(operands)}; }
double apply(Kind kind, std::initializer_list<double> values) {
  std::vector<Expr> operands;
  for (double value : values)
    operands.push_back(constant(value));
  return evaluate(apply(kind, operands), {});
}

TEST(Expr, EvaluatesEveryOperation) {
  EXPECT_EQ(apply(Kind::Neg, {2.5}), -2.5);
  EXPECT_EQ(apply(Kind::Floor, {-1.5}), -2);
  EXPECT_EQ(apply(Kind::Ceil, {-1.5}), -1);
  EXPECT_EQ(apply(Kind::Sqrt, {2}), std::sqrt(2.0));
  EXPECT_EQ(apply(Kind::Exp, {1}), std::exp(1.0));
  EXPECT_EQ(apply(Kind::Log, {3}), std::log(3.0));
  EXPECT_EQ(apply(Kind::Cos, {1}), std::cos(1.0));
  EXPECT_EQ(apply(Kind::Add, {2, 3}), 5);
  EXPECT_EQ(apply(Kind::Sub, {2, 3}), -1);
  EXPECT_EQ(apply(Kind::Mul, {2, 3}), 6);
  EXPECT_EQ(apply(Kind::Div, {3, 2}), 1.5);
  EXPECT_EQ(apply(Kind::Min, {2, 3}), 2);
  EXPECT_EQ(apply(Kind::Max, {2, 3}), 3);
  EXPECT_EQ(apply(Kind::Pow, {2, 0.5}), std::pow(2.0, 0.5));
  EXPECT_EQ(apply(Kind::Less, {2, 3}), 1);
  EXPECT_EQ(apply(Kind::Less, {3, 3}), 0);
  EXPECT_EQ(apply(Kind::Select, {0.5, 10, 20}), 10);
  EXPECT_EQ(apply(Kind::Select, {0, 10, 20}), 20);
}

TEST(Expr, KnowsItsVariables) {
  Variables variables = {7, 100, 8, 2};
  EXPECT_EQ(evaluate(variable("step"), variables), 7);
  EXPECT_EQ(evaluate(variable("num_iterations"), variables), 100);
  EXPECT_EQ(evaluate(variable("sequences"), variables), 8);
  EXPECT_EQ(evaluate(variable("world"), variables), 2);
  EXPECT_FALSE(isVariable("rank"));
  EXPECT_TRUE(std::isnan(evaluate(variable("rank"), variables)));
}

TEST(Expr, EveryKindHasANameAndAnArity) {
  std::set<std::string> names;
  for (int kind = 0; kind <= int(Kind::Select); ++kind)
    names.insert(nameOf(Kind(kind)));
  EXPECT_EQ(names.size(), size_t(Kind::Select) + 1);
  EXPECT_EQ(arity(Kind::Variable), 0u);
  EXPECT_EQ(arity(Kind::Cos), 1u);
  EXPECT_EQ(arity(Kind::Less), 2u);
  EXPECT_EQ(arity(Kind::Select), 3u);
}

/// The learning rate and the window of the reference model's schedule, at the steps where they
/// bend.
TEST(Expr, FollowsTheReferenceSchedules) {
  Expr x = apply(Kind::Div, {variable("step"), variable("num_iterations")});
  Expr w = apply(Kind::Div, {apply(Kind::Sub, {constant(1), x}), constant(0.4)});
  Expr falling =
      apply(Kind::Add, {w, apply(Kind::Mul, {apply(Kind::Sub, {constant(1), w}), constant(0.1)})});
  Expr rate = apply(Kind::Select, {apply(Kind::Less, {x, constant(0.6)}), constant(1), falling});
  EXPECT_EQ(evaluate(rate, {0, 1000, 8, 1}), 1);
  EXPECT_EQ(evaluate(rate, {599, 1000, 8, 1}), 1);
  EXPECT_DOUBLE_EQ(evaluate(rate, {800, 1000, 8, 1}), 0.55);
  EXPECT_DOUBLE_EQ(evaluate(rate, {1000, 1000, 8, 1}), 0.1);

  Scalar window = {"window", DType::I32, 0, {}};
  window.value = apply(
      Kind::Ceil,
      {apply(Kind::Div, {apply(Kind::Max, {apply(Kind::Mul, {constant(1728), x}), constant(1)}),
                         constant(128)})});
  EXPECT_EQ(evaluateBits(window, {0, 1770, 8, 1}), 1u);
  EXPECT_EQ(evaluateBits(window, {132, 1770, 8, 1}), 2u);
  EXPECT_EQ(evaluateBits(window, {1769, 1770, 8, 1}), 14u);
}

TEST(Expr, RoundsToScalars) {
  auto bits = [](DType type, double value) {
    return evaluateBits({"s", type, 0, constant(value)}, {});
  };
  EXPECT_EQ(bits(DType::F32, 0.1), std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(bits(DType::I32, 2.5), 2u);
  EXPECT_EQ(bits(DType::I32, 3.5), 4u);
  EXPECT_EQ(bits(DType::I32, -0.75), uint32_t(-1));
  EXPECT_EQ(bits(DType::I32, 1e10), 0x7fffffffu);
  EXPECT_EQ(bits(DType::I32, -1e10), 0x80000000u);
  EXPECT_EQ(bits(DType::I32, std::numeric_limits<double>::quiet_NaN()), 0u);
}

TEST(Expr, PrintsWithTheParenthesesThatItNeeds) {
  Expr step = variable("step"), two = constant(2);
  Expr difference = apply(Kind::Sub, {step, two});
  EXPECT_EQ(toString(apply(Kind::Mul, {difference, difference})), "(step - 2) * (step - 2)");
  EXPECT_EQ(toString(apply(Kind::Sub, {step, difference})), "step - (step - 2)");
  EXPECT_EQ(toString(apply(Kind::Sub, {difference, step})), "step - 2 - step");
  EXPECT_EQ(toString(apply(Kind::Div, {apply(Kind::Neg, {difference}), constant(0.5)})),
            "-(step - 2) / 0.5");
  EXPECT_EQ(toString(apply(Kind::Select, {apply(Kind::Less, {step, two}), apply(Kind::Sqrt, {step}),
                                          apply(Kind::Pow, {two, step})})),
            "select(step < 2, sqrt(step), pow(2, step))");
}

} // namespace
} // namespace nano::plan
