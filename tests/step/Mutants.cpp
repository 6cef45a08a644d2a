// The kinds of mutants, and what is asked of each.
#include "tests/step/Mutants.h"

#include "passes/Passes.h"
#include "tests/step/Interleavings.h"
#include "tests/step/RandomProgram.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <random>

using namespace mlir;
using namespace nano::step;

namespace nano::test {
namespace {

constexpr int64_t line = 256; ///< bytes: buffers begin at multiples
constexpr int mutantsOfProgram = 24;

/// The things of a module that can be changed.
struct Parts {
  explicit Parts(ModuleOp module) {
    module.walk([&](Operation *op) {
      if (auto buffer = dyn_cast<BufferOp>(op))
        buffers.push_back(buffer);
      else if (auto view = dyn_cast<ViewOp>(op))
        views.push_back(view);
      else if (auto wait = dyn_cast<WaitOp>(op))
        waits.push_back(wait);
      else if (auto record = dyn_cast<RecordOp>(op))
        records.push_back(record);
      else if (isa<StepCommandOpInterface>(op))
        commands.push_back(op);
      else if (isa<graph::StateOp, InputOp>(op))
        persistent.push_back(op);
    });
  }
  SmallVector<BufferOp> buffers;
  SmallVector<ViewOp> views;
  SmallVector<WaitOp> waits;
  SmallVector<RecordOp> records;
  SmallVector<Operation *> commands, persistent; ///< no events among the commands
};

class Mutator {
public:
  Mutator(ModuleOp module, std::mt19937 &random) : module(module), parts(module), random(random) {}

  /// Each returns what it did, or nothing where there is nothing to change.
  std::string dropWait();
  std::string swapEvents();
  std::string delayWait();
  std::string recordEarlier();
  std::string moveBuffer();
  std::string layOverBuffer();
  std::string movePersistent();
  std::string changeStream();
  std::string swapCommands();
  std::string dropCommand();
  std::string moveView();
  std::string replaceOperand();
  std::string joinLaunches();
  std::string shortenBuffer();
  std::string shortenArena();

private:
  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); }
  template <typename List> auto &oneOf(List &list) { return list[below(list.size())]; }
  /// The next or the previous command of the same program, an event or not; null at the end.
  static Operation *neighbour(Operation *op, bool forward) {
    do
      op = forward ? op->getNextNode() : op->getPrevNode();
    while (op && !isa<StepCommandOpInterface>(op));
    return op;
  }
  int64_t lineBesides(int64_t offset) {
    return below(2) == 0 || offset < line ? offset + line : offset - line;
  }

  ModuleOp module;
  Parts parts;
  std::mt19937 &random;
};

std::string numbered(const char *text, uint64_t number) { return text + std::to_string(number); }

std::string Mutator::dropWait() {
  if (parts.waits.empty())
    return "";
  WaitOp wait = oneOf(parts.waits);
  std::string what = numbered("dropped a wait for event ", wait.getEvent());
  wait.erase();
  return what;
}

std::string Mutator::swapEvents() {
  if (parts.waits.size() < 2)
    return "";
  WaitOp first = oneOf(parts.waits), second = oneOf(parts.waits);
  if (first->getParentOp() != second->getParentOp() || first.getEvent() == second.getEvent())
    return "";
  const uint64_t event = first.getEvent();
  first.setEvent(second.getEvent());
  second.setEvent(event);
  return numbered("swapped the waits for events ", first.getEvent()) + numbered(" and ", event);
}

std::string Mutator::delayWait() {
  if (parts.waits.empty())
    return "";
  WaitOp wait = oneOf(parts.waits);
  Operation *next = wait;
  do
    next = neighbour(next, true);
  while (next && cast<StepCommandOpInterface>(next).getStream() != wait.getStream());
  if (!next)
    return "";
  wait->moveAfter(next);
  return numbered("waited one command later for event ", wait.getEvent());
}

std::string Mutator::recordEarlier() {
  if (parts.records.empty())
    return "";
  RecordOp record = oneOf(parts.records);
  Operation *previous = record;
  do
    previous = neighbour(previous, false);
  while (previous && cast<StepCommandOpInterface>(previous).getStream() != record.getStream());
  if (!previous)
    return "";
  record->moveBefore(previous);
  return numbered("recorded one command earlier event ", record.getEvent());
}

std::string Mutator::moveBuffer() {
  if (parts.buffers.empty())
    return "";
  BufferOp buffer = oneOf(parts.buffers);
  buffer.setOffset(lineBesides(int64_t(*buffer.getOffset())));
  return "moved buffer " + buffer.getName().str() + numbered(" to ", *buffer.getOffset());
}

std::string Mutator::layOverBuffer() {
  if (parts.buffers.size() < 2)
    return "";
  BufferOp buffer = oneOf(parts.buffers), other = oneOf(parts.buffers);
  if (buffer.getOffset() == other.getOffset())
    return "";
  buffer.setOffset(other.getOffset());
  return "laid buffer " + buffer.getName().str() + " on " + other.getName().str();
}

std::string Mutator::movePersistent() {
  auto op = cast<graph::PlacedOpInterface>(oneOf(parts.persistent));
  const int64_t offset = lineBesides(op.getOffsetAttr().getInt());
  op.setOffsetAttr(OpBuilder(op).getI64IntegerAttr(offset));
  return "moved @" + SymbolTable::getSymbolName(op).str() + numbered(" to ", uint64_t(offset));
}

std::string Mutator::changeStream() {
  if (parts.commands.empty())
    return "";
  auto command = cast<StepCommandOpInterface>(oneOf(parts.commands));
  const uint64_t stream = (command.getStream() + 1 + below(2)) % 3;
  command.moveToStream(stream);
  return command->getName().getStringRef().str() + numbered(" moved to stream ", stream);
}

std::string Mutator::swapCommands() {
  if (parts.commands.empty())
    return "";
  Operation *command = oneOf(parts.commands), *next = neighbour(command, true);
  if (!next)
    return "";
  command->moveAfter(next);
  return command->getName().getStringRef().str() + " moved behind the next command";
}

std::string Mutator::dropCommand() {
  if (parts.commands.empty())
    return "";
  Operation *command = oneOf(parts.commands);
  std::string what = "dropped a " + command->getName().getStringRef().str();
  command->erase();
  return what;
}

std::string Mutator::moveView() {
  if (parts.views.empty())
    return "";
  ViewOp view = oneOf(parts.views);
  auto [strides, offset] = view.getType().getStridesAndOffset();
  constexpr int64_t elements = 16; // a cache line
  const int64_t moved = below(2) == 0 ? offset + elements : offset - elements;
  view.getResult().setType(
      MemRefType::get(view.getType().getShape(), view.getType().getElementType(),
                      StridedLayoutAttr::get(module.getContext(), moved, strides)));
  return "moved a view from element " + std::to_string(offset) + " to " + std::to_string(moved);
}

std::string Mutator::replaceOperand() {
  if (parts.commands.empty())
    return "";
  Operation *command = oneOf(parts.commands);
  if (command->getNumOperands() == 0)
    return "";
  // Half of the time by one that the command has already.
  SmallVector<Value> others(command->getOperands());
  if (below(2) == 0)
    for (Operation *op = command->getPrevNode(); op; op = op->getPrevNode())
      if (isa<BufferOp, ViewOp, StateOp>(op))
        others.push_back(op->getResult(0));
  OpOperand &operand = command->getOpOperand(unsigned(below(command->getNumOperands())));
  Value other = oneOf(others);
  if (other == operand.get())
    return "";
  operand.set(other);
  return command->getName().getStringRef().str() +
         numbered(": another memory for operand ", operand.getOperandNumber());
}

std::string Mutator::joinLaunches() {
  if (parts.commands.empty())
    return "";
  auto launch = dyn_cast<LaunchOp>(oneOf(parts.commands));
  LaunchOp other;
  for (Operation *op = launch; op && !other; op = op->getNextNode())
    if (auto next = dyn_cast_or_null<LaunchOp>(op->getNextNode());
        next && next.getKernel() == launch.getKernel())
      other = next;
  if (!other)
    return "";
  SmallVector<Value> operands(launch.getBuffers());
  llvm::append_range(operands, other.getBuffers());
  const uint64_t segments = launch.getSegments() + other.getSegments();
  other.getBuffersMutable().assign(operands);
  other.setSegments(segments);
  if (other.getIterations())
    other.setIterations(SmallVector<int64_t>(segments, 8));
  launch.erase();
  return "made one launch of two of @" + other.getKernel().str();
}

std::string Mutator::shortenBuffer() {
  if (parts.buffers.empty())
    return "";
  BufferOp buffer = oneOf(parts.buffers);
  SmallVector<int64_t> shape(buffer.getType().getShape());
  if (shape.front() < 2)
    return "";
  --shape.front();
  buffer.getResult().setType(MemRefType::get(shape, buffer.getType().getElementType()));
  return "took a row off buffer " + buffer.getName().str();
}

std::string Mutator::shortenArena() {
  ArenaOp arena = arenaOf(module);
  auto bytes = int64_t(arena.getBytes());
  bytes -= line * int64_t(1 + below(3));
  if (bytes <= 0)
    return "";
  arena.setBytes(uint64_t(bytes));
  return numbered("left an arena of bytes ", uint64_t(bytes));
}

struct Kind {
  const char *name;
  std::string (Mutator::*change)();
};
constexpr Kind kinds[] = {{"a wait dropped", &Mutator::dropWait},
                          {"the events of two waits swapped", &Mutator::swapEvents},
                          {"a wait delayed by a command", &Mutator::delayWait},
                          {"an event recorded a command early", &Mutator::recordEarlier},
                          {"a buffer moved by a line", &Mutator::moveBuffer},
                          {"a buffer laid on another", &Mutator::layOverBuffer},
                          {"a state or input moved by a line", &Mutator::movePersistent},
                          {"a command on another stream", &Mutator::changeStream},
                          {"two commands swapped", &Mutator::swapCommands},
                          {"a command dropped", &Mutator::dropCommand},
                          {"a view moved by a line", &Mutator::moveView},
                          {"an operand replaced by another", &Mutator::replaceOperand},
                          {"two launches made one", &Mutator::joinLaunches},
                          {"a buffer shortened", &Mutator::shortenBuffer},
                          {"the arena shortened", &Mutator::shortenArena}};
constexpr const char *hidden = "an access hidden from the schedule";

//===- The campaign -----------------------------------------------------------===//

constexpr const char *proofs[] = {"the ops' verifiers", "kernels", "liveness", "races"};

class Campaign {
public:
  explicit Campaign(const MutantOptions &options) : options(options), random(options.seed) {
    context.loadDialect<graph::NanoDialect, StepDialect, func::FuncDialect, arith::ArithDialect,
                        scf::SCFDialect, memref::MemRefDialect>();
    context.disableMultithreading();
    context.getDiagEngine().registerHandler([](Diagnostic &) {});
  }

  MutantReport run() {
    for (uint32_t seed = options.seed; mutants < options.count; ++seed)
      tryProgram(seed);
    return std::move(report);
  }

private:
  using Create = std::unique_ptr<Pass> (*)();
  bool passes(ModuleOp module, ArrayRef<Create> list) {
    PassManager manager(&context);
    manager.enableVerifier(false);
    for (Create create : list)
      manager.addPass(create());
    return succeeded(manager.run(module));
  }
  /// Numbers the commands of each program.
  static void markPlaces(ModuleOp module) {
    for (auto program : module.getOps<ProgramOp>())
      for (auto [place, op] : llvm::enumerate(program.getBody().front()))
        if (isa<StepCommandOpInterface>(op))
          op.setAttr(placeAttrName, OpBuilder(&op).getI64IntegerAttr(int64_t(place)));
  }

  void tryProgram(uint32_t seed);
  /// The first proof that reports the module; empty when none does.
  std::string reportOf(ModuleOp module);
  void judge(const std::string &kind, const std::string &what, uint32_t seed, ModuleOp module,
             const KernelTable &truth);

  const MutantOptions &options;
  std::mt19937 random;
  MLIRContext context;
  MutantReport report;
  int64_t mutants = 0;
};

std::string Campaign::reportOf(ModuleOp module) {
  const auto asks = [&](const char *proof) { return options.without != proof; };
  // The other proofs read what verifiers let pass.
  if (failed(verify(module)))
    return asks(proofs[0]) ? proofs[0] : "";
  static constexpr Create passesOfProofs[] = {[] { return createVerifyKernels(); },
                                              [] { return createVerifyLiveness(); },
                                              [] { return createVerifyRaces(); }};
  for (size_t i = 0; i < std::size(passesOfProofs); ++i)
    if (asks(proofs[i + 1]) && !passes(module, passesOfProofs[i]))
      return proofs[i + 1];
  return "";
}

void Campaign::judge(const std::string &kind, const std::string &what, uint32_t seed,
                     ModuleOp module, const KernelTable &truth) {
  ++mutants;
  MutantCounts &counts = report.kinds[kind];
  ++counts.mutants;
  const Interleavings orders = runAllOrders(module, truth);
  const std::string proof = reportOf(module);
  report.states += orders.states;
  if (orders.wrong.empty()) {
    counts.refused += !proof.empty();
    return;
  }
  ++counts.wrong;
  if (!proof.empty()) {
    ++counts.found[proof];
    return;
  }
  ++counts.survivors;
  report.survivors.push_back(numbered("program ", seed) + ", " + kind + ": " + what + "; " +
                             orders.wrong);
}

void Campaign::tryProgram(uint32_t seed) {
  OwningOpRef<ModuleOp> module = randomModule(context, seed, smallPrograms);
  // Half of the programs keep their launches apart, and with them the order that was meant.
  const bool batches = seed % 2 == 0;
  if (!batches)
    markPlaces(*module);
  OwningOpRef<ModuleOp> planned = module->clone();
  bool made = !batches || passes(*planned, {[] { return createBatchLaunches(); }});
  made = made && passes(*planned, {[] { return createSchedule(); }});
  // Of half of these, what can goes to the host's memory.
  if (seed % 4 == 0)
    made = made && passes(*planned, {[] {
             return createOffload({.bytes = int64_t(1) << 40, .machine = NANO_FAST_LINK});
           }});
  made = made &&
         passes(*planned, {[] { return createPlanMemory(); }, [] { return createPruneWaits(); }});
  ++report.programs;
  const KernelTable truth(*module);
  const Interleavings orders = made ? runAllOrders(*planned, truth) : Interleavings();
  report.states += orders.states;
  const std::string proof = made ? reportOf(*planned) : "the scheduler";
  if (!proof.empty() || !orders.wrong.empty()) {
    report.broken.push_back(numbered("program ", seed) + ": " +
                            (proof.empty() ? orders.wrong : "refused by " + proof));
    return;
  }
  // From here on, a mutant's own order is the one that is meant.
  planned->walk([](Operation *op) { op->removeAttr(placeAttrName); });
  for (int i = 0; i < mutantsOfProgram && mutants < options.count; ++i) {
    const Kind &kind =
        kinds[std::uniform_int_distribution<size_t>(0, std::size(kinds) - 1)(random)];
    OwningOpRef<ModuleOp> mutant = planned->clone();
    const std::string what = (Mutator(*mutant, random).*kind.change)();
    if (!what.empty())
      judge(kind.name, what, seed, *mutant, truth);
  }
  for (int i = 0; i < 2 && mutants < options.count; ++i) {
    OwningOpRef<ModuleOp> mutant = module->clone();
    if (batches)
      markPlaces(*mutant);
    const std::string what = hideAccess(*mutant, random);
    if (!what.empty() &&
        passes(*mutant, {[] { return createSchedule(); }, [] { return createPlanMemory(); },
                         [] { return createPruneWaits(); }}))
      judge(hidden, what, seed, *mutant, truth);
  }
}

} // namespace

llvm::ArrayRef<const char *> proofNames() { return proofs; }

MutantReport runMutants(const MutantOptions &options) { return Campaign(options).run(); }

std::string toMarkdown(const MutantReport &report) {
  std::string text =
      "| mutants | in all | wrong in some order | of these reported, by the first of "
      "verifiers / kernels / liveness / races | not reported | right and refused |\n"
      "|---|---|---|---|---|---|\n";
  MutantCounts all;
  const auto row = [&](const std::string &name, MutantCounts &counts) {
    std::string found;
    for (const char *proof : proofs)
      found += (found.empty() ? "" : " / ") + std::to_string(counts.found[proof]);
    text += "| " + name;
    for (const std::string &cell :
         {std::to_string(counts.mutants), std::to_string(counts.wrong), found,
          std::to_string(counts.survivors), std::to_string(counts.refused)})
      text += " | " + cell;
    text += " |\n";
  };
  for (auto [name, counts] : report.kinds) {
    row(name, counts);
    all.mutants += counts.mutants;
    all.wrong += counts.wrong;
    all.survivors += counts.survivors;
    all.refused += counts.refused;
    for (const auto &[proof, count] : counts.found)
      all.found[proof] += count;
  }
  row("all", all);
  return text;
}

} // namespace nano::test
