// nano-batch-launches: merges independent launches of one kernel into one launch over several sets
// of operands.
//
//   step.launch @decay(%a, %g)              step.launch @decay(%a, %g, %b, %h) {segments = 2}
//   step.launch @norm(%h, %n)        →     step.launch @norm(%h, %n)
//   step.launch @decay(%b, %h)
//
// Launches that compute what an earlier one has computed are removed first (EqualLaunches.h).
//
// Two sweeps over a program, one from its start and one from its end, give commands slots. A launch
// may join any batch of its kernel in a later slot than everything that it conflicts with, so what
// is moved past another command never conflicts with it. From the start, launches join earlier ones
// (first updates of many momenta, casts of many weights); from the end, they join later ones (last
// updates of many parameters). Moving a launch keeps transient buffers alive for longer: those that
// it writes when it moves up, those that it reads when it moves down. A launch joins when meanwhile
// no more bytes live than the most that live at once in any program as given, and `max-bytes`. A
// launch that keeps more than `max-bytes` alive takes much longer than it takes to start one, and
// stays where what it works on is near. States live anyway.
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
#include "passes/schedule/EqualLaunches.h"
#include "passes/schedule/LiveBytes.h"

#include <map>
#include <tuple>

namespace nano {
#define GEN_PASS_DEF_BATCHLAUNCHES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;
namespace kernel = nano::kernel;
using namespace nano::schedule;

namespace {

/// The last collective that a command depends on and the first that depends on it, by their place
/// among the collectives; −1 for none.
using Around = std::pair<int64_t, int64_t>;

/// What orders the commands of a program.
struct Order {
  llvm::DenseMap<Operation *, Around> around;
  /// Earlier and later commands that one conflicts with; what these imply may be left out.
  llvm::DenseMap<Operation *, SmallVector<Operation *>> before, after;
};

Order orderOf(ArrayRef<Operation *> commands, const KernelTable &kernels) {
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
  Order order;
  for (size_t i = 0; i < count; ++i) {
    order.around[graph.commands[i]] = around[i];
    for (uint32_t earlier : graph.before[i]) {
      order.before[graph.commands[i]].push_back(graph.commands[earlier]);
      order.after[graph.commands[earlier]].push_back(graph.commands[i]);
    }
  }
  return order;
}

struct Limits {
  int64_t liveBytes = 0;         ///< that may live at once
  int64_t maxBytes = 0;          ///< that a launch may keep alive
  int64_t maxParameterBytes = 0; ///< of a launch; 0: any
};

/// One sweep over the commands of a program, in program order or against it.
class Sweep {
public:
  Sweep(const KernelTable &kernels, const Limits &limits, bool upwards)
      : kernels(kernels), limits(limits), upwards(upwards) {}

  /// Merges launches and returns the commands in their new order.
  std::vector<Operation *> run(ArrayRef<Operation *> commands);

private:
  struct Slot {
    Operation *first;                   ///< the command, or a batch's first
    int64_t time;                       ///< its place among the commands
    llvm::SmallVector<LaunchOp> joined; ///< further launches of the batch
  };

  int64_t slotFor(Operation *command, int64_t time, const Order &order);
  bool join(Slot &slot, LaunchOp launch, ArrayRef<Access> accesses);
  bool fits(const Slot &slot, LaunchOp launch) const;

  const KernelTable &kernels;
  const Limits &limits;
  bool upwards;
  std::optional<LiveBytes> live; ///< by time
  std::vector<Slot> slots;
  llvm::DenseMap<Operation *, int64_t> slotOf;
  /// Kernel, stream, collectives around → slots.
  std::map<std::tuple<const void *, uint64_t, Around>, llvm::SmallVector<int64_t>> batches;
  int64_t barrier = -1;
};

/// True for a kernel that takes several sets of operands: tensor maps belong to one.
bool isJoinable(LaunchOp launch, const KernelTable &kernels) {
  kernel::FuncOp kernel = kernels.find(launch.getKernelAttr().getAttr());
  return kernel && !kernel.getTensorMaps();
}

/// True when the batch and the launch together are small enough to be a kernel's parameters: a
/// pointer an operand, and the size and the first block of each set of operands.
bool Sweep::fits(const Slot &slot, LaunchOp launch) const {
  if (limits.maxParameterBytes == 0)
    return true;
  auto bytesOf = [](LaunchOp part) {
    return 8 * (int64_t(part.getBuffers().size()) + 2 * int64_t(part.getSegments()));
  };
  int64_t bytes = 8 + bytesOf(launch) + bytesOf(cast<LaunchOp>(slot.first));
  for (LaunchOp joined : slot.joined)
    bytes += bytesOf(joined);
  return bytes <= limits.maxParameterBytes;
}

/// Takes the launch into the batch if it fits into it.
bool Sweep::join(Slot &slot, LaunchOp launch, ArrayRef<Access> accesses) {
  if (!fits(slot, launch) || live->bytesBefore(accesses, slot.time) > limits.maxBytes ||
      !live->canMove(accesses, slot.time, limits.liveBytes))
    return false;
  live->move(accesses, slot.time);
  slot.joined.push_back(launch);
  return true;
}

/// The slot of a batch that the command joins, or a new one.
int64_t Sweep::slotFor(Operation *command, int64_t time, const Order &order) {
  int64_t after = barrier;
  const auto &conflicts = upwards ? order.before : order.after;
  if (auto found = conflicts.find(command); found != conflicts.end())
    for (Operation *other : found->second)
      after = std::max(after, slotOf.lookup(other));
  if (auto launch = dyn_cast<LaunchOp>(command); launch && isJoinable(launch, kernels)) {
    const SmallVector<Access> accesses = accessesOf(cast<StepCommandOpInterface>(command), kernels);
    auto &open = batches[{launch.getKernelAttr().getAsOpaquePointer(), launch.getStream(),
                          order.around.lookup(command)}];
    for (auto *slot = llvm::upper_bound(open, after); slot != open.end(); ++slot)
      if (join(slots[*slot], launch, accesses))
        return *slot;
    open.push_back(int64_t(slots.size()));
  }
  slots.push_back({command, time, {}});
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
      kernel::FuncOp kernel = kernels.find(launch.getKernelAttr().getAttr());
      iterations.append(launch.getSegments(), kernel ? kernel.getIterations().value_or(0) : 0);
    }
  }
  OpBuilder builder(first);
  auto merged = cast<LaunchOp>(builder.clone(*first));
  merged->setLoc(FusedLoc::get(first.getContext(), locations));
  merged.getBuffersMutable().assign(buffers);
  merged.setSegments(segments);
  merged.removeCandidatesAttr(); // they are for one set of operands
  if (ownIterations)
    merged.setIterations(iterations);
  return merged;
}

std::vector<Operation *> Sweep::run(ArrayRef<Operation *> commands) {
  const Order order = orderOf(commands, kernels);
  std::vector<Operation *> swept(commands.begin(), commands.end());
  if (!upwards)
    std::reverse(swept.begin(), swept.end());
  live.emplace(swept, kernels);
  for (auto [time, command] : llvm::enumerate(swept)) {
    const int64_t slot = slotFor(command, int64_t(time), order);
    slotOf[command] = slot;
    if (isa<RecordOp, WaitOp>(command))
      barrier = slot;
  }
  std::vector<Operation *> result;
  for (Slot &slot : slots) {
    if (slot.joined.empty()) {
      result.push_back(slot.first);
      continue;
    }
    SmallVector<LaunchOp> launches = {cast<LaunchOp>(slot.first)};
    launches.append(slot.joined);
    if (!upwards)
      std::reverse(launches.begin(), launches.end());
    result.push_back(merge(launches, kernels));
    for (LaunchOp launch : launches)
      launch.erase();
  }
  if (!upwards)
    std::reverse(result.begin(), result.end());
  return result;
}

struct BatchLaunches : public nano::impl::BatchLaunchesBase<BatchLaunches> {
  using BatchLaunchesBase::BatchLaunchesBase;

  void runOnOperation() override {
    const KernelTable kernels(getOperation());
    std::vector<std::vector<Operation *>> programs;
    Limits limits{0, maxBytes, maxParameterBytes};
    for (auto program : getOperation().getOps<ProgramOp>()) {
      std::vector<Operation *> &commands = programs.emplace_back();
      for (Operation &op : program.getBody().front())
        if (isa<StepCommandOpInterface>(op))
          commands.push_back(&op);
      limits.liveBytes = std::max(limits.liveBytes, LiveBytes(commands, kernels).most());
    }
    const int64_t given = limits.liveBytes;
    limits.liveBytes += maxBytes;
    for (auto [program, all] : llvm::zip_equal(getOperation().getOps<ProgramOp>(), programs)) {
      std::vector<Operation *> commands = removeEqualLaunches(all, kernels, given);
      for (bool upwards : {true, false})
        commands = Sweep(kernels, limits, upwards).run(commands);
      Block &block = program.getBody().front();
      for (Operation *command : commands)
        command->moveBefore(&block, block.end());
    }
  }
};

} // namespace
