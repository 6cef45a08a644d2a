// Dependences by walking over the commands with the accesses so far, buffer by buffer.
#include "passes/schedule/Dependences.h"

using namespace mlir;
using namespace nano::step;

namespace nano::schedule {
namespace {

/// An access that later ones may conflict with.
struct Range {
  uint32_t command;
  ElementRange elements;
};

struct Touched {
  SmallVector<Range, 2> reads, writes;
};

Range rangeOf(uint32_t command, Value buffer) {
  return {command, elementRange(cast<MemRefType>(buffer.getType()))};
}

} // namespace

Dependences dependencesOf(std::vector<StepCommandOpInterface> commands,
                          const KernelTable &kernels) {
  Dependences result;
  result.commands = std::move(commands);
  llvm::DenseMap<const void *, Touched> buffers;
  for (uint32_t i = 0; i < result.commands.size(); ++i) {
    result.accesses.push_back(accessesOf(result.commands[i], kernels));
    std::vector<uint32_t> before;
    auto meet = [&](ArrayRef<Range> earlier, const Range &range) {
      for (const Range &other : earlier)
        if (other.elements.meets(range.elements))
          before.push_back(other.command);
    };
    for (const Access &access : result.accesses.back()) {
      const Range range = rangeOf(i, access.buffer);
      Touched &touched = buffers[bufferKey(access.buffer)];
      meet(touched.writes, range);
      if (access.writes)
        meet(touched.reads, range);
    }
    for (const Access &access : result.accesses.back()) {
      const Range range = rangeOf(i, access.buffer);
      Touched &touched = buffers[bufferKey(access.buffer)];
      if (access.writes) {
        // What conflicts with those conflicts with this one too.
        auto isCovered = [&](const Range &other) {
          return other.command != i && range.elements.covers(other.elements);
        };
        llvm::erase_if(touched.reads, isCovered);
        llvm::erase_if(touched.writes, isCovered);
        touched.writes.push_back(range);
      }
      if (access.reads)
        touched.reads.push_back(range);
    }
    llvm::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
    result.before.push_back(std::move(before));
  }
  return result;
}

Dependences dependencesOf(ProgramOp program, const KernelTable &kernels) {
  std::vector<StepCommandOpInterface> commands;
  for (Operation &op : program.getBody().front())
    if (auto command = dyn_cast<StepCommandOpInterface>(op); command && !isa<RecordOp, WaitOp>(op))
      commands.push_back(command);
  return dependencesOf(std::move(commands), kernels);
}

} // namespace nano::schedule
