// Programs with buffers, command by command: tasks, products and copies by the interpreter on the
// bytes of a memory, launches by native code.
#include "compiler/bisect/Evaluate.h"
#include "compiler/bisect/KernelImage.h"
#include "compiler/bisect/StepMemory.h"

#include "ir/graph/Program.h"
#include "ir/interpreter/Machine.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

using namespace mlir;
using namespace nano::step;

namespace nano::bisect {

using interpreter::Arithmetic;

int64_t streamsOf(ModuleOp module) {
  int64_t streams = 0;
  module.walk([&](StepCommandOpInterface command) {
    streams = std::max(streams, int64_t(command.getStream()) + 1);
  });
  return streams;
}

namespace {

MemRefType typeOf(Value view) { return cast<MemRefType>(view.getType()); }

class StepRun {
public:
  StepRun(ModuleOp module, const StepInputs &inputs, int64_t ahead, const KernelImage *image)
      : module(module), inputs(inputs), ahead(ahead), image(image), kernels(module), memory(module),
        initial(initialStates(module, inputs)) {
    options.arithmetic = Arithmetic::rounded;
  }

  LogicalResult run() {
    for (StringRef kind : {"validate", "generate"}) {
      writeStates();
      if (Operation *program = programOf(module, kind, inputs.phase());
          program && failed(runProgram(cast<ProgramOp>(program), kind, 0)))
        return failure();
    }
    writeStates();
    for (int64_t sequence = 0; sequence < inputs.microBatches(); ++sequence) {
      Operation *program = programOfMicroBatch(module, inputs, sequence);
      if (!program)
        continue;
      if (failed(runProgram(cast<ProgramOp>(program), "train", sequence)))
        return failure();
    }
    Operation *update = programOf(module, "update", inputs.phase());
    if (update || !hasUpdate(module))
      observe(/*gradients=*/true);
    if (update && failed(runProgram(cast<ProgramOp>(update), "update", 0)))
      return failure();
    if (hasUpdate(module))
      observe(/*gradients=*/false);
    return success();
  }

  Observations found;

private:
  void writeStates();
  LogicalResult runProgram(ProgramOp program, StringRef kind, int64_t sequence);
  LogicalResult runCommands(ProgramOp program);
  LogicalResult runCommand(Operation *op);
  LogicalResult runTask(TaskOp task);
  LogicalResult runMatmul(MatmulOp matmul);
  LogicalResult runLaunch(LaunchOp launch);
  void observe(bool gradients);

  ModuleOp module;
  const StepInputs &inputs;
  const int64_t ahead; ///< the stream that is as far ahead as it can be; −1: none
  const KernelImage *image;
  const KernelTable kernels;
  StepMemory memory;
  const StateMap initial;
  interpreter::Options options;
};

void StepRun::writeStates() {
  for (auto state : module.getOps<graph::StateOp>())
    memory.write(state.getSymNameAttr(), memrefOf(state.getTensorType()),
                 initial.at(state.getSymName().str()));
}

LogicalResult StepRun::runProgram(ProgramOp program, StringRef kind, int64_t sequence) {
  StateMap scalars;
  if (failed(inputs.setScalars(module, sequence, scalars)))
    return failure();
  for (auto scalar : module.getOps<graph::ScalarOp>())
    memory.write(scalar.getSymNameAttr(), MemRefType::get({}, scalar.getType()),
                 scalars.at(scalar.getSymName().str()));
  // The programs of micro-batches share what others have of their own.
  const std::string prefix =
      (kind == "train" ? "train" : program.getSymName().str()) + std::string(".");
  memory.poison(program);
  unsigned argument = 0;
  for (auto input : module.getOps<InputOp>()) {
    if (!input.getSymName().starts_with(prefix))
      continue;
    auto type = cast<MemRefType>(input.getType());
    if (input.getOutput())
      memory.poison(input);
    else
      memory.write(input.getSymNameAttr(), type,
                   inputs.argument(kind, argument++, tensorOf(type), sequence));
  }
  if (failed(runCommands(program)))
    return failure();
  // Of what micro-batches share some is of other programs.
  llvm::DenseSet<StringAttr> named;
  for (auto state : program.getBody().getOps<StateOp>())
    named.insert(state.getSymbolAttr().getAttr());
  unsigned result = 0;
  for (auto input : module.getOps<InputOp>())
    if (auto type = cast<MemRefType>(input.getType()); input.getOutput() &&
                                                       input.getSymName().starts_with(prefix) &&
                                                       named.contains(input.getSymNameAttr()))
      found[nameOfResult(kind, result++, sequence)] = {memory.read(input.getSymNameAttr(), type),
                                                       std::nullopt,
                                                       roundingOf(type.getElementType())};
  return success();
}

LogicalResult StepRun::runCommands(ProgramOp program) {
  std::map<int64_t, std::vector<Operation *>> streams;
  std::map<Operation *, size_t> places;
  for (Operation &op : program.getBody().front())
    if (auto command = dyn_cast<StepCommandOpInterface>(op)) {
      const size_t place = places.size();
      places[&op] = place;
      streams[ahead < 0 ? 0 : int64_t(command.getStream())].push_back(&op);
    }
  std::map<int64_t, size_t> done;
  llvm::DenseSet<uint64_t> recorded;
  for (size_t count = 0; count < places.size(); ++count) {
    // The stream that is ahead where it can go on, else the one whose next command stands first.
    Operation *next = nullptr;
    int64_t chosen = -1;
    for (const auto &[stream, commands] : streams) {
      if (done[stream] == commands.size())
        continue;
      Operation *op = commands[done[stream]];
      auto wait = dyn_cast<WaitOp>(op);
      if (wait && ahead >= 0 && !recorded.contains(wait.getEvent()))
        continue;
      if (!next || stream == ahead || (chosen != ahead && places.at(op) < places.at(next))) {
        next = op;
        chosen = stream;
      }
    }
    if (!next)
      return program.emitError("a deadlock: all streams wait for events that none records");
    ++done[chosen];
    if (auto record = dyn_cast<RecordOp>(next))
      recorded.insert(record.getEvent());
    if (failed(runCommand(next)))
      return failure();
  }
  return success();
}

LogicalResult StepRun::runCommand(Operation *op) {
  auto copyAll = [&](ValueRange ins, ValueRange outs) -> LogicalResult {
    for (auto [in, out] : llvm::zip_equal(ins, outs)) {
      TensorValue value = memory.read(in);
      if (value.size() != typeOf(out).getNumElements())
        return op->emitError("moves data between ranks, and one rank alone is run");
      memory.write(out, value);
    }
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](TaskOp task) { return runTask(task); })
      .Case([&](MatmulOp matmul) { return runMatmul(matmul); })
      .Case([&](LaunchOp launch) { return runLaunch(launch); })
      .Case([&](CopyOp copy) { return copyAll(copy.getSource(), copy.getTarget()); })
      .Case([&](FillOp fill) {
        memory.write(fill.getBuffer(), TensorValue::filled(tensorOf(typeOf(fill.getBuffer())), 0));
        return success();
      })
      // Of one rank.
      .Case<ReduceScatterOp, AllGatherOp, ShardOp>(
          [&](auto parts) { return copyAll(parts.getIns(), parts.getOuts()); })
      // In place, and what orders streams.
      .Case<AllReduceOp, RecordOp, WaitOp>([](auto) { return success(); })
      .Default([](Operation *other) { return other->emitError("cannot be run here"); });
}

LogicalResult StepRun::runTask(TaskOp task) {
  StateMap none;
  SmallVector<TensorValue> values;
  for (Value in : task.getIns())
    values.push_back(memory.read(in));
  auto results = interpreter::Machine(none, options).runBlock(task.getBody().front(), values);
  if (failed(results))
    return failure();
  for (auto [out, result] : llvm::zip_equal(task.getOuts(), *results))
    memory.write(out, result);
  return success();
}

LogicalResult StepRun::runMatmul(MatmulOp matmul) {
  // As the op of the graph dialect that it was.
  OpBuilder builder(matmul.getContext());
  Block block;
  builder.setInsertionPointToEnd(&block);
  SmallVector<TensorValue> values;
  auto argument = [&](Value view) -> Value {
    if (!view)
      return {};
    values.push_back(memory.read(view));
    return block.addArgument(tensorOf(typeOf(view)), matmul.getLoc());
  };
  const Type type = tensorOf(typeOf(matmul.getC()));
  const Value a = argument(matmul.getA()), b = argument(matmul.getB()),
              scaleA = argument(matmul.getScaleA()), scaleB = argument(matmul.getScaleB()),
              addend = argument(matmul.getD());
  Value product;
  if (scaleA)
    product = graph::ScaledMatmulOp::create(builder, matmul.getLoc(), type, a, b, scaleA, scaleB,
                                            addend, matmul.getTransposeA(), matmul.getTransposeB(),
                                            matmul.getAlpha(), matmul.getBeta());
  else
    product = graph::MatmulOp::create(builder, matmul.getLoc(), type, a, b, addend,
                                      matmul.getTransposeA(), matmul.getTransposeB(),
                                      matmul.getAlpha(), matmul.getBeta());
  graph::YieldOp::create(builder, matmul.getLoc(), product);
  StateMap none;
  auto results = interpreter::Machine(none, options).runBlock(block, values);
  if (failed(results))
    return failure();
  memory.write(matmul.getC(), results->front());
  return success();
}

LogicalResult StepRun::runLaunch(LaunchOp launch) {
  const StringAttr name = launch.getKernelAttr().getAttr();
  kernel::FuncOp kernel = kernels.find(name);
  const KernelImage::Function function = image ? image->find(name.str()) : nullptr;
  if (!kernel || !function)
    return launch.emitError("has no native code of kernel ") << launch.getKernelAttr();
  const std::optional<ArrayRef<int64_t>> iterations = launch.getIterations();
  std::vector<std::byte> scratch(size_t(kernel.getScratchBytes()) + 256, std::byte(0xff));
  auto scratchStart = reinterpret_cast<uintptr_t>(scratch.data());
  void *aligned = scratch.data() + (64 - scratchStart % 64) % 64;
  for (uint64_t segment = 0; segment < launch.getSegments(); ++segment) {
    std::vector<void *> arguments;
    for (Value buffer : launch.getSegment(segment))
      arguments.push_back(memory.address(buffer));
    const int64_t count =
        iterations ? (*iterations)[segment] : int64_t(kernel.getIterations().value_or(0));
    // In two calls, the later one first: which thread runs what is open.
    const auto grain = int64_t(kernel.getGrain());
    const int64_t middle = count / 2 / grain * grain;
    if (middle < count)
      function(arguments.data(), aligned, middle, count);
    if (middle > 0)
      function(arguments.data(), aligned, 0, middle);
  }
  return success();
}

void StepRun::observe(bool gradients) {
  for (auto state : module.getOps<graph::StateOp>()) {
    const MemRefType type = memrefOf(state.getTensorType());
    const double rounding = roundingOf(type.getElementType());
    const graph::Role role = state.getRole();
    const StringRef name = state.getSymName();
    if (gradients && role == graph::Role::Gradient)
      found[nameOfGradient(name.drop_front(StringRef("grad.").size()))] = {
          memory.read(state.getSymNameAttr(), type), std::nullopt, rounding};
    if (!gradients && (role == graph::Role::Parameter || role == graph::Role::Optimizer))
      found[nameOfState(name)] = {memory.read(state.getSymNameAttr(), type), initial.at(name.str()),
                                  rounding};
  }
}

} // namespace

Result<Observations> evaluateStep(ModuleOp module, const StepInputs &inputs, int64_t first,
                                  const KernelImage *image) {
  const FirstError errors(module.getContext());
  StepRun run(module, inputs, first, image);
  if (failed(run.run()))
    return errors.error();
  return std::move(run.found);
}

} // namespace nano::bisect
