// What a simulation found, as text for people and as a trace.
#pragma once

#include "base/Status.h"
#include "compiler/simulate/Simulator.h"

#include <string>
#include <vector>

namespace nano::simulate {

/// The heading of the table of a plan, and its line for one number of ranks and stage of the run:
/// milliseconds of a step, tokens a second, the parts of the step, and gigabytes of a rank's arena,
/// with a mark where that is more than the machine has; last the stage, where there are several.
std::string tableHead(const plan::Plan &plan);
std::string tableLine(const plan::Plan &plan, const plan::Training &stage,
                      const machine::Machine &machine, int64_t world, const Outcome &outcome);

/// What the steps of the plan's whole run take on one number of ranks.
struct RunTime {
  int64_t world = 1;
  double seconds = 0;
};
/// "a run of 1770 steps and 696 million tokens: 4m09s on 1 rank, 36.9s on 8 ranks": one line.
std::string runLine(const plan::Plan &plan, const std::vector<RunTime> &times);

/// By collective the exposed communication, by model line the critical path: at most `lines` of
/// each, the longest first, and what the rest comes to. Then the copies of a step.
std::string details(const Outcome &outcome, size_t lines = 12);

/// Writes the spans in the Trace Event Format, for ui.perfetto.dev: a process a rank, a thread a
/// stream; every event with its program, model line and label. BadInput when it cannot be written.
Status writeTimeline(const std::string &path, const plan::Plan &plan,
                     const std::vector<Span> &spans);

} // namespace nano::simulate
