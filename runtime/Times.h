// What `--times` writes: where the time of a run went, command by command.
#pragma once

#include "runtime/Device.h"
#include "runtime/Energy.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// One JSON object: "model", "plan_hash", "worlds" (numbers of ranks that these programs are for),
/// "device", "world", "steps" (optimizer steps of this run), where devices count it "joules" (of
/// all these steps on all devices), and "commands", one object each in the plan's order: "program",
/// "command" (its index there), "kind", "label", "at" (model file and line, where known), "runs"
/// and "ms" (of all runs together) of rank 0, and of several ranks "rank_ms", the milliseconds of
/// each; of a launch also "kernel" and "summary", of a product "shape" [m, n, k, batch] and
/// "gflops" a second. `ranks`: times by rank.
std::string timesText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t steps,
                      const std::vector<std::vector<CommandTime>> &ranks,
                      const std::optional<EnergyFacts> &energy = std::nullopt);

} // namespace nano
