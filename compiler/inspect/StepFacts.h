// What a plan's optimizer step runs and costs, command by command: what `nanoc diff` and `nanoc
// explain` are tables of.
#pragma once

#include "base/Status.h"
#include "ir/machine/Machine.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nano::inspect {

/// Of commands in an optimizer step of one rank.
struct Cost {
  double launches = 0;
  double seconds = 0; ///< predicted, of each by itself
  double bytes = 0;   ///< that operands move
  double flops = 0;

  Cost &operator+=(const Cost &other);
  /// So many times that.
  Cost times(double count) const;
};

/// A command that a step runs, `times` times.
struct Run {
  const plan::Program *program;
  const plan::Command *command;
  size_t index; ///< of the command in the program
  double times;
  Cost each; ///< one of them
  Cost all() const { return each.times(times); }
};

/// The step of one rank: of several phases the last one, in which every optimizer takes a step.
struct StepFacts {
  int64_t world = 1;
  double seconds = 0; ///< predicted, with what overlaps
  std::vector<Run> runs;
  Cost total;
};

/// `plan`, which must have a training step and outlive the result, is one for `world` ranks.
/// BadInput where the machine cannot have so many.
Result<StepFacts> stepOf(const plan::Plan &plan, int64_t world, const machine::Machine &machine);

/// What does the work: a kernel's name, "matmul bf16 768x2304x4096", "all_reduce".
std::string workerOf(const plan::Plan &plan, const plan::Command &command);

/// The machine of that name or file, or of the target where it is empty.
Result<machine::Machine> machineFor(const std::string &name, const std::string &target);

/// "1.48 TB", "16.67 GB", "385.2 MB", "12.00 kB", "12 B"
std::string bytesText(double bytes);
/// "1.234 s", "12.3 ms", "45.6 µs"
std::string secondsText(double seconds);
/// "12", or "1.5" where it is no whole number.
std::string countText(double count);

} // namespace nano::inspect
