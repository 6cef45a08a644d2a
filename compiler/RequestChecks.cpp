// Checks of numbers of ranks, of a target, of files that estimates need, and of an arena's size.
#include "compiler/RequestChecks.h"

#include "base/Target.h"
#include "compiler/TraceModel.h"
#include "ir/graph/RunStages.h"
#include "ir/machine/LabelledTimes.h"
#include "ir/machine/Machine.h"
#include "ir/step/Step.h"
#include "passes/memory/MemoryReport.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano {

using frontend::ModelError;

void checkWorlds(ModuleOp module, const std::vector<int64_t> &worlds) {
  for (const auto &[i, stage] : llvm::enumerate(graph::runStagesOf(module))) {
    auto size = [&](StringRef name) { return stage.training.getAs<IntegerAttr>(name).getInt(); };
    const int64_t batch = size("global_batch"), length = size("seq_len");
    for (int64_t world : worlds) {
      if (batch / length % world == 0)
        continue;
      std::string where;
      for (auto function : module.getOps<graph::ProgramOp>())
        if (!stage.name.empty() && function.getStages() && graph::isInStage(function, int64_t(i)) &&
            where.empty())
          where = fmt::format(" in stage '{}' ({})", stage.name, step::lineOf(function.getLoc()));
      throw ModelError(fmt::format("--world {}: {} ranks cannot share the {} sequences of a global "
                                   "batch{} ({} tokens, {} a sequence)",
                                   world, world, batch / length, where, batch, length));
    }
  }
}

void checkArena(ModuleOp module, const std::string &model) {
  constexpr int64_t limit = int64_t(1) << 40;
  const memory::MemorySummary held = memory::summarizeMemory(module);
  if (held.arena > limit)
    throw ModelError(fmt::format("{}: the model asks for sizes that do not fit: {}, more than 1 TiB"
                                 "; {}",
                                 model, memory::memoryLine(held), memory::peakLine(held, 1)));
}

void checkTarget(const std::string &target) {
  if (!findTarget(target))
    throw ModelError(
        fmt::format("--target {}: no such target; there are {}", target, targetNames()));
}

void checkSchedule(const PipelineOptions &pipeline, const std::vector<int64_t> &worlds) {
  llvm::Expected<machine::Machine> machine = machine::load(machineOf(pipeline));
  if (!machine)
    throw ModelError("--machine: " + llvm::toString(machine.takeError()));
  for (int64_t world : worlds)
    if (llvm::Error error = machine->checkRanks(world))
      throw ModelError("--machine: " + llvm::toString(std::move(error)));
  if (pipeline.schedule.times.empty())
    return;
  if (auto times = machine::LabelledTimes::read(pipeline.schedule.times); !times)
    throw ModelError("--times: " + llvm::toString(times.takeError()));
}

} // namespace nano
