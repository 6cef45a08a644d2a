// Programs with buffers, command by command: tasks, products and copies by the interpreter on the
// bytes of a memory, launches by native code.
#include "compiler/bisect/Evaluate.h"
#include "compiler/bisect/StepMemory.h"

#include "ir/graph/Program.h"
#include "ir/interpreter/Commands.h"

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

class StepRun : public StepRunner {
public:
  StepRun(ModuleOp module, const StepInputs &inputs, int64_t ahead, const plan::LoadedCode *image)
      : StepRunner(module, inputs), ahead(ahead), image(image), kernels(module), memory(module) {
    options.arithmetic = Arithmetic::rounded;
  }

private:
  void writeStates() override;
  LogicalResult runProgram(Operation *op, StringRef kind, int64_t sequence) override;
  TensorValue valueOf(graph::StateOp state) const override {
    return memory.read(state.getSymNameAttr(), memrefOf(state.getTensorType()));
  }

  LogicalResult runCommands(ProgramOp program);
  LogicalResult runCommand(Operation *op);
  LogicalResult runLaunch(LaunchOp launch);
  /// Reads the operands, runs the interpreter, and writes what it returns.
  template <typename Command>
  LogicalResult interpreted(Command command, ValueRange ins, ValueRange outs);

  const int64_t ahead; ///< the stream that is as far ahead as it can be; −1: none
  const plan::LoadedCode *image;
  const KernelTable kernels;
  StepMemory memory;
  interpreter::Options options;
};

void StepRun::writeStates() {
  for (auto state : module.getOps<graph::StateOp>())
    memory.write(state.getSymNameAttr(), memrefOf(state.getTensorType()),
                 initial.at(state.getSymName().str()));
}

LogicalResult StepRun::runProgram(Operation *op, StringRef kind, int64_t sequence) {
  auto program = cast<ProgramOp>(op);
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
      observe(kind, result++, sequence, memory.read(input.getSymNameAttr(), type),
              type.getElementType());
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
      .Case([&](TaskOp task) { return interpreted(task, task.getIns(), task.getOuts()); })
      .Case([&](MatmulOp matmul) {
        return interpreted(matmul, interpreter::factorsOf(matmul), matmul.getC());
      })
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

template <typename Command>
LogicalResult StepRun::interpreted(Command command, ValueRange ins, ValueRange outs) {
  SmallVector<TensorValue> values;
  for (Value in : ins)
    values.push_back(memory.read(in));
  auto results = interpreter::interpret(command, values, options);
  if (failed(results))
    return failure();
  for (auto [out, result] : llvm::zip_equal(outs, *results))
    memory.write(out, result);
  return success();
}

LogicalResult StepRun::runLaunch(LaunchOp launch) {
  const StringAttr name = launch.getKernelAttr().getAttr();
  kernel::FuncOp kernel = kernels.find(name);
  const plan::KernelFunction function = image ? image->find(name.str()) : nullptr;
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

} // namespace

Result<Observations> evaluateStep(ModuleOp module, const StepInputs &inputs, int64_t first,
                                  const plan::LoadedCode *image) {
  const FirstError errors(module.getContext());
  StepRun run(module, inputs, first, image);
  if (failed(run.run()))
    return errors.error();
  return std::move(run.found);
}

} // namespace nano::bisect
