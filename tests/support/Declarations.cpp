// Declarations by way of the front end.
#include "tests/support/Declarations.h"

#include "compiler/Frontend.h"
#include "compiler/Registration.h"
#include "compiler/TraceModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <stdexcept>

using namespace mlir;

namespace nano::test {

/// What the body of the model runs.
static std::function<void()> declaring;

std::string declarations(std::function<void()> declare) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  declaring = std::move(declare);
  frontend::TraceInput input;
  input.name = "declarations";
  input.file = "declarations.cpp";
  input.body = [] {
    using namespace nano::frontend;
    declaring();
    training({.vocabSize = 2, .eosToken = 0, .globalBatch = 1, .numIterations = 100});
    auto zero = [](Tensor, Tensor) { return full({1}, 0, f32); };
    train(1, Loss::sum, zero);
    validate(1, Loss::sum, zero);
  };
  frontend::TracedModel model = frontend::traceModel(context, input);
  std::string text;
  llvm::raw_string_ostream out(text);
  for (Operation &op : *model.module->getBody())
    if (!isa<graph::ModelOp, graph::ProgramOp>(op)) {
      op.print(out, OpPrintingFlags().useLocalScope());
      out << "\n";
    }
  return text;
}

double evaluate(graph::ScalarOp scalar, double step, double iterations, double sequences,
                double world) {
  llvm::DenseMap<Value, double> values;
  Block &body = scalar.getBody().front();
  const double inputs[] = {step, iterations, sequences, world};
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), inputs))
    values[argument] = value;
  for (Operation &op : body.without_terminator()) {
    auto operand = [&](unsigned i) { return values.at(op.getOperand(i)); };
    values[op.getResult(0)] =
        llvm::TypeSwitch<Operation *, double>(&op)
            .Case([](arith::ConstantOp c) {
              return cast<FloatAttr>(c.getValue()).getValueAsDouble();
            })
            .Case([&](arith::AddFOp) { return operand(0) + operand(1); })
            .Case([&](arith::SubFOp) { return operand(0) - operand(1); })
            .Case([&](arith::MulFOp) { return operand(0) * operand(1); })
            .Case([&](arith::DivFOp) { return operand(0) / operand(1); })
            .Case([&](arith::NegFOp) { return -operand(0); })
            .Case([&](math::FloorOp) { return std::floor(operand(0)); })
            .Case([&](math::PowFOp) { return std::pow(operand(0), operand(1)); })
            .Case([&](math::SqrtOp) { return std::sqrt(operand(0)); })
            .Default([](Operation *other) -> double {
              throw std::runtime_error("no value of " + other->getName().getStringRef().str());
            });
  }
  return values.at(body.getTerminator()->getOperand(0));
}

} // namespace nano::test
