// nano-verify-races: proves that any two conflicting accesses are ordered by a chain of stream
// order and events.
//
// Two accesses conflict when they have a byte of the arena in common and at least one writes it.
// For every command a vector clock is computed: by stream, the latest command that has finished
// when this one starts, from the order of its own stream and the events that it waited for. A pair
// of commands of two streams is concurrent when neither is in the other's clock; no concurrent pair
// may conflict. Within one command, an output may lie on an input only as a whole, element over
// element (an update in place), of the same segment of a launch; the factors of a product, and what
// has parts elsewhere, never.
// Collectives of one program are all ordered among themselves, so that every rank enters them in
// one order, whatever the number of ranks. Nothing of the scheduler or the memory planner is used:
// only streams, events, offsets and layouts.
#include "passes/Passes.h"
#include "passes/verify/PlannedProgram.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYRACES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::verify;
namespace kernel = nano::kernel;
namespace step = nano::step;

namespace {

class RaceCheck {
public:
  RaceCheck(step::ProgramOp op, const PlannedProgram &program) : op(op), program(program) {}

  LogicalResult run() {
    for (const PlannedCommand &command : program.commands)
      if (failed(withinOne(command)))
        return failure();
    computeClocks();
    for (size_t stream = 0; stream < streams; ++stream)
      for (size_t other = stream + 1; other < streams; ++other)
        if (failed(betweenStreams(stream, other)))
          return failure();
    return success();
  }

private:
  LogicalResult withinOne(const PlannedCommand &command);
  /// Reports a command that touches bytes twice.
  LogicalResult conflict(Operation *command, const PlannedAccess &written, const char *does,
                         const PlannedAccess &other);
  void computeClocks();
  LogicalResult betweenStreams(size_t stream, size_t other);
  LogicalResult check(const PlannedCommand &first, const PlannedCommand &second);

  /// What has finished of `stream` when command `at` starts: the position of the latest such
  /// command, or −1.
  int64_t finished(int64_t at, size_t stream) const { return clocks[at * streams + stream]; }

  step::ProgramOp op;
  const PlannedProgram &program;
  size_t streams = 1;
  std::vector<int64_t> clocks;                ///< command × stream
  std::vector<std::vector<int64_t>> onStream; ///< positions of the commands of a stream
};

/// The layout as steps from one element to the next in row-major order, outermost first: equal for
/// types that name the same elements in the same order.
SmallVector<std::pair<int64_t, int64_t>> elementOrder(MemRefType type) {
  auto [strides, offset] = step::layoutOf(type);
  SmallVector<std::pair<int64_t, int64_t>> steps; // size, stride
  for (auto [size, stride] : llvm::zip(type.getShape(), strides)) {
    if (size == 1)
      continue;
    if (!steps.empty() && steps.back().second == size * stride)
      steps.back() = {steps.back().first * size, stride};
    else
      steps.push_back({size, stride});
  }
  return steps;
}

/// The kernel of a launch; null when the command is none, or its kernel is not there.
kernel::FuncOp kernelOf(Operation *command) {
  auto launch = dyn_cast<step::LaunchOp>(command);
  if (!launch)
    return nullptr;
  return SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(
      launch,
      SymbolRefAttr::get(launch.getContext(), step::kernelModuleName, {launch.getKernelAttr()}));
}

/// True for a factor of a product, of which other elements are read than those at the places that
/// are written; of a kernel, for what it has a tensor map of.
bool isFactor(Operation *command, Value operand) {
  if (auto matmul = dyn_cast<step::MatmulOp>(command))
    return llvm::is_contained(
        {matmul.getA(), matmul.getB(), matmul.getScaleA(), matmul.getScaleB()}, operand);
  kernel::FuncOp kernel = kernelOf(command);
  if (!kernel || !kernel.getTensorMaps())
    return false;
  auto maps = kernel.getTensorMaps()->getAsRange<kernel::TensorMapAttr>();
  return llvm::any_of(maps, [&](kernel::TensorMapAttr map) {
    return cast<step::LaunchOp>(command).getBuffers()[map.getBuffer()] == operand;
  });
}

/// True for a template whose blocks read elements that others write, such as attention or a scan.
bool readsOtherPlaces(Operation *command) {
  kernel::FuncOp kernel = kernelOf(command);
  return kernel && kernel.getInstantiates() && kernel.getInstantiates()->readsOtherPlaces();
}

/// True for what a kernel adds to, each of its iterations to elements of its own.
bool isAdded(Operation *command, Value operand) {
  kernel::FuncOp kernel = kernelOf(command);
  if (!kernel)
    return false;
  auto launch = cast<step::LaunchOp>(command);
  for (uint64_t segment = 0; segment < launch.getSegments(); ++segment)
    for (auto [i, buffer] : llvm::enumerate(launch.getSegment(segment)))
      if (buffer == operand && kernel.getParameter(i).getAccess() == kernel::Access::add)
        return true;
  return false;
}

/// True when an output at `written` over an input at `read` is an update in place: each element
/// over itself. What one segment of a launch reads another must not write: they run side by side.
bool isInPlace(Operation *command, const PlannedAccess &read, const PlannedAccess &written) {
  if (read.segment != written.segment || read.buffer != written.buffer ||
      !(read.bytes == written.bytes))
    return false;
  if (isFactor(command, read.value) || readsOtherPlaces(command) ||
      isa<step::CopyOp, step::ReduceScatterOp, step::AllGatherOp, step::ShardOp>(command))
    return false;
  return read.value == written.value || elementOrder(cast<MemRefType>(read.value.getType())) ==
                                            elementOrder(cast<MemRefType>(written.value.getType()));
}

LogicalResult RaceCheck::withinOne(const PlannedCommand &command) {
  SmallVector<const PlannedAccess *> accesses;
  for (const PlannedAccess &access : command.accesses)
    accesses.push_back(&access);
  llvm::stable_sort(accesses, [](const PlannedAccess *a, const PlannedAccess *b) {
    return a->bytes.start < b->bytes.start;
  });
  for (size_t i = 0; i < accesses.size(); ++i)
    for (size_t j = i + 1;
         j < accesses.size() && accesses[j]->bytes.start < accesses[i]->bytes.end(); ++j) {
      const PlannedAccess &a = *accesses[i], &b = *accesses[j];
      if ((!a.writes && !b.writes) || !intersect(a.bytes, b.bytes))
        continue;
      bool bothWrite = a.writes && b.writes;
      const PlannedAccess &written = a.writes ? a : b, &other = a.writes ? b : a;
      if (!bothWrite && isInPlace(command.op, other, written))
        continue;
      return conflict(command.op, written, bothWrite ? "also writes " : "reads ", other);
    }
  for (const PlannedAccess &access : command.accesses)
    if (access.reads && access.writes && !isAdded(command.op, access.value) &&
        (isFactor(command.op, access.value) || readsOtherPlaces(command.op)))
      return conflict(command.op, access, "reads ", access);
  return success();
}

LogicalResult RaceCheck::conflict(Operation *command, const PlannedAccess &written,
                                  const char *does, const PlannedAccess &other) {
  return command->emitError("program @")
         << op.getSymName() << ": " << step::describeCommand(command) << " writes "
         << describe(program.buffers[written.buffer]) << " and " << does
         << describe(program.buffers[other.buffer])
         << " at bytes of the arena that are the same, and it is no update in place";
}

void RaceCheck::computeClocks() {
  for (const PlannedCommand &command : program.commands)
    streams = std::max<size_t>(streams, command.stream + 1);
  onStream.resize(streams);
  std::vector<std::vector<int64_t>> now(streams, std::vector<int64_t>(streams, -1));
  llvm::DenseMap<uint64_t, std::vector<int64_t>> events;
  for (auto [i, command] : llvm::enumerate(program.commands)) {
    std::vector<int64_t> &clock = now[command.stream];
    if (auto wait = dyn_cast<step::WaitOp>(command.op))
      if (auto event = events.find(wait.getEvent()); event != events.end())
        for (size_t stream = 0; stream < streams; ++stream)
          clock[stream] = std::max(clock[stream], event->second[stream]);
    llvm::append_range(clocks, clock);
    clock[command.stream] = int64_t(i);
    onStream[command.stream].push_back(int64_t(i));
    if (auto record = dyn_cast<step::RecordOp>(command.op))
      events[record.getEvent()] = clock;
  }
}

LogicalResult RaceCheck::check(const PlannedCommand &first, const PlannedCommand &second) {
  for (const PlannedAccess &a : first.accesses)
    for (const PlannedAccess &b : second.accesses) {
      if ((!a.writes && !b.writes) || !intersect(a.bytes, b.bytes))
        continue;
      auto verb = [](const PlannedAccess &access) {
        return access.writes ? " writes " : " reads ";
      };
      InFlightDiagnostic error = second.op->emitError("program @")
                                 << op.getSymName() << ": " << step::describeCommand(second.op)
                                 << " on stream " << second.stream << verb(b)
                                 << describe(program.buffers[b.buffer]) << " while "
                                 << step::describeCommand(first.op) << " on stream " << first.stream
                                 << verb(a) << describe(program.buffers[a.buffer])
                                 << " at the same place of the arena: no event orders them";
      error.attachNote(first.op->getLoc()) << "the other command";
      return error;
    }
  if (step::isCollective(first.op) && step::isCollective(second.op))
    return second.op->emitError("program @")
           << op.getSymName() << ": " << step::describeCommand(second.op) << " on stream "
           << second.stream << " and " << step::describeCommand(first.op) << " on stream "
           << first.stream
           << " have no order, so ranks could enter these collectives in different ones";
  return success();
}

LogicalResult RaceCheck::betweenStreams(size_t stream, size_t other) {
  const std::vector<int64_t> &candidates = onStream[other];
  for (int64_t at : onStream[stream]) {
    const PlannedCommand &command = program.commands[at];
    if (command.accesses.empty())
      continue;
    // Clocks grow along a stream: what is concurrent with this command is one stretch of the other
    // stream.
    auto first = llvm::upper_bound(candidates, finished(at, other));
    auto last = std::partition_point(first, candidates.end(), [&](int64_t candidate) {
      return finished(candidate, stream) < at;
    });
    for (auto candidate = first; candidate != last; ++candidate) {
      const PlannedCommand &concurrent = program.commands[*candidate];
      LogicalResult result =
          *candidate < at ? check(concurrent, command) : check(command, concurrent);
      if (failed(result))
        return failure();
    }
  }
  return success();
}

struct VerifyRaces : public nano::impl::VerifyRacesBase<VerifyRaces> {
  void runOnOperation() override {
    FailureOr<PersistentBuffers> persistent = readPersistentBuffers(getOperation());
    if (failed(persistent) ||
        failed(forEachProgram(getOperation(), *persistent,
                              [](step::ProgramOp op, const PlannedProgram &program) {
                                return RaceCheck(op, program).run();
                              })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
