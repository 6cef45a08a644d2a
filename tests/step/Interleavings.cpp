// Runs a program in all orders: first once as it was meant, then depth first through every state
// that streams and events permit.
#include "tests/step/Interleavings.h"

#include "tests/step/RandomProgram.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace nano::step;

namespace nano::test {
namespace {

/// Who wrote a word: 0 nobody, 1 a fill, else an element of an output of a command, or what a
/// persistent buffer held from the start.
using Mark = uint32_t;
constexpr Mark unwritten = 0, zero = 1;
constexpr int64_t wordBytes = 4;

/// An operand of a command, element by element in row-major order.
struct Operand {
  const void *buffer = nullptr;
  std::vector<int64_t> elements;   ///< counted from the buffer's start
  std::vector<int64_t> words;      ///< of the arena
  std::vector<Mark> before, after; ///< what must be there, what is left
  bool reads = false, writes = false;
  bool isWhole = false; ///< every element of the result depends on all of it
};

struct Command {
  Operation *op = nullptr;
  uint64_t stream = 0;
  std::vector<std::vector<Operand>> segments; ///< run side by side
  bool bySteps = false;                       ///< writes words that it also touches otherwise
  int64_t collective = -1;                    ///< place among the program's collectives
  int64_t waitsFor = -1;                      ///< the command that records its event
};

struct Storage {
  int64_t start = 0, words = 0;
  bool persistent = false, output = false, touched = false;
  std::vector<Mark> marks;   ///< while the program runs as it was meant
  std::vector<Mark> initial; ///< before
};

class Runs {
public:
  Runs(ModuleOp module, ProgramOp program, const KernelTable &truth)
      : module(module), program(program), truth(truth),
        arena(int64_t(arenaOf(module).getEnd()) / wordBytes) {}

  Interleavings run() {
    readStorages();
    if (readCommands() && runAsMeant())
      runInAllOrders();
    return result;
  }

private:
  bool fail(std::string why) {
    result.wrong = "@" + program.getSymName().str() + ": " + std::move(why);
    return false;
  }
  std::string nameOf(const Command &command) const {
    return "command " + std::to_string(&command - commands.data());
  }
  void readStorages();
  bool readCommands();
  void addOperands(Command &command, ArrayRef<Access> accesses, size_t segments);
  bool findWords(Command &command);
  bool runAsMeant();
  bool runAsMeant(Command &command);
  void runInAllOrders();

  struct State {
    std::vector<size_t> done; ///< commands of each stream
    int64_t collectives = 0;
    std::vector<Mark> memory;
  };
  /// Passes by records and waits that are due: they only let others begin.
  void passEvents(State &state) const;
  bool hasRun(const State &state, int64_t command) const {
    return place[command] < state.done[commands[command].stream];
  }
  /// Runs a command; false when it finds what it must not.
  bool execute(const Command &command, bool backwards, State &state);
  bool executeAtOnce(const Command &command, State &state);
  bool step(const Command &command, const std::vector<Operand> &segment, size_t element,
            State &state);
  bool mustHold(const Command &command, const Operand &operand, size_t element,
                const State &state) {
    return state.memory[operand.words[element]] == operand.before[element] ||
           fail(nameOf(command) + " reads word " + std::to_string(operand.words[element]) +
                ", which holds another value in some order");
  }
  bool checkEnd(const State &state);

  ModuleOp module;
  ProgramOp program;
  const KernelTable &truth;
  int64_t arena; ///< words, those of the host's memory among them
  std::map<const void *, Storage> storages;
  std::vector<Command> commands;
  std::vector<std::vector<size_t>> streams; ///< commands of each, in order
  std::vector<size_t> place;                ///< of a command on its stream
  Mark marks = zero;
  Interleavings result;
};

void Runs::readStorages() {
  auto add = [&](const void *key, std::optional<int64_t> offset, MemRefType type) -> Storage & {
    Storage &storage = storages[key];
    storage.start = offset.value_or(0) / wordBytes;
    storage.words = contiguousBytes(type) / wordBytes;
    storage.marks.assign(size_t(storage.words), unwritten);
    return storage;
  };
  auto persist = [&](graph::PlacedOpInterface op, MemRefType type, bool output) {
    const void *key = SymbolTable::getSymbolName(op).getAsOpaquePointer();
    Storage &storage = add(key, op.getOffsetAttr().getInt(), type);
    storage.persistent = true;
    storage.output = output;
    for (Mark &mark : storage.marks)
      mark = output ? unwritten : ++marks;
    storage.initial = storage.marks;
  };
  for (Operation &op : *module.getBody())
    if (auto state = dyn_cast<graph::StateOp>(op))
      persist(state, memrefOf(state.getTensorType()), false);
    else if (auto input = dyn_cast<InputOp>(op))
      persist(input, cast<MemRefType>(input.getType()), input.getOutput());
  for (auto buffer : program.getBody().getOps<BufferOp>())
    add(bufferKey(buffer), int64_t(*buffer.getOffset()), buffer.getType());
}

void Runs::addOperands(Command &command, ArrayRef<Access> accesses, size_t segments) {
  auto matmul = dyn_cast<MatmulOp>(command.op);
  command.segments.resize(segments);
  for (auto [i, access] : llvm::enumerate(accesses)) {
    Operand operand;
    operand.buffer = bufferKey(access.buffer);
    operand.elements = elementsOf(access.buffer);
    operand.reads = access.reads;
    operand.writes = access.writes;
    operand.isWhole = matmul && llvm::is_contained({matmul.getA(), matmul.getB()}, access.buffer);
    command.segments[i / (accesses.size() / segments)].push_back(std::move(operand));
  }
  // A kernel's output at element i depends on element i of what it lies on, and on all of the rest.
  for (std::vector<Operand> &segment : command.segments)
    for (Operand &operand : segment)
      if (operand.reads && !operand.writes && isa<LaunchOp>(command.op))
        operand.isWhole = llvm::none_of(segment, [&](const Operand &other) {
          return other.writes && other.buffer == operand.buffer &&
                 other.elements == operand.elements;
        });
}

/// The words of a command's operands, and whether it touches any that it writes in two ways.
bool Runs::findWords(Command &command) {
  std::map<int64_t, int> touches;
  std::set<int64_t> written;
  for (std::vector<Operand> &segment : command.segments)
    for (Operand &operand : segment) {
      Storage &storage = storages.at(operand.buffer);
      storage.touched = true;
      for (int64_t element : operand.elements) {
        if (element < 0 || element >= storage.words)
          return fail(nameOf(command) + " reaches outside of its buffer");
        operand.words.push_back(storage.start + element);
        if (operand.words.back() < 0 || operand.words.back() >= arena)
          return fail(nameOf(command) + " reaches outside of the arena");
        ++touches[operand.words.back()];
        if (operand.writes)
          written.insert(operand.words.back());
      }
    }
  if (isa<CopyOp>(command.op) &&
      command.segments[0][0].words.size() != command.segments[0][1].words.size())
    return fail(nameOf(command) + " copies to another number of elements");
  command.bySteps = llvm::any_of(written, [&](int64_t word) { return touches.at(word) > 1; });
  return true;
}

bool Runs::readCommands() {
  llvm::DenseMap<uint64_t, int64_t> records;
  int64_t collectives = 0;
  for (Operation &op : program.getBody().front()) {
    auto command = dyn_cast<StepCommandOpInterface>(op);
    if (!command)
      continue;
    const auto index = int64_t(commands.size());
    Command &added = commands.emplace_back(Command{&op, command.getStream(), {}});
    if (auto record = dyn_cast<RecordOp>(op))
      records[record.getEvent()] = index;
    if (auto wait = dyn_cast<WaitOp>(op))
      if (auto found = records.find(wait.getEvent()); found != records.end())
        added.waitsFor = found->second;
    if (isCollective(&op))
      added.collective = collectives++;
    auto launch = dyn_cast<LaunchOp>(op);
    addOperands(added, accessesOf(command, truth), launch ? launch.getSegments() : 1);
    streams.resize(std::max<size_t>(streams.size(), added.stream + 1));
    place.push_back(streams[added.stream].size());
    streams[added.stream].push_back(size_t(index));
  }
  for (Command &command : commands)
    if (!findWords(command))
      return false;
  return true;
}

bool Runs::runAsMeant(Command &command) {
  for (std::vector<Operand> &segment : command.segments)
    for (Operand &operand : segment) {
      if (!operand.reads)
        continue;
      for (int64_t element : operand.elements) {
        operand.before.push_back(storages.at(operand.buffer).marks[element]);
        if (operand.before.back() == unwritten)
          return fail(nameOf(command) + " reads element " + std::to_string(element) +
                      " of a buffer, which nothing has written");
      }
    }
  for (std::vector<Operand> &segment : command.segments)
    for (Operand &operand : segment) {
      if (!operand.writes)
        continue;
      std::vector<Mark> &marksOf = storages.at(operand.buffer).marks;
      for (auto [i, element] : llvm::enumerate(operand.elements)) {
        if (isa<FillOp>(command.op))
          operand.after.push_back(zero);
        else if (isa<CopyOp>(command.op))
          operand.after.push_back(segment.front().before[i]);
        else
          operand.after.push_back(++marks);
        marksOf[element] = operand.after.back();
      }
    }
  return true;
}

bool Runs::runAsMeant() {
  std::vector<size_t> order(commands.size());
  std::iota(order.begin(), order.end(), 0);
  auto placeOf = [&](size_t i) {
    auto attribute = commands[i].op->getAttrOfType<IntegerAttr>(placeAttrName);
    return attribute ? attribute.getInt() : -1;
  };
  // Of commands that say no place the program's order is the one that is meant.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return placeOf(a) < placeOf(b); });
  return llvm::all_of(order, [&](size_t i) { return runAsMeant(commands[i]); });
}

void Runs::passEvents(State &state) const {
  for (bool passed = true; passed;) {
    passed = false;
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      while (state.done[stream] < streams[stream].size()) {
        const Command &next = commands[streams[stream][state.done[stream]]];
        if (!isa<RecordOp, WaitOp>(next.op) ||
            (next.waitsFor >= 0 && !hasRun(state, next.waitsFor)))
          break;
        ++state.done[stream];
        passed = true;
      }
    }
  }
}

bool Runs::step(const Command &command, const std::vector<Operand> &segment, size_t element,
                State &state) {
  for (const Operand &operand : segment) {
    if (!operand.reads)
      continue;
    if (operand.isWhole) {
      for (size_t i = 0; i < operand.words.size(); ++i)
        if (!mustHold(command, operand, i, state))
          return false;
    } else if (element < operand.words.size() && !mustHold(command, operand, element, state)) {
      return false;
    }
  }
  for (const Operand &operand : segment)
    if (operand.writes && element < operand.words.size())
      state.memory[operand.words[element]] = operand.after[element];
  return true;
}

bool Runs::executeAtOnce(const Command &command, State &state) {
  for (const std::vector<Operand> &segment : command.segments)
    for (const Operand &operand : segment)
      for (size_t i = 0; operand.reads && i < operand.words.size(); ++i)
        if (!mustHold(command, operand, i, state))
          return false;
  for (const std::vector<Operand> &segment : command.segments)
    for (const Operand &operand : segment)
      for (size_t i = 0; operand.writes && i < operand.words.size(); ++i)
        state.memory[operand.words[i]] = operand.after[i];
  return true;
}

bool Runs::execute(const Command &command, bool backwards, State &state) {
  if (command.collective >= 0 && command.collective != state.collectives++)
    return fail(nameOf(command) + " is entered before an earlier collective in some order");
  if (!command.bySteps)
    return executeAtOnce(command, state);
  std::vector<std::pair<size_t, size_t>> steps; // segment, element
  for (auto [i, segment] : llvm::enumerate(command.segments)) {
    size_t count = 1;
    for (const Operand &operand : segment)
      count = std::max(count, operand.words.size());
    for (size_t element = 0; element < count; ++element)
      steps.emplace_back(i, element);
  }
  if (backwards)
    std::reverse(steps.begin(), steps.end());
  return llvm::all_of(
      steps, [&](auto at) { return step(command, command.segments[at.first], at.second, state); });
}

bool Runs::checkEnd(const State &state) {
  for (size_t stream = 0; stream < streams.size(); ++stream)
    if (state.done[stream] != streams[stream].size())
      return fail("a stream waits for ever");
  for (auto &[key, storage] : storages) {
    if (!storage.persistent || (storage.output && !storage.touched))
      continue;
    for (int64_t i = 0; i < storage.words; ++i) {
      if (storage.marks[i] == unwritten)
        return fail("an output is not written as a whole");
      if (storage.start + i >= arena || state.memory[storage.start + i] != storage.marks[i])
        return fail("what lives from step to step has another value in some order");
    }
  }
  return true;
}

void Runs::runInAllOrders() {
  State first{std::vector<size_t>(streams.size()), 0, std::vector<Mark>(size_t(arena), unwritten)};
  for (auto &[key, storage] : storages)
    for (int64_t i = 0; storage.persistent && !storage.output && i < storage.words; ++i)
      if (storage.start + i < arena)
        first.memory[storage.start + i] = storage.initial[i];
  std::set<std::pair<std::vector<size_t>, uint64_t>> seen;
  std::vector<State> pending;
  auto visit = [&](State state) {
    passEvents(state);
    uint64_t hash = 1469598103934665603U;
    for (Mark mark : state.memory)
      hash = (hash ^ mark) * 1099511628211U;
    if (seen.emplace(state.done, hash).second)
      pending.push_back(std::move(state));
  };
  visit(std::move(first));
  while (!pending.empty()) {
    const State state = std::move(pending.back());
    pending.pop_back();
    ++result.states;
    bool isEnd = true;
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      if (state.done[stream] == streams[stream].size())
        continue;
      const Command &next = commands[streams[stream][state.done[stream]]];
      if (isa<WaitOp>(next.op))
        continue; // it is not due
      isEnd = false;
      for (bool backwards : {false, true}) {
        if (backwards && !next.bySteps)
          continue;
        State after = state;
        ++after.done[stream];
        if (!execute(next, backwards, after))
          return;
        visit(std::move(after));
      }
    }
    if (isEnd && !checkEnd(state))
      return;
  }
}

} // namespace

Interleavings runAllOrders(ModuleOp module, const KernelTable &truth) {
  Interleavings all;
  for (auto program : module.getOps<ProgramOp>()) {
    Interleavings one = Runs(module, program, truth).run();
    all.states += one.states;
    if (!one.wrong.empty()) {
      all.wrong = std::move(one.wrong);
      break;
    }
  }
  return all;
}

} // namespace nano::test
