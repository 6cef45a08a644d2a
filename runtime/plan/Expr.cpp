// Evaluation and printing of schedule expressions.
#include "runtime/plan/Expr.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace nano::plan {

using Kind = Expr::Kind;

namespace {

constexpr std::string_view variableNames[] = {"step",     "num_iterations", "sequences", "world",
                                              "sequence", "seed_low",       "seed_high"};

double valueOf(std::string_view variable, const Variables &variables) {
  const double values[] = {variables.step,    variables.numIterations, variables.sequences,
                           variables.world,   variables.sequence,      variables.seedLow,
                           variables.seedHigh};
  for (size_t i = 0; i < std::size(variableNames); ++i)
    if (variableNames[i] == variable)
      return values[i];
  return std::numeric_limits<double>::quiet_NaN();
}

/// How tightly an expression's outermost operator binds when printed; higher binds tighter.
int precedence(Kind kind) {
  switch (kind) {
  case Kind::Less:
    return 1;
  case Kind::Add:
  case Kind::Sub:
    return 2;
  case Kind::Mul:
  case Kind::Div:
    return 3;
  case Kind::Neg:
    return 4;
  default:
    return 5;
  }
}

std::string printNumber(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

void print(const Expr &expr, int outer, std::string &out) {
  auto infix = [&](const char *symbol) {
    int own = precedence(expr.kind);
    bool parentheses = own < outer;
    if (parentheses)
      out += '(';
    print(expr.operands[0], own, out);
    out += symbol;
    print(expr.operands[1], own + 1, out);
    if (parentheses)
      out += ')';
  };
  switch (expr.kind) {
  case Kind::Constant:
    out += printNumber(expr.constant);
    return;
  case Kind::Variable:
    out += expr.variable;
    return;
  case Kind::Neg:
    out += '-';
    print(expr.operands[0], precedence(Kind::Neg), out);
    return;
  case Kind::Add:
    return infix(" + ");
  case Kind::Sub:
    return infix(" - ");
  case Kind::Mul:
    return infix(" * ");
  case Kind::Div:
    return infix(" / ");
  case Kind::Less:
    return infix(" < ");
  default:
    out += nameOf(expr.kind);
    out += '(';
    for (size_t i = 0; i < expr.operands.size(); ++i) {
      if (i)
        out += ", ";
      print(expr.operands[i], 0, out);
    }
    out += ')';
  }
}

} // namespace

bool isVariable(std::string_view name) {
  return std::find(std::begin(variableNames), std::end(variableNames), name) !=
         std::end(variableNames);
}

bool variesBySequence(const Expr &expr) {
  return (expr.kind == Kind::Variable && expr.variable == "sequence") ||
         std::any_of(expr.operands.begin(), expr.operands.end(), variesBySequence);
}

unsigned arity(Kind kind) {
  if (kind == Kind::Constant || kind == Kind::Variable)
    return 0;
  if (kind <= Kind::Cos)
    return 1;
  return kind == Kind::Select ? 3 : 2;
}

const char *nameOf(Kind kind) {
  static constexpr const char *names[] = {"const", "var", "neg", "floor", "ceil", "sqrt",
                                          "exp",   "log", "cos", "add",   "sub",  "mul",
                                          "div",   "min", "max", "pow",   "less", "select"};
  static_assert(std::size(names) == size_t(Kind::Select) + 1);
  return names[size_t(kind)];
}

double evaluate(const Expr &expr, const Variables &variables) {
  auto operand = [&](size_t i) { return evaluate(expr.operands[i], variables); };
  switch (expr.kind) {
  case Kind::Constant:
    return expr.constant;
  case Kind::Variable:
    return valueOf(expr.variable, variables);
  case Kind::Neg:
    return -operand(0);
  case Kind::Floor:
    return std::floor(operand(0));
  case Kind::Ceil:
    return std::ceil(operand(0));
  case Kind::Sqrt:
    return std::sqrt(operand(0));
  case Kind::Exp:
    return std::exp(operand(0));
  case Kind::Log:
    return std::log(operand(0));
  case Kind::Cos:
    return std::cos(operand(0));
  case Kind::Add:
    return operand(0) + operand(1);
  case Kind::Sub:
    return operand(0) - operand(1);
  case Kind::Mul:
    return operand(0) * operand(1);
  case Kind::Div:
    return operand(0) / operand(1);
  case Kind::Min:
    return std::min(operand(0), operand(1));
  case Kind::Max:
    return std::max(operand(0), operand(1));
  case Kind::Pow:
    return std::pow(operand(0), operand(1));
  case Kind::Less:
    return operand(0) < operand(1) ? 1 : 0;
  case Kind::Select:
    return operand(0) != 0 ? operand(1) : operand(2);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

uint32_t evaluateBits(const Scalar &scalar, const Variables &variables) {
  double value = evaluate(scalar.value, variables);
  if (scalar.type == DType::F32)
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value))
    return 0;
  using Limits = std::numeric_limits<int32_t>;
  double rounded = std::nearbyint(value); // the default rounding mode: ties to even
  return static_cast<uint32_t>(
      static_cast<int32_t>(std::clamp(rounded, double(Limits::min()), double(Limits::max()))));
}

std::string toString(const Expr &expr) {
  std::string out;
  print(expr, 0, out);
  return out;
}

} // namespace nano::plan
