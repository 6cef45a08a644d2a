// What each command of a plan takes: by a machine's rates, or as nanorun has measured it.
#pragma once

#include "ir/machine/LabelledTimes.h"
#include "ir/machine/Machine.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nano::simulate {

/// Seconds of a command: `gap` between it and what it follows, then its own; `memory` is the share
/// of both in which its bytes keep the device's memory busy, 1 where that is nearly all, 0 for
/// collectives.
struct Cost {
  double gap = 0, seconds = 0, memory = 0;
};

/// Costs by program and command, as in the plan.
using Costs = std::vector<std::vector<Cost>>;

/// Seconds that nanorun --times has measured: by launches' kernels and operands, products' shapes
/// and so on, so that they hold for the other variants of the plan file as well.
class MeasuredTimes {
public:
  /// Reads the file at `path`, which must be of a run of `plans`. BadInput, naming the file: it is
  /// missing, no JSON, not of nanorun --times, or of another plan.
  static Result<MeasuredTimes> read(const std::string &path, const plan::PlanFile &plans);

  /// Mean seconds of a run of such a command; null when none was measured.
  const double *find(const plan::Plan &plan, const plan::Command &command) const;

private:
  std::map<std::string, double> seconds; ///< by what `keyOf` says of the command
};

/// What decides how long commands take, beside the machine.
struct CostOptions {
  /// Keys that a query of attention sees on average. It depends on the documents, which a plan does
  /// not know: 512 is about what documents of web text give; never more than the causal mean.
  double attendedKeys = 512;
  const MeasuredTimes *measured = nullptr; ///< instead of the model, where it has the command
  /// The same by label, of a run of another plan of the model.
  const machine::LabelledTimes *labelled = nullptr;
};

/// The costs of the plan's commands for `world` ranks. Products and attention at the machine's
/// rates for them, everything else by the bytes that it moves (plan::workOf); a collective by its
/// bytes and where its ranks lie, ranks being numbered through the nodes. Collectives are never
/// taken from measurements, which have the waiting for other ranks in them. `world` must be
/// one of the plan's, and the machine must have a network when it is more than a node's.
Costs costsOf(const plan::Plan &plan, const machine::Machine &machine, int64_t world,
              const CostOptions &options);

/// The operations of a launch of attention or its gradient, of which every query sees `keys` keys
/// on average; 0 for other kernels.
double attentionFlops(const plan::Plan &plan, const plan::Command &command, double keys);

} // namespace nano::simulate
