// The commands of a step with what the machine's rates predict of each.
#include "compiler/inspect/StepFacts.h"

#include "base/Target.h"
#include "compiler/simulate/Costs.h"
#include "compiler/simulate/Simulator.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Work.h"

#include "llvm/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace nano::inspect {

Cost &Cost::operator+=(const Cost &other) {
  launches += other.launches;
  seconds += other.seconds;
  bytes += other.bytes;
  flops += other.flops;
  return *this;
}

Cost Cost::times(double count) const {
  return {count * launches, count * seconds, count * bytes, count * flops};
}

Result<StepFacts> stepOf(const plan::Plan &plan, int64_t world, const machine::Machine &machine) {
  if (plan.training.phases.empty())
    return badInput("the plan has no training step");
  if (llvm::Error error = machine.checkRanks(world))
    return badInput(llvm::toString(std::move(error)));
  const simulate::CostOptions options;
  const simulate::Costs costs = simulate::costsOf(plan, machine, world, options);
  simulate::Settings settings;
  settings.world = world;
  StepFacts facts;
  facts.world = world;
  facts.seconds = simulate::simulate(plan, machine, costs, settings).step;

  const plan::Training &training = plan.training;
  const int64_t microBatches = training.globalBatch / (training.seqLen * world);
  const plan::StepPrograms &phase = training.phases.back();
  for (auto [name, times] : {std::pair(&phase.first, microBatches > 1 ? 1.0 : 0.0),
                             std::pair(&phase.next, double(std::max<int64_t>(microBatches - 2, 0))),
                             std::pair(&phase.last, 1.0), std::pair(&phase.update, 1.0)})
    for (size_t p = 0; p < plan.programs.size() && times > 0; ++p) {
      const plan::Program &program = plan.programs[p];
      if (program.name != *name)
        continue;
      for (size_t i = 0; i < program.commands.size(); ++i) {
        const plan::Command &command = program.commands[i];
        if (plan::isEvent(command))
          continue;
        const plan::CommandWork work = plan::workOf(plan, command);
        const double attention = simulate::attentionFlops(plan, command, options.attendedKeys);
        const Cost each{1, costs[p][i].gap + costs[p][i].seconds, work.bytes,
                        attention > 0 ? attention : work.flops};
        facts.runs.push_back({&program, &command, i, times, each});
        facts.total += facts.runs.back().all();
      }
    }
  return facts;
}

std::string workerOf(const plan::Plan &plan, const plan::Command &command) {
  if (const auto *launch = command.as<plan::Launch>())
    return plan.kernels[launch->kernel].name;
  const auto *matmul = command.as<plan::Matmul>();
  if (!matmul)
    return plan::nameOf(command.action);
  return fmt::format("matmul {} {}{}x{}x{}", plan::nameOf(matmul->aType),
                     matmul->batch == 1 ? "" : fmt::format("{} of ", matmul->batch), matmul->m,
                     matmul->n, matmul->k);
}

Result<machine::Machine> machineFor(const std::string &name, const std::string &target) {
  llvm::Expected<machine::Machine> machine =
      machine::load(name.empty() ? targetOf(target).machine : name);
  if (!machine)
    return badInput("--machine: " + llvm::toString(machine.takeError()));
  return std::move(*machine);
}

std::string bytesText(double bytes) {
  for (auto [unit, size] :
       {std::pair("TB", 1e12), std::pair("GB", 1e9), std::pair("MB", 1e6), std::pair("kB", 1e3)})
    if (bytes >= size)
      return fmt::format("{:.2f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}

std::string secondsText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3)
    return fmt::format("{:.3f} ms", 1e3 * seconds);
  if (seconds == 0)
    return "0 µs";
  return fmt::format("{:.2f} µs", 1e6 * seconds);
}

std::string countText(double count) {
  return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}", count);
}

} // namespace nano::inspect
