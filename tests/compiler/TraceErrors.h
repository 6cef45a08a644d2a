// What the front end says of a model that a test traces.
#pragma once

#include "compiler/Registration.h"
#include "compiler/TraceModel.h"
#include "models/optimizers.h"

#include "mlir/IR/MLIRContext.h"

#include <functional>
#include <string>
#include <utility>

namespace nano::test {

using namespace nano::frontend;

/// What NANO_MODEL would hold; the recorder wants a plain function.
inline std::function<void()> currentBody;
inline void runCurrentBody() { currentBody(); }

inline TraceInput inputFor(std::function<void()> body) {
  currentBody = std::move(body);
  TraceInput input;
  input.name = "x";
  input.file = "models/x.cpp";
  input.body = runCurrentBody;
  return input;
}

/// The message that tracing ends with, or "" when it succeeds.
inline std::string errorOf(const TraceInput &input) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::DialectRegistry registry;
  nano::registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  try {
    traceModel(context, input);
  } catch (const ModelError &error) {
    return error.what();
  }
  return "";
}
inline std::string errorOf(std::function<void()> body) {
  return errorOf(inputFor(std::move(body)));
}

/// The message without "FILE:LINE: ", which must be a test's.
inline std::string said(const std::string &message) {
  size_t at = message.find("Test.cpp:");
  if (at == std::string::npos)
    at = message.find("TraceErrors.h:");
  if (at == std::string::npos)
    return "no line of a test in: " + message;
  const size_t end = message.find(": ", at);
  return message.substr(end + 2);
}
inline std::string saidBy(std::function<void()> body) { return said(errorOf(std::move(body))); }

inline Optimizer someGroup(const char *name = "group") { return adam(name, {.lr = 0.1}); }

/// What a program computing `body` says: x f32 [4, 8], w f32 [3, 8], t i32 [4].
inline std::string saidIn(const std::function<Tensor(Tensor x, Tensor w, Tensor t)> &body) {
  return saidBy([&] {
    const Optimizer group = someGroup();
    const Tensor x = param("x", {4, 8}, f32, constant(1), group);
    const Tensor w = param("w", {3, 8}, f32, constant(1), group);
    train(4, Loss::sum, [&](Tensor tokens, Tensor) { return body(x, w, tokens); });
  });
}

/// A whole model without a mistake, apart from what `change` does at its end.
inline std::function<void()>
wholeModel(std::function<void()> change = [] {}, Training how = {10, 0, 8, 5}) {
  return [change = std::move(change), how] {
    const Tensor table = param("table", {10, 16}, f32, normal(0, 1), someGroup());
    auto logits = [&](Tensor tokens) { return linear(table[tokens], table); };
    auto loss = [&](Tensor tokens, Tensor targets) {
      return crossEntropy(logits(tokens), targets);
    };
    train(4, Loss::sum, loss);
    validate(4, Loss::mean, loss);
    training(how);
    change();
  };
}

} // namespace nano::test
