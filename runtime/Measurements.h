// What devices measured, as text that ranks send each other.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace nano {

/// One rank's spans of a step.
struct RankSpans {
  /// Which machine the rank runs on: steady clocks of one machine agree.
  std::string machine;
  double meeting = 0; ///< when the ranks last met in the step, by this rank's steady clock
  std::vector<CommandSpan> spans;
};

/// The machine that this process runs on, as long as it runs.
std::string machineName();

/// Text that means something to ranks with the same plan, and back; Failed when it does not.
std::string packSpans(const plan::Plan &plan, const RankSpans &spans);
Result<RankSpans> unpackSpans(const plan::Plan &plan, const std::string &text);
std::string packTimes(const plan::Plan &plan, const std::vector<CommandTime> &times);
Result<std::vector<CommandTime>> unpackTimes(const plan::Plan &plan, const std::string &text);

/// Spans of all ranks by one clock, rank 0's: what ran on other machines is moved so that the
/// ranks' meetings coincide.
std::vector<std::vector<CommandSpan>> aligned(std::vector<RankSpans> ranks);

} // namespace nano
