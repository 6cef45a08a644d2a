// What a simulation found, as text for people and as a trace.
#pragma once

#include "compiler/simulate/Simulator.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace nano::simulate {

/// The heading of the table, and its line for one number of ranks: milliseconds of a step, tokens a
/// second, the parts of the step, and gigabytes of a rank's arena, with a mark where that is
/// more than the machine has.
std::string tableHead();
std::string tableLine(const plan::Plan &plan, const machine::Machine &machine, int64_t world,
                      const Outcome &outcome);

/// By collective the exposed communication, by model line the critical path: at most `lines` of
/// each, the longest first, and what the rest comes to. Then the copies of a step.
std::string details(const Outcome &outcome, size_t lines = 12);

/// Writes the spans in the Trace Event Format, for ui.perfetto.dev: a process a rank, a thread a
/// stream; every event with its program, model line and label. BadInput when it cannot be written.
Status writeTimeline(const std::string &path, const plan::Plan &plan, const Outcome &outcome);

} // namespace nano::simulate
