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
  for (auto program : module.getOps<graph::ProgramOpInterface>())
    if (program.getRoleAttr() == role && graph::runsInPhase(program, phase))
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

LogicalResult StepRunner::run() {
  auto runOne = [&](StringRef kind, Operation *program, int64_t sequence) {
    return program ? runProgram(program, kind, sequence) : success();
  };
  for (StringRef kind : {"validate", "generate"}) {
    writeStates();
    if (failed(runOne(kind, programOf(module, kind, inputs.phase()), 0)))
      return failure();
  }
  writeStates();
  for (int64_t sequence = 0; sequence < inputs.microBatches(); ++sequence)
    if (failed(runOne("train", programOfMicroBatch(module, inputs, sequence), sequence)))
      return failure();
  Operation *update = programOf(module, "update", inputs.phase());
  // Where the last micro-batch updates too, its own gradient is not kept.
  if (update || !hasUpdate(module))
    observeGradients();
  if (!hasUpdate(module))
    return success();
  if (failed(runOne("update", update, 0)))
    return failure();
  observeStates();
  return success();
}

void StepRunner::observe(StringRef kind, unsigned result, int64_t sequence, TensorValue value,
                         Type element) {
  found[nameOfResult(kind, result, sequence)] = {std::move(value), std::nullopt,
                                                 roundingOf(element)};
}

void StepRunner::observeGradients() {
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::Gradient)
      found[nameOfGradient(state.getSymName().drop_front(StringRef("grad.").size()))] = {
          valueOf(state), std::nullopt, roundingOf(state.getTensorType().getElementType())};
}

void StepRunner::observeStates() {
  for (auto state : module.getOps<graph::StateOp>()) {
    const std::string name = state.getSymName().str();
    if (state.getRole() == graph::Role::Parameter || state.getRole() == graph::Role::Optimizer)
      found[nameOfState(name)] = {valueOf(state), initial.at(name),
                                  roundingOf(state.getTensorType().getElementType())};
  }
}

namespace {

/// The programs of a module of functions.
class GraphRunner : public StepRunner {
public:
  GraphRunner(ModuleOp module, const StepInputs &inputs, Arithmetic arithmetic)
      : StepRunner(module, inputs) {
    options.arithmetic = arithmetic;
  }

private:
  void writeStates() override { states = initial; }
  TensorValue valueOf(graph::StateOp state) const override {
    return states.at(state.getSymName().str());
  }
  LogicalResult runProgram(Operation *program, StringRef kind, int64_t sequence) override {
    auto function = cast<graph::ProgramOp>(program);
    if (failed(inputs.setScalars(module, sequence, states)))
      return failure();
    SmallVector<TensorValue> arguments;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      arguments.push_back(inputs.argument(kind, unsigned(i), cast<ShapedType>(type), sequence));
    auto results = interpreter::interpret(function, arguments, states, options);
    if (failed(results))
      return failure();
    for (auto [i, result] : llvm::enumerate(*results))
      observe(kind, unsigned(i), sequence, std::move(result),
              cast<ShapedType>(function.getResultTypes()[i]).getElementType());
    return success();
  }

  interpreter::Options options;
  StateMap states;
};

constexpr unsigned childSeconds = 50;

/// With buffers, in all orders.
Result<std::string> evaluateOrders(ModuleOp module, const StepInputs &inputs,
                                   const std::string *code) {
  std::unique_ptr<plan::LoadedCode> image;
  if (code) {
    Result<std::unique_ptr<plan::LoadedCode>> loaded = plan::LoadedCode::load(*code);
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
  GraphRunner run(module, inputs, arithmetic);
  if (failed(run.run()))
    return errors.error();
  return std::move(run.found);
}

} // namespace nano::bisect
