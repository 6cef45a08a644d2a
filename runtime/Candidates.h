// The ways in which a command of the plan can be done, its own and its candidates', and which of
// them is taken. Devices share this; each measures in its own manner.
#pragma once

#include "runtime/Tuning.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace nano {

/// The names of a command's ways: that of its kernel, or of a library's product its shape and
/// types, as "library 768x768x768, 12 matrices, bf16*bf16->bf16"; then its candidates' kernels.
std::vector<std::string> waysOf(const plan::Plan &plan, const plan::Command &command);

/// Whether some command of the plan has candidates.
bool hasCandidates(const plan::Plan &plan);

/// Whether a device may choose among the ways of the program's commands: with several ranks all
/// have to meet for that, so not where one alone runs it.
bool canChoose(const plan::Plan &plan, const plan::Program &program, int world);

/// What the way of a command with these is kept under.
std::string keyOfWays(const std::vector<std::string> &ways);

/// The way that was chosen for the command, 0 its own; that too where none was, or one that it does
/// not have.
size_t chosenWay(const Tuning &tuning, const std::vector<std::string> &ways);

/// Keeps in `tuning` the way that costs a step least, as `leastCost` says: at a
/// board's power limit, in watts, that with the fewest joules, else (0) the fastest; and says what
/// all cost: "tuned attention_1a2b: attention_3c4d by joules, 81.3 us 55.2 mJ (attention_1a2b 90.0
/// us 61.0 mJ, …)".
void chooseWay(Tuning &tuning, const std::vector<std::string> &ways,
               const std::vector<RunCost> &costs, const std::vector<size_t> &fastest, double limit,
               const Report &report);

/// Operands that the command reads and writes: a second run needs what was in them before the
/// first.
std::vector<plan::Ref> updatedOperands(const plan::Command &command);

} // namespace nano
