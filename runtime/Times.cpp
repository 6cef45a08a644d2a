// Times of commands as JSON.
#include "runtime/Times.h"
#include "runtime/plan/Operands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

namespace nano {

using nlohmann::ordered_json;
using plan::Command;

std::string timesText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t steps,
                      const std::vector<std::vector<CommandTime>> &ranks,
                      const std::optional<EnergyFacts> &energy) {
  std::unordered_map<const Command *, const CommandTime *> byCommand;
  std::unordered_map<const Command *, std::vector<double>> rankTimes;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const CommandTime &time : ranks[rank]) {
      if (rank == 0)
        byCommand[time.command] = &time;
      std::vector<double> &all = rankTimes[time.command];
      all.resize(ranks.size());
      all[rank] = 1e3 * time.seconds;
    }
  ordered_json commands = ordered_json::array();
  for (const plan::Program &program : plan.programs)
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const Command &command = program.commands[i];
      auto found = byCommand.find(&command);
      if (found == byCommand.end())
        continue;
      const CommandTime &time = *found->second;
      ordered_json entry = {{"program", program.name},
                            {"command", i},
                            {"kind", nameOf(command.action)},
                            {"label", command.label}};
      if (command.location.line)
        entry["at"] = fmt::format("{}:{}", command.location.file, command.location.line);
      entry["runs"] = time.runs;
      entry["ms"] = 1e3 * time.seconds;
      if (ranks.size() > 1)
        entry["rank_ms"] = rankTimes.at(&command);
      if (const auto *launch = command.as<plan::Launch>()) {
        entry["kernel"] = plan.kernels[launch->kernel].name;
        entry["summary"] = plan.kernels[launch->kernel].summary;
      }
      if (const auto *matmul = command.as<plan::Matmul>()) {
        entry["shape"] = {matmul->m, matmul->n, matmul->k, matmul->batch};
        double operations = 2.0 * double(matmul->m) * double(matmul->n) * double(matmul->k) *
                            double(matmul->batch) * double(time.runs);
        if (time.seconds > 0)
          entry["gflops"] = 1e-9 * operations / time.seconds;
      }
      commands.push_back(std::move(entry));
    }
  ordered_json all = {{"model", plan.model}, {"plan_hash", planHash}, {"worlds", plan.worlds},
                      {"device", device},    {"world", ranks.size()}, {"steps", steps}};
  if (energy)
    all["joules"] = energy->joules;
  all["commands"] = std::move(commands);
  return all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace nano
