// Finite differences, and optimizers one parameter at a time.
#include "compiler/bisect/References.h"

#include "ir/graph/Program.h"
#include "ir/interpreter/Machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace mlir;

namespace nano::bisect {

namespace {

double normOf(const TensorValue &value) {
  double sum = 0;
  for (double x : value.data)
    sum += x * x;
  return std::sqrt(sum);
}

/// The loss of `train` on the first micro-batch as a function of the states.
class Loss {
public:
  Loss(ModuleOp module, const StepInputs &inputs)
      : module(module), inputs(inputs),
        train(cast<graph::ProgramOp>(programOf(module, "train", inputs.phase()))) {
    for (auto [i, type] : llvm::enumerate(train.getArgumentTypes()))
      arguments.push_back(inputs.argument("train", unsigned(i), cast<ShapedType>(type), 0));
    options.stopped = [this](TensorValue &value) {
      if (!isRecorded)
        stopped.push_back(value);
      else
        value = stopped[next++];
    };
  }

  /// The first call is at the point where derivatives are taken.
  FailureOr<double> at(StateMap &states) {
    next = 0;
    if (failed(inputs.setScalars(module, 0, states)))
      return failure();
    auto results = interpreter::interpret(train, arguments, states, options);
    isRecorded = true;
    if (failed(results))
      return failure();
    return results->front().data.front();
  }

private:
  ModuleOp module;
  const StepInputs &inputs;
  graph::ProgramOp train;
  SmallVector<TensorValue> arguments;
  interpreter::Options options;
  std::vector<TensorValue> stopped;
  bool isRecorded = false;
  size_t next = 0;
};

} // namespace

Result<Comparison> checkGradients(ModuleOp before, ModuleOp after, const StepInputs &inputs,
                                  double tolerance, int64_t groups) {
  const FirstError errors(before.getContext());
  // The program with gradients, and what it leaves.
  StateMap gradients = initialStates(after, inputs);
  FailureOr<double> loss = Loss(after, inputs).at(gradients);
  if (failed(loss))
    return errors.error();
  std::vector<std::string> names;
  for (auto state : after.getOps<graph::StateOp>())
    if (state.isTrained() && gradients.count(graph::gradientSymbol(state.getSymName())))
      names.push_back(state.getSymName().str());

  const StateMap point = initialStates(before, inputs);
  Loss forward(before, inputs);
  StateMap start = point;
  if (failed(forward.at(start)))
    return errors.error();
  Comparison comparison;
  comparison.tensors = names.size();
  const size_t step = std::max<size_t>(1, (names.size() + size_t(groups) - 1) / size_t(groups));
  double worst = 1;
  for (size_t first = 0; first < names.size(); first += step) {
    const auto group = ArrayRef(names).slice(first, std::min(step, names.size() - first));
    StateMap directions;
    double slope = 0, scale = 0;
    std::mt19937_64 random(first);
    std::normal_distribution<double> normal;
    for (const std::string &name : group) {
      const TensorValue &gradient = gradients.at(graph::gradientSymbol(name));
      TensorValue &direction = directions[name] = gradient;
      for (double &x : direction.data)
        x = normal(random);
      const double norm = normOf(gradient), length = normOf(direction);
      for (size_t i = 0; i < direction.data.size(); ++i) {
        direction.data[i] = direction.data[i] / length + (norm > 0 ? gradient.data[i] / norm : 0);
        slope += direction.data[i] * gradient.data[i];
      }
      scale += norm;
    }
    constexpr double distance = 1e-5;
    double losses[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      StateMap states = point;
      for (const auto &[name, direction] : directions)
        for (size_t i = 0; i < direction.data.size(); ++i)
          states[name].data[i] += (side == 0 ? -distance : distance) * direction.data[i];
      FailureOr<double> moved = forward.at(states);
      if (failed(moved))
        return errors.error();
      losses[side] = *moved;
    }
    const double measured = (losses[1] - losses[0]) / (2 * distance),
                 off = std::abs(measured - slope),
                 // What cancels in the difference of two losses is left of them.
        least = 1e-13 * std::abs(*loss) / distance + 1e-12,
                 unit = std::max({scale, std::abs(measured), least});
    const std::string name =
        nameOfGradient(group.front()) +
        (group.size() > 1 ? fmt::format(" or of {} others", group.size() - 1) : "");
    const double relative = off / unit, excess = off / (tolerance * unit + least);
    if (!std::isfinite(slope) || excess > worst) {
      worst = std::max(worst, excess);
      comparison.worst = {name, relative, tolerance, 0, slope, measured};
    } else if (relative > comparison.largest) {
      comparison.largest = relative;
      comparison.largestAt = name;
    }
  }
  return comparison;
}

Result<Observations> expectedUpdate(ModuleOp before, const Observations &observed,
                                    const StepInputs &inputs) {
  const FirstError errors(before.getContext());
  const SymbolTable symbols(before);
  struct Parameter {
    graph::StateOp state;
    graph::OptimizerOp optimizer;
    TensorValue gradient; ///< the mean over the batch
  };
  std::vector<Parameter> parameters;
  double squares = 0;
  for (auto state : before.getOps<graph::StateOp>()) {
    const auto found = observed.find(nameOfGradient(state.getSymName()));
    if (!state.isTrained() || found == observed.end())
      continue;
    auto optimizer = symbols.lookup<graph::OptimizerOp>(*state.getOptimizer());
    if (!optimizer || !optimizer.hasEquations())
      continue;
    Parameter &parameter = parameters.emplace_back(state, optimizer, found->second.value);
    const auto count = double(inputs.microBatches()) * double(optimizer.getEvery());
    for (double &x : parameter.gradient.data) {
      x /= count;
      squares += x * x;
    }
  }
  const DictionaryAttr training = graph::trainingOf(before);
  auto limit = training ? training.getAs<FloatAttr>("grad_clip") : FloatAttr();
  const double most = limit ? limit.getValueAsDouble() : 0, norm = std::sqrt(squares);
  const double factor = most > 0 && norm > most ? most / norm : 1;

  StateMap scalars;
  if (failed(inputs.setScalars(before, 0, scalars)))
    return errors.error();
  Observations expected;
  const interpreter::Options options;
  for (Parameter &parameter : parameters) {
    for (double &x : parameter.gradient.data)
      x *= factor;
    graph::OptimizerOp optimizer = parameter.optimizer;
    Block &body = optimizer.getBody().front();
    const StringRef name = parameter.state.getSymName();
    SmallVector<TensorValue> values = {inputs.state(parameter.state), parameter.gradient};
    std::vector<std::string> states = {name.str()};
    for (auto [i, start] : llvm::enumerate(optimizer.getInits())) {
      states.push_back(optimizer.stateName(name, unsigned(i)));
      values.push_back(inputs.optimizerState(
          states.back(), cast<RankedTensorType>(body.getArgument(unsigned(i) + 2).getType()),
          start));
    }
    auto results = interpreter::Machine(scalars, options).runBlock(body, values);
    if (failed(results))
      return errors.error();
    for (auto [i, result] : llvm::enumerate(*results)) {
      const Type type = body.getTerminator()->getOperand(unsigned(i)).getType();
      expected[nameOfState(states[i])] = {std::move(result), values[i == 0 ? 0 : i + 1],
                                          roundingOf(cast<ShapedType>(type).getElementType())};
    }
  }
  return expected;
}

} // namespace nano::bisect
