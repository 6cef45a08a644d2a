// Random numbers by name, and schedules as the runtime evaluates them.
#include "compiler/bisect/StepInputs.h"

#include "codegen/PlanExpr.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Program.h"
#include "runtime/plan/Expr.h"

#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace nano::bisect {

StepInputs::StepInputs(ModuleOp module, uint64_t seed) : seed(seed) {
  const DictionaryAttr training = graph::trainingOf(module);
  auto size = [&](StringRef name) {
    auto value = training ? training.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? std::max<int64_t>(value.getInt(), 1) : 1;
  };
  sequences = std::max<int64_t>(size("global_batch") / size("seq_len"), 1);
  vocabulary = size("vocab_size");
  iterations = size("num_iterations");
  phases = graph::phaseCount(module);
  stepNumber = iterations / 2 / phases * phases + phases - 1;
}

std::mt19937_64 StepInputs::randomOf(StringRef name) const {
  return std::mt19937_64(llvm::xxh3_64bits((name + "/" + std::to_string(seed)).str()));
}

/// Every element rounded to the type that it is stored in.
static TensorValue stored(TensorValue value, Type element) {
  for (double &x : value.data)
    x = interpreter::roundTo(x, element);
  return value;
}

TensorValue StepInputs::optimizerState(StringRef name, RankedTensorType type, double start) const {
  TensorValue value = TensorValue::filled(type, start);
  if (type.getElementType().isInteger())
    return value;
  std::mt19937_64 random = randomOf(name);
  std::uniform_real_distribution<double> offset(0.005, 0.015);
  for (double &x : value.data)
    x += offset(random);
  return stored(std::move(value), type.getElementType());
}

TensorValue StepInputs::state(graph::StateOp op) const {
  const RankedTensorType type = op.getTensorType();
  const graph::InitAttr init = op.getInit();
  const bool isOneNumber = init.getKind() == "constant" && init.getValues().size() == 1;
  if (op.getRole() == graph::Role::Optimizer && isOneNumber)
    return optimizerState(op.getSymName(), type, init.getValues()[0]);
  std::mt19937_64 random = randomOf(op.getSymName());
  std::optional<TensorValue> value = interpreter::initialValue(op, random);
  if (!value) // by blocks, or a copy of another: any numbers of that size do as well
    return stored(TensorValue::normal(type, random, 0, 0.02), type.getElementType());
  if (op.getRole() != graph::Role::Parameter || !isOneNumber || type.getElementType().isInteger())
    return *value;
  std::normal_distribution<double> offset(0, 0.05);
  for (double &x : value->data)
    x += offset(random);
  return stored(std::move(*value), type.getElementType());
}

TensorValue StepInputs::argument(StringRef kind, unsigned index, ShapedType type,
                                 int64_t sequence) const {
  std::mt19937_64 random =
      randomOf((kind + "." + std::to_string(index) + "." + std::to_string(sequence)).str());
  if (!type.getElementType().isInteger()) {
    std::uniform_real_distribution<double> weight(0, 1);
    TensorValue value = TensorValue::filled(type, 0);
    for (double &x : value.data)
      x = weight(random);
    return stored(std::move(value), type.getElementType());
  }
  // Tokens and targets; of a column of integers nothing is known but that flags are among them.
  return TensorValue::integers(type, random, 0, index < 2 ? vocabulary : 2);
}

LogicalResult StepInputs::setScalars(ModuleOp module, int64_t sequence, StateMap &states) const {
  const plan::Variables variables{.step = double(stepNumber),
                                  .numIterations = double(iterations),
                                  .sequences = double(sequences),
                                  .sequence = double(sequence),
                                  .seedLow = double(seed & 0xffff)};
  for (auto op : module.getOps<graph::ScalarOp>()) {
    FailureOr<plan::Expr> expr = codegen::scalarExpr(op);
    if (failed(expr))
      return failure();
    const double value = plan::evaluate(*expr, variables);
    states[op.getSymName().str()] = {
        {},
        {interpreter::roundTo(op.getType().isInteger() ? std::nearbyint(value) : value,
                              op.getType())}};
  }
  return success();
}

} // namespace nano::bisect
