// arith and math ops of a schedule to plan expressions.
#include "codegen/PlanExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using nano::plan::Expr;
using Kind = Expr::Kind;

namespace nano::codegen {
namespace {

constexpr int maxNodes = 10'000;

Expr constant(double value) {
  Expr expr;
  expr.constant = value;
  return expr;
}

Expr node(Kind kind, std::vector<Expr> operands) {
  Expr expr;
  expr.kind = kind;
  expr.operands = std::move(operands);
  return expr;
}

/// 1 where a truth value is 0, and 0 where it is 1.
Expr negation(Expr truth) { return node(Kind::Sub, {constant(1), std::move(truth)}); }

/// Kinds of ops that map to one operation of plans.
std::optional<Kind> simpleKind(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Kind>>(op)
      .Case<arith::NegFOp>([](auto) { return Kind::Neg; })
      .Case<arith::AddFOp>([](auto) { return Kind::Add; })
      .Case<arith::SubFOp>([](auto) { return Kind::Sub; })
      .Case<arith::MulFOp>([](auto) { return Kind::Mul; })
      .Case<arith::DivFOp>([](auto) { return Kind::Div; })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([](auto) { return Kind::Min; })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([](auto) { return Kind::Max; })
      .Case<arith::SelectOp>([](auto) { return Kind::Select; })
      .Case<arith::AndIOp>([](auto) { return Kind::Mul; }) // of truth values
      .Case<arith::OrIOp>([](auto) { return Kind::Max; })
      .Case<math::FloorOp>([](auto) { return Kind::Floor; })
      .Case<math::CeilOp>([](auto) { return Kind::Ceil; })
      .Case<math::SqrtOp>([](auto) { return Kind::Sqrt; })
      .Case<math::ExpOp>([](auto) { return Kind::Exp; })
      .Case<math::LogOp>([](auto) { return Kind::Log; })
      .Case<math::CosOp>([](auto) { return Kind::Cos; })
      .Case<math::PowFOp>([](auto) { return Kind::Pow; })
      .Default(std::nullopt);
}

class ExprBuilder {
public:
  FailureOr<Expr> build(Value value);

private:
  FailureOr<Expr> compare(arith::CmpFOp op);
  FailureOr<std::vector<Expr>> operands(Operation *op) {
    std::vector<Expr> result;
    for (Value operand : op->getOperands()) {
      FailureOr<Expr> expr = build(operand);
      if (failed(expr))
        return failure();
      result.push_back(std::move(*expr));
    }
    return result;
  }

  int nodes = 0;
};

FailureOr<Expr> ExprBuilder::compare(arith::CmpFOp op) {
  FailureOr<std::vector<Expr>> sides = operands(op);
  if (failed(sides))
    return failure();
  Expr a = std::move((*sides)[0]), b = std::move((*sides)[1]);
  using Predicate = arith::CmpFPredicate;
  auto less = [](Expr left, Expr right) {
    return node(Kind::Less, {std::move(left), std::move(right)});
  };
  // Schedules have no NaN: ordered and unordered comparisons are the same.
  switch (op.getPredicate()) {
  case Predicate::OLT:
  case Predicate::ULT:
    return less(std::move(a), std::move(b));
  case Predicate::OGT:
  case Predicate::UGT:
    return less(std::move(b), std::move(a));
  case Predicate::OLE:
  case Predicate::ULE:
    return negation(less(std::move(b), std::move(a)));
  case Predicate::OGE:
  case Predicate::UGE:
    return negation(less(std::move(a), std::move(b)));
  case Predicate::ONE:
  case Predicate::UNE:
    return node(Kind::Max, {less(a, b), less(b, a)});
  case Predicate::OEQ:
  case Predicate::UEQ:
    return negation(node(Kind::Max, {less(a, b), less(b, a)}));
  default:
    return op.emitOpError("compares in a way that plans do not have");
  }
}

FailureOr<Expr> ExprBuilder::build(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    static constexpr const char *names[] = {"step",     "num_iterations", "sequences", "world",
                                            "sequence", "seed_low",       "seed_high"};
    Expr variable;
    variable.kind = Kind::Variable;
    variable.variable = names[argument.getArgNumber()];
    return variable;
  }
  Operation *op = value.getDefiningOp();
  if (++nodes > maxNodes)
    return op->emitOpError("is part of a schedule of more than ") << maxNodes << " operations";
  if (auto literal = dyn_cast<arith::ConstantOp>(op)) {
    if (auto real = dyn_cast<FloatAttr>(literal.getValue()))
      return constant(real.getValueAsDouble());
    if (auto integer = dyn_cast<IntegerAttr>(literal.getValue()))
      return constant(double(integer.getType().isInteger(1) ? integer.getValue().getZExtValue()
                                                            : uint64_t(integer.getInt())));
  }
  if (auto comparison = dyn_cast<arith::CmpFOp>(op))
    return compare(comparison);
  bool isTruth = llvm::any_of(op->getOperandTypes(), [](Type type) { return type.isInteger(1); });
  if (isa<arith::UIToFPOp>(op) && isTruth)
    return build(op->getOperand(0));
  std::optional<Kind> kind = simpleKind(op);
  if (!kind)
    return op->emitOpError("in a schedule: the runtime cannot evaluate it");
  FailureOr<std::vector<Expr>> parts = operands(op);
  if (failed(parts))
    return failure();
  return node(*kind, std::move(*parts));
}

} // namespace

FailureOr<Expr> scalarExpr(graph::ScalarOp scalar) {
  return ExprBuilder().build(scalar.getBody().front().getTerminator()->getOperand(0));
}

} // namespace nano::codegen
