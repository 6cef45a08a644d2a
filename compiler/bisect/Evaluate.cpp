// Programs of the graph level, by the interpreter; those of the step level in a child process.
#include "compiler/bisect/Evaluate.h"

#include "compiler/bisect/Child.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Program.h"
#include "ir/step/Step.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace nano::bisect {

using interpreter::Arithmetic;

void FirstError::note(Diagnostic &diagnostic) {
  if (!first.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return;
  const std::string line = step::lineOf(diagnostic.getLocation());
  first = (line.empty() ? "" : line + ": ") + diagnostic.str();
}

bool hasBuffers(ModuleOp module) { return !module.getOps<step::ProgramOp>().empty(); }

Operation *programOf(ModuleOp module, StringRef role, int64_t phase) {
  auto isIt = [&](Operation *op, StringRef attribute) {
    auto found = op->getAttrOfType<StringAttr>(attribute);
    return found && found.getValue() == role && graph::runsInPhase(op, phase);
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (isIt(function, graph::roleAttrName))
      return function;
  for (auto program : module.getOps<step::ProgramOp>())
    if (isIt(program, "role"))
      return program;
  return nullptr;
}

bool hasUpdate(ModuleOp module) {
  for (auto optimizer : module.getOps<graph::OptimizerOp>())
    if (optimizer.hasEquations())
      return false;
  const int64_t last = graph::phaseCount(module) - 1;
  return programOf(module, "update", last) || programOf(module, "last", last);
}

Operation *programOfMicroBatch(ModuleOp module, const StepInputs &inputs, int64_t sequence) {
  const int64_t phase = inputs.phase();
  if (Operation *train = programOf(module, "train", phase))
    return train;
  Operation *last = programOf(module, "last", phase);
  if (last && sequence == inputs.microBatches() - 1)
    return last;
  return programOf(module, sequence == 0 ? "first" : "next", phase);
}

std::string nameOfResult(StringRef kind, unsigned result, int64_t sequence) {
  if (kind == "generate")
    return result == 0 ? "logits" : fmt::format("result {} of generation", result);
  const std::string of =
      kind == "validate" ? "validation" : fmt::format("micro-batch {}", sequence + 1);
  return result == 0 ? fmt::format("loss of {}", of) : fmt::format("result {} of {}", result, of);
}

std::string nameOfGradient(StringRef parameter) {
  return fmt::format("gradient of {}", parameter.str());
}

std::string nameOfState(StringRef state) { return fmt::format("{} after the update", state.str()); }

StateMap initialStates(ModuleOp module, const StepInputs &inputs) {
  StateMap states;
  for (auto state : module.getOps<graph::StateOp>())
    states[state.getSymName().str()] = inputs.state(state);
  return states;
}

namespace {

/// The programs of a module of functions.
class GraphRun {
public:
  GraphRun(ModuleOp module, const StepInputs &inputs, Arithmetic arithmetic)
      : module(module), inputs(inputs), initial(initialStates(module, inputs)) {
    options.arithmetic = arithmetic;
  }

  LogicalResult run() {
    for (StringRef kind : {"validate", "generate"}) {
      StateMap states = initial;
      if (Operation *program = programOf(module, kind, inputs.phase());
          program && failed(runProgram(program, kind, 0, states)))
        return failure();
    }
    StateMap states = initial;
    for (int64_t sequence = 0; sequence < inputs.microBatches(); ++sequence) {
      Operation *program = programOfMicroBatch(module, inputs, sequence);
      if (!program)
        continue;
      if (failed(runProgram(program, "train", sequence, states)))
        return failure();
    }
    Operation *update = programOf(module, "update", inputs.phase());
    // Where the last micro-batch updates too, its own gradient is not kept.
    if (update || !hasUpdate(module))
      observeGradients(states);
    if (!hasUpdate(module))
      return success();
    if (update && failed(runProgram(update, "update", 0, states)))
      return failure();
    observeStates(states);
    return success();
  }

  Observations found;

private:
  LogicalResult runProgram(Operation *program, StringRef kind, int64_t sequence, StateMap &states) {
    auto function = cast<func::FuncOp>(program);
    if (failed(inputs.setScalars(module, sequence, states)))
      return failure();
    SmallVector<TensorValue> arguments;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      arguments.push_back(inputs.argument(kind, unsigned(i), cast<ShapedType>(type), sequence));
    auto results = interpreter::interpret(function, arguments, states, options);
    if (failed(results))
      return failure();
    for (auto [i, result] : llvm::enumerate(*results))
      found[nameOfResult(kind, unsigned(i), sequence)] = {
          std::move(result), std::nullopt,
          roundingOf(cast<ShapedType>(function.getResultTypes()[i]).getElementType())};
    return success();
  }

  void observeGradients(const StateMap &states) {
    for (auto op : module.getOps<graph::StateOp>())
      if (op.getRole() == graph::Role::Gradient)
        found[nameOfGradient(op.getSymName().drop_front(StringRef("grad.").size()))] = {
            states.at(op.getSymName().str()), std::nullopt,
            roundingOf(op.getTensorType().getElementType())};
  }

  void observeStates(const StateMap &states) {
    for (auto op : module.getOps<graph::StateOp>()) {
      const std::string name = op.getSymName().str();
      if (op.getRole() == graph::Role::Parameter || op.getRole() == graph::Role::Optimizer)
        found[nameOfState(name)] = {states.at(name), initial.at(name),
                                    roundingOf(op.getTensorType().getElementType())};
    }
  }

  ModuleOp module;
  const StepInputs &inputs;
  interpreter::Options options;
  StateMap initial;
};

constexpr unsigned childSeconds = 50;

/// With buffers, in all orders.
Result<std::string> evaluateOrders(ModuleOp module, const StepInputs &inputs,
                                   const std::string *code) {
  std::unique_ptr<KernelImage> image;
  if (code) {
    Result<std::unique_ptr<KernelImage>> loaded = KernelImage::load(*code);
    if (!loaded)
      return loaded.error();
    image = std::move(*loaded);
  }
  Result<Observations> found = evaluateStep(module, inputs, -1, image.get());
  if (!found)
    return found.error();
  const int64_t streams = streamsOf(module);
  for (int64_t first = 0; streams > 1 && first < streams; ++first) {
    const Result<Observations> other = evaluateStep(module, inputs, first, image.get());
    if (!other)
      return failed(fmt::format("with stream {} ahead {}", first, other.error().message));
    // The same code on the same numbers: every bit is the same.
    if (const Comparison comparison = compare(*other, *found, {}); comparison.worst)
      return failed(fmt::format("a race: with stream {} as far ahead as its events allow, {} is "
                                "another one",
                                first, comparison.worst->name));
  }
  return toBytes(*found);
}

} // namespace

Result<Observations> evaluate(ModuleOp module, const StepInputs &inputs, Arithmetic arithmetic,
                              KernelCode &code) {
  if (hasBuffers(module)) {
    const std::string *native = nullptr;
    if (auto kernels = module.lookupSymbol<ModuleOp>(step::kernelModuleName)) {
      const Result<const std::string *> made = code.of(kernels);
      if (!made)
        return made.error();
      native = *made;
    }
    Result<std::string> bytes =
        inChild([&] { return evaluateOrders(module, inputs, native); }, childSeconds);
    if (!bytes)
      return bytes.error();
    return fromBytes(*bytes);
  }
  const FirstError errors(module.getContext());
  GraphRun run(module, inputs, arithmetic);
  if (failed(run.run()))
    return errors.error();
  return std::move(run.found);
}

} // namespace nano::bisect
