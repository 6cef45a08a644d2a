// Lifetimes by program order, widened where streams run beside each other.
#include "passes/memory/Lifetimes.h"

using namespace mlir;
using namespace nano::step;

namespace nano::memory {
namespace {

/// What is known to have finished when each command starts.
class Order {
public:
  explicit Order(MutableArrayRef<StepCommandOpInterface> commands) {
    for (StepCommandOpInterface &command : commands)
      streams = std::max<size_t>(streams, command.getStream() + 1);
    positions.resize(streams);
    std::vector<int64_t> now(streams * streams, -1); // row s: what stream s knows of every stream
    llvm::DenseMap<uint64_t, std::vector<int64_t>> events;
    before.reserve(commands.size() * streams);
    for (auto [i, command] : llvm::enumerate(commands)) {
      size_t stream = command.getStream();
      auto row = now.begin() + stream * streams;
      if (auto wait = dyn_cast<WaitOp>(*command)) {
        const std::vector<int64_t> &event = events[wait.getEvent()];
        for (size_t other = 0; other < event.size(); ++other)
          row[other] = std::max(row[other], event[other]);
      }
      before.insert(before.end(), row, row + streams);
      row[stream] = int64_t(i);
      positions[stream].push_back(int64_t(i));
      if (auto record = dyn_cast<RecordOp>(*command))
        events[record.getEvent()].assign(row, row + streams);
    }
  }

  /// The last command of any stream that `stream` answers for that may start before its command
  /// `at` has finished.
  int64_t lastBeside(int64_t at, size_t stream) const {
    int64_t last = at;
    for (size_t other = 0; other < streams; ++other) {
      if (!answersFor(stream, other))
        continue;
      auto waits = llvm::partition_point(
          positions[other], [&](int64_t k) { return before[k * streams + stream] < at; });
      if (waits != positions[other].begin())
        last = std::max(last, *std::prev(waits));
    }
    return last;
  }

  /// The first command of any such stream that may still run when command `at` of `stream` starts.
  int64_t firstBeside(int64_t at, size_t stream) const {
    int64_t first = at;
    for (size_t other = 0; other < streams; ++other) {
      if (!answersFor(stream, other))
        continue;
      auto running = llvm::upper_bound(positions[other], before[at * streams + other]);
      if (running != positions[other].end())
        first = std::min(first, *running);
    }
    return first;
  }

private:
  /// Of two streams one answers for the other: every one for the first, and for those behind
  /// itself.
  static bool answersFor(size_t stream, size_t other) {
    return stream != 0 && (other == 0 || other > stream);
  }

  size_t streams = 1;
  std::vector<int64_t> before; ///< command × stream: the latest command known to have finished
  std::vector<std::vector<int64_t>> positions; ///< by stream
};

/// Notes how far an access of the command `at` reaches.
void grow(std::vector<Growth> &growth, int64_t at, const Access &access) {
  auto type = cast<MemRefType>(access.buffer.getType());
  const int64_t end = elementRange(type).end * elementBytes(type.getElementType());
  if (!growth.empty() && end <= growth.back().bytes)
    return;
  if (growth.empty() || growth.back().at < at)
    growth.push_back({at, end});
  else
    growth.back().bytes = end;
}

} // namespace

Lifetimes lifetimesOf(ProgramOp program, const KernelTable &kernels, ArrayRef<StepState> states,
                      Space space) {
  Lifetimes result;
  llvm::DenseMap<const void *, size_t> indices;
  for (Operation &op : program.getBody().front()) {
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      if (buffer.getHost() != (space == Space::Host))
        continue;
      indices[bufferKey(buffer)] = result.buffers.size();
      result.buffers.push_back(
          {graph::PlacedOpInterface(buffer), 0, -1, contiguousBytes(buffer.getType())});
    } else if (auto command = dyn_cast<StepCommandOpInterface>(op)) {
      result.commands.push_back(command);
    }
  }
  const size_t firstState = result.buffers.size();
  std::vector<StepUse> stateUses;
  for (const StepState &of : states)
    if (auto use = of.programs.find(program); use != of.programs.end()) {
      graph::StateOp state = of.state;
      indices[state.getSymNameAttr().getAsOpaquePointer()] = result.buffers.size();
      result.buffers.push_back({graph::PlacedOpInterface(state), 0, -1,
                                contiguousBytes(memrefOf(state.getTensorType()))});
      stateUses.push_back(use->second);
    }
  Order order(result.commands);
  struct Use {
    int64_t first, last;
  };
  std::vector<llvm::SmallDenseMap<uint64_t, Use, 2>> uses(result.buffers.size()); // by stream
  std::vector<std::vector<Growth>> growths(firstState);
  for (auto [i, command] : llvm::enumerate(result.commands)) {
    int64_t at = int64_t(i);
    for (const Access &access : accessesOf(command, kernels)) {
      auto index = indices.find(bufferKey(access.buffer));
      if (index == indices.end())
        continue;
      auto [use, isNew] = uses[index->second].try_emplace(command.getStream(), Use{at, at});
      use->second.last = at;
      if (index->second < firstState)
        grow(growths[index->second], at, access);
    }
  }
  for (auto [lifetime, byStream] : llvm::zip(result.buffers, uses)) {
    if (byStream.empty())
      continue;
    bool onlyMain = byStream.size() == 1 && byStream.contains(0);
    lifetime.begin = std::numeric_limits<int64_t>::max();
    for (auto [stream, use] : byStream) {
      lifetime.begin = std::min(lifetime.begin, order.firstBeside(use.first, stream));
      lifetime.end = std::max(lifetime.end, order.lastBeside(use.last, stream));
    }
    const size_t index = size_t(&lifetime - result.buffers.data());
    if (onlyMain && index < firstState && growths[index].size() > 1)
      lifetime.growth = std::move(growths[index]);
  }
  for (auto [i, use] : llvm::enumerate(stateUses)) {
    Lifetime &lifetime = result.buffers[firstState + i];
    if (use.fromBefore)
      lifetime.begin = 0;
    if (use.untilAfter)
      lifetime.end = int64_t(result.commands.size()) - 1;
  }
  return result;
}

/// Outputs of fewer bytes keep their place: little is gained by sharing it.
static constexpr int64_t ownOutputBytes = int64_t{1} << 20;

/// The programs that touch a symbol.
static llvm::DenseMap<StringAttr, llvm::SmallPtrSet<Operation *, 2>>
programsBySymbol(ModuleOp module) {
  llvm::DenseMap<StringAttr, llvm::SmallPtrSet<Operation *, 2>> programs;
  for (auto program : module.getOps<ProgramOp>())
    for (auto state : program.getBody().front().getOps<StateOp>())
      programs[state.getSymbolAttr().getAttr()].insert(program);
  return programs;
}

llvm::MapVector<nano::graph::StateOp, llvm::SmallPtrSet<Operation *, 2>>
cachePrograms(ModuleOp module) {
  auto programs = programsBySymbol(module);
  llvm::MapVector<nano::graph::StateOp, llvm::SmallPtrSet<Operation *, 2>> caches;
  for (auto state : module.getOps<nano::graph::StateOp>())
    if (state.getRole() == nano::graph::Role::Cache)
      caches[state] = programs[state.getSymNameAttr()];
  return caches;
}

llvm::MapVector<InputOp, ProgramOp> ownOutputs(ModuleOp module) {
  auto programs = programsBySymbol(module);
  llvm::MapVector<InputOp, ProgramOp> own;
  for (auto input : module.getOps<InputOp>()) {
    const auto &touching = programs[input.getSymNameAttr()];
    if (input.getOutput() && touching.size() == 1 &&
        contiguousBytes(cast<MemRefType>(input.getType())) >= ownOutputBytes)
      own[input] = cast<ProgramOp>(*touching.begin());
  }
  return own;
}

} // namespace nano::memory
