// nano-batch-launches: merges independent launches of one kernel into one launch over several sets
// of operands.
//
//   step.launch @adam(%a, %g)              step.launch @adam(%a, %g, %b, %h) {segments = 2}
//   step.launch @norm(%h, %n)        →     step.launch @norm(%h, %n)
//   step.launch @adam(%b, %h)
//
// Two sweeps over a program, one from its start and one from its end. A sweep keeps, for every
// buffer, the latest slot that read it and the latest that wrote it; a launch may join any batch of
// its kernel in a later slot than everything that it conflicts with, so what is moved past another
// command never conflicts with it. From the start, launches join earlier ones (first updates of
// many momenta); from the end, they join later ones (last updates of many parameters). Moving a
// launch keeps transient buffers alive for longer: those that it writes when it moves up, those
// that it reads when it moves down. A batch takes on at most `max-bytes` of them; states live
// anyway.
//
// Launches join only when the last collective before them and the first after them, by what they
// depend on and what depends on them, are the same: one launch behind two collectives would wait
// for both, and one before two would hold up the first.
//
// It runs after kernels exist, because equal tasks share one, and before events, which fix the
// order of commands.
#include "passes/Passes.h"
#include "passes/schedule/Costs.h"
#include "passes/schedule/Dependences.h"

#include <map>
#include <tuple>

namespace nano {
#define GEN_PASS_DEF_BATCHLAUNCHES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;
using namespace nano::schedule;

namespace {

/// The last collective that a command depends on and the first that depends on it, by their place
/// among the collectives; −1 for none.
using Around = std::pair<int64_t, int64_t>;

llvm::DenseMap<Operation *, Around> collectivesAround(ArrayRef<Operation *> commands,
                                                      const KernelTable &kernels) {
  std::vector<StepCommandOpInterface> accessing;
  for (Operation *command : commands)
    if (!isa<RecordOp, WaitOp>(command))
      accessing.push_back(cast<StepCommandOpInterface>(command));
  const Dependences graph = dependencesOf(std::move(accessing), kernels);
  const size_t count = graph.commands.size();
  std::vector<int64_t> collective(count, -1); // by command: its place among the collectives
  int64_t collectives = 0;
  for (size_t i = 0; i < count; ++i)
    if (isCollective(graph.commands[i]))
      collective[i] = collectives++;
  std::vector<Around> around(count, {-1, -1});
  for (size_t i = 0; i < count; ++i)
    for (uint32_t earlier : graph.before[i])
      around[i].first = std::max({around[i].first, around[earlier].first, collective[earlier]});
  for (size_t i = count; i-- > 0;)
    for (uint32_t earlier : graph.before[i]) {
      const int64_t first = collective[i] >= 0 ? collective[i] : around[i].second;
      int64_t &found = around[earlier].second;
      if (first >= 0 && (found < 0 || first < found))
        found = first;
    }
  llvm::DenseMap<Operation *, Around> result;
  for (size_t i = 0; i < count; ++i)
    result[graph.commands[i]] = around[i];
  return result;
}

/// One sweep over the commands of a program, in program order or against it.
class Sweep {
public:
  Sweep(const KernelTable &kernels, int64_t maxBytes, int64_t maxParameterBytes, bool upwards)
      : kernels(kernels), maxBytes(maxBytes), maxParameterBytes(maxParameterBytes),
        upwards(upwards) {}

  /// Merges launches and returns the commands in their new order.
  std::vector<Operation *> run(ArrayRef<Operation *> commands);

private:
  struct Slot {
    Operation *first;                   ///< the command, or a batch's first
    llvm::SmallVector<LaunchOp> joined; ///< further launches of the batch
    int64_t bytes = 0;                  ///< transient bytes that joined launches keep alive
  };
  struct Touched {
    int64_t read = -1, written = -1; ///< latest slot
  };

  int64_t slotFor(Operation *command, ArrayRef<Access> accesses, Around around);
  int64_t bytesKeptAlive(ArrayRef<Access> accesses) const;
  bool fits(const Slot &slot, LaunchOp launch) const;

  const KernelTable &kernels;
  int64_t maxBytes, maxParameterBytes;
  bool upwards;
  std::vector<Slot> slots;
  llvm::DenseMap<const void *, Touched> touched;
  /// Kernel, stream, collectives around → slots.
  std::map<std::tuple<const void *, uint64_t, Around>, llvm::SmallVector<int64_t>> batches;
  int64_t barrier = -1;
};

int64_t Sweep::bytesKeptAlive(ArrayRef<Access> accesses) const {
  int64_t bytes = 0;
  for (const Access &access : accesses)
    if ((upwards ? access.writes : access.reads) && isa<BufferOp>(bufferOf(access.buffer)))
      bytes += contiguousBytes(cast<MemRefType>(access.buffer.getType()));
  return bytes;
}

/// True when the batch and the launch together are small enough to be a kernel's parameters: a
/// pointer an operand, and the size and the first block of each set of operands.
bool Sweep::fits(const Slot &slot, LaunchOp launch) const {
  if (maxParameterBytes == 0)
    return true;
  auto bytesOf = [](LaunchOp part) {
    return 8 * (int64_t(part.getBuffers().size()) + 2 * int64_t(part.getSegments()));
  };
  int64_t bytes = 8 + bytesOf(launch) + bytesOf(cast<LaunchOp>(slot.first));
  for (LaunchOp joined : slot.joined)
    bytes += bytesOf(joined);
  return bytes <= maxParameterBytes;
}

/// The slot of a batch that the command joins, or a new one.
int64_t Sweep::slotFor(Operation *command, ArrayRef<Access> accesses, Around around) {
  int64_t after = barrier;
  for (const Access &access : accesses) {
    auto found = touched.find(bufferKey(access.buffer));
    if (found == touched.end())
      continue;
    after = std::max(after, found->second.written);
    if (access.writes)
      after = std::max(after, found->second.read);
  }
  auto launch = dyn_cast<LaunchOp>(command);
  if (launch) {
    auto &open = batches[{launch.getKernelAttr().getAsOpaquePointer(), launch.getStream(), around}];
    int64_t bytes = bytesKeptAlive(accesses);
    auto *slot = llvm::upper_bound(open, after);
    if (slot != open.end() && slots[*slot].bytes + bytes <= maxBytes &&
        fits(slots[*slot], launch)) {
      slots[*slot].joined.push_back(launch);
      slots[*slot].bytes += bytes;
      return *slot;
    }
    open.push_back(int64_t(slots.size()));
  }
  slots.push_back({command, {}});
  return int64_t(slots.size()) - 1;
}

/// One launch over the operands of all; `launches` in program order.
LaunchOp merge(ArrayRef<LaunchOp> launches, const KernelTable &kernels) {
  LaunchOp first = launches.front();
  SmallVector<Value> buffers;
  SmallVector<Location> locations;
  SmallVector<int64_t> iterations;
  bool ownIterations = false;
  uint64_t segments = 0;
  for (LaunchOp launch : launches) {
    llvm::append_range(buffers, launch.getBuffers());
    locations.push_back(launch.getLoc());
    segments += launch.getSegments();
    if (std::optional<ArrayRef<int64_t>> own = launch.getIterations()) {
      llvm::append_range(iterations, *own);
      ownIterations = true;
    } else {
      const KernelInfo *kernel = kernels.find(launch.getKernelAttr().getAttr());
      iterations.append(launch.getSegments(), kernel ? kernel->iterations : 0);
    }
  }
  OpBuilder builder(first);
  auto merged = cast<LaunchOp>(builder.clone(*first));
  merged->setLoc(FusedLoc::get(first.getContext(), locations));
  merged.getBuffersMutable().assign(buffers);
  merged.setSegments(segments);
  if (ownIterations)
    merged.setIterations(iterations);
  return merged;
}

std::vector<Operation *> Sweep::run(ArrayRef<Operation *> commands) {
  const llvm::DenseMap<Operation *, Around> around = collectivesAround(commands, kernels);
  for (size_t i = 0; i < commands.size(); ++i) {
    Operation *command = upwards ? commands[i] : commands[commands.size() - 1 - i];
    SmallVector<Access> accesses = accessesOf(cast<StepCommandOpInterface>(command), kernels);
    int64_t slot = slotFor(command, accesses, around.lookup(command));
    if (isa<RecordOp, WaitOp>(command))
      barrier = slot;
    for (const Access &access : accesses) {
      Touched &buffer = touched[bufferKey(access.buffer)];
      if (access.reads)
        buffer.read = std::max(buffer.read, slot);
      if (access.writes)
        buffer.written = std::max(buffer.written, slot);
    }
  }
  std::vector<Operation *> order;
  for (Slot &slot : slots) {
    if (slot.joined.empty()) {
      order.push_back(slot.first);
      continue;
    }
    SmallVector<LaunchOp> launches = {cast<LaunchOp>(slot.first)};
    launches.append(slot.joined);
    if (!upwards)
      std::reverse(launches.begin(), launches.end());
    order.push_back(merge(launches, kernels));
    for (LaunchOp launch : launches)
      launch.erase();
  }
  if (!upwards)
    std::reverse(order.begin(), order.end());
  return order;
}

struct BatchLaunches : public nano::impl::BatchLaunchesBase<BatchLaunches> {
  using BatchLaunchesBase::BatchLaunchesBase;

  void runOnOperation() override {
    KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>()) {
      std::vector<Operation *> commands;
      for (Operation &op : program.getBody().front())
        if (isa<StepCommandOpInterface>(op))
          commands.push_back(&op);
      for (bool upwards : {true, false})
        commands = Sweep(kernels, maxBytes, maxParameterBytes, upwards).run(commands);
      Block &block = program.getBody().front();
      for (Operation *command : commands)
        command->moveBefore(&block, block.end());
    }
  }
};

} // namespace
