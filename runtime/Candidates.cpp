// Names of ways, and the choice among them.
#include "runtime/Candidates.h"
#include "runtime/plan/Operands.h"

#include <fmt/format.h>

#include <algorithm>

namespace nano {

std::vector<std::string> waysOf(const plan::Plan &plan, const plan::Command &command) {
  std::vector<std::string> ways;
  if (const auto *launch = command.as<plan::Launch>())
    ways.push_back(plan.kernels[launch->kernel].name);
  if (const auto *matmul = command.as<plan::Matmul>())
    ways.push_back(fmt::format("library {}x{}x{}, {} {}, {}*{}->{}{}", matmul->m, matmul->n,
                               matmul->k, matmul->batch, matmul->batch == 1 ? "matrix" : "matrices",
                               plan::nameOf(matmul->aType), plan::nameOf(matmul->bType),
                               plan::nameOf(matmul->cType), matmul->beta != 0 ? ", added to" : ""));
  for (const plan::Launch &candidate : command.candidates)
    ways.push_back(plan.kernels[candidate.kernel].name);
  return ways;
}

bool hasCandidates(const plan::Plan &plan) {
  for (const plan::Program &program : plan.programs)
    for (const plan::Command &command : program.commands)
      if (!command.candidates.empty())
        return true;
  return false;
}

bool canChoose(const plan::Plan &plan, const plan::Program &program, int world) {
  for (const plan::Training *stage : plan::stagesOf(plan))
    if (world > 1 && (program.name == stage->generate || program.name == stage->decode))
      return false;
  return true;
}

std::string keyOfWays(const std::vector<std::string> &ways) {
  return fmt::format("{}", fmt::join(ways, " | "));
}

size_t chosenWay(const Tuning &tuning, const std::vector<std::string> &ways) {
  const std::optional<TunedWay> way = tuning.findWay(keyOfWays(ways));
  const auto found = way ? std::find(ways.begin(), ways.end(), way->chosen) : ways.end();
  return found == ways.end() ? 0 : size_t(found - ways.begin());
}

void chooseWay(Tuning &tuning, const std::vector<std::string> &ways,
               const std::vector<RunCost> &costs, const std::vector<size_t> &fastest, double limit,
               const Report &report) {
  TunedWay way;
  way.limit = limit;
  for (size_t i = 0; i < ways.size(); ++i)
    way.costs.emplace_back(ways[i], costs[i]);
  const size_t best = leastCost(costs, fastest, limit);
  way.chosen = ways[best];
  tuning.setWay(keyOfWays(ways), way);
  if (!report)
    return;
  std::string all;
  for (const auto &[name, cost] : way.costs)
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", name, textOf(cost));
  report(fmt::format("tuned {}: {}{}, {} ({})", ways.front(), way.chosen,
                     limit > 0 ? " by joules" : "", textOf(costs[best]), all));
}

std::vector<plan::Ref> updatedOperands(const plan::Command &command) {
  std::vector<plan::Ref> updated = plan::operandsOf(command);
  std::erase_if(updated, [](const plan::Ref &ref) { return !(ref.read && ref.written); });
  return updated;
}

} // namespace nano
