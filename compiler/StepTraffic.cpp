// The programs of a step, by their roles, and how often a rank runs each.
#include "compiler/StepTraffic.h"

#include "ir/graph/Phases.h"
#include "ir/graph/Program.h"
#include "ir/graph/Traffic.h"

using namespace mlir;

namespace nano {

int64_t trainingSize(ModuleOp module, StringRef name) {
  const DictionaryAttr training = graph::trainingOf(module);
  return training.getAs<IntegerAttr>(name).getInt();
}

StepTraffic measureStep(ModuleOp module, int64_t world) {
  const int64_t microBatches =
      trainingSize(module, "global_batch") / (trainingSize(module, "seq_len") * world);
  StepTraffic sum;
  auto add = [&](graph::ProgramOp function, int64_t times) {
    if (!function || times <= 0)
      return;
    const Traffic traffic = measureTraffic(function);
    sum.kernels += times * traffic.kernels;
    sum.bytes += times * traffic.bytes;
    sum.floor += times * trafficFloor(function);
  };
  // Of the phases the last one, in which every optimizer takes a step.
  auto programOf = [&](StringRef role) -> graph::ProgramOp {
    for (auto function : module.getOps<graph::ProgramOp>()) {
      if (function.hasRole(role) && graph::runsInPhase(function, graph::phaseCount(module) - 1))
        return function;
    }
    return {};
  };
  graph::ProgramOp first = programOf("first"), next = programOf("next"), last = programOf("last");
  if (!last)
    last = microBatches > 1 ? next : first;
  add(first, microBatches > 1 ? 1 : 0);
  add(next, microBatches - 2);
  add(last, 1);
  add(programOf("update"), 1);
  return sum;
}

} // namespace nano
