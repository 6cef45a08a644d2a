// Equal launches by their kernel and what they read, in one walk over the commands.
#include "passes/schedule/EqualLaunches.h"

#include "passes/schedule/LiveBytes.h"

#include <map>

using namespace mlir;
using namespace nano::step;

namespace nano::schedule {
namespace {

/// An operand that a launch reads: its buffer and which elements of it.
using Read = std::pair<const void *, const void *>;

class Remover {
public:
  Remover(ArrayRef<Operation *> commands, const KernelTable &kernels, int64_t limit)
      : kernels(kernels), limit(limit), live(commands, kernels) {
    for (Operation *command : commands)
      for (const Access &access : accessesOf(cast<StepCommandOpInterface>(command), kernels))
        if (access.writes)
          ++writes[bufferKey(access.buffer)];
  }

  /// True when the command at `time` is no longer needed.
  bool visit(Operation *command, int64_t time);

private:
  struct Made {
    LaunchOp launch;
    int64_t time;
  };

  bool isReplaceable(ArrayRef<Access> accesses) const;
  bool replace(ArrayRef<Access> accesses, Made made);

  const KernelTable &kernels;
  int64_t limit;
  LiveBytes live;
  llvm::DenseMap<const void *, int64_t> writes;  ///< by buffer: writes in the whole program
  llvm::DenseMap<const void *, int64_t> written; ///< by buffer: time of the latest so far
  /// The latest launch by all its attributes and what it reads.
  std::map<std::pair<const void *, std::vector<Read>>, Made> made;
};

/// True for a launch whose only result is a whole transient buffer that nothing else writes.
bool Remover::isReplaceable(ArrayRef<Access> accesses) const {
  int64_t results = 0;
  for (const Access &access : accesses) {
    if (!access.writes)
      continue;
    ++results;
    if (access.reads || !access.buffer.getDefiningOp<BufferOp>() ||
        writes.lookup(bufferKey(access.buffer)) != 1)
      return false;
  }
  return results == 1;
}

/// Lets all readers of the launch's result read that of `made`.
bool Remover::replace(ArrayRef<Access> accesses, Made made) {
  const SmallVector<Access> earlier =
      accessesOf(cast<StepCommandOpInterface>(made.launch.getOperation()), kernels);
  auto isWritten = [](const Access &access) { return access.writes; };
  Value mine = llvm::find_if(accesses, isWritten)->buffer,
        theirs = llvm::find_if(earlier, isWritten)->buffer;
  auto isChanged = [&](const Access &access) {
    auto found = written.find(bufferKey(access.buffer));
    return !access.writes && found != written.end() && found->second > made.time;
  };
  if (mine.getType() != theirs.getType() || llvm::any_of(accesses, isChanged) ||
      !live.replace(mine, theirs, limit))
    return false;
  // Views of the one may stand before the other.
  Operation *mineOp = mine.getDefiningOp(), *theirsOp = theirs.getDefiningOp();
  if (mineOp->isBeforeInBlock(theirsOp))
    theirsOp->moveBefore(mineOp);
  mine.replaceAllUsesWith(theirs);
  return true;
}

bool Remover::visit(Operation *command, int64_t time) {
  const SmallVector<Access> accesses = accessesOf(cast<StepCommandOpInterface>(command), kernels);
  auto launch = dyn_cast<LaunchOp>(command);
  if (launch && launch.getSegments() == 1 && isReplaceable(accesses)) {
    std::vector<Read> reads;
    for (const Access &access : accesses)
      if (!access.writes)
        reads.emplace_back(bufferKey(access.buffer), access.buffer.getType().getAsOpaquePointer());
    auto key = std::pair(launch->getAttrDictionary().getAsOpaquePointer(), std::move(reads));
    auto [found, isNew] = made.try_emplace(std::move(key), Made{launch, time});
    if (!isNew) {
      if (replace(accesses, found->second))
        return true;
      found->second = {launch, time};
    }
  }
  for (const Access &access : accesses)
    if (access.writes)
      written[bufferKey(access.buffer)] = time;
  return false;
}

} // namespace

std::vector<Operation *> removeEqualLaunches(std::vector<Operation *> commands,
                                             const KernelTable &kernels, int64_t limit) {
  Remover remover(commands, kernels, limit);
  std::vector<Operation *> rest;
  for (auto [time, command] : llvm::enumerate(commands)) {
    if (remover.visit(command, int64_t(time)))
      command->erase();
    else
      rest.push_back(command);
  }
  return rest;
}

} // namespace nano::schedule
