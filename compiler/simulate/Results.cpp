// What the ranks of a simulation spent a step on, its copies and its critical path.
#include "compiler/simulate/Simulation.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Work.h"

#include <map>

namespace nano::simulate {

using plan::Command;

namespace {

/// Sorted, without overlaps; of intervals that overlap the first to start keeps the time.
std::vector<Interval> disjoint(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval &a, const Interval &b) { return a.start < b.start; });
  std::vector<Interval> merged;
  double until = -1;
  for (Interval interval : intervals) {
    interval.start = std::max(interval.start, until);
    if (interval.finish <= interval.start)
      continue;
    until = interval.finish;
    merged.push_back(interval);
  }
  return merged;
}

double total(const std::vector<Interval> &intervals) {
  double sum = 0;
  for (const Interval &interval : intervals)
    sum += interval.finish - interval.start;
  return sum;
}

/// What of an interval lies beside none of the others, which are sorted and disjoint.
double bareOf(const Interval &interval, const std::vector<Interval> &others) {
  double hidden = 0;
  for (auto other = std::partition_point(
           others.begin(), others.end(),
           [&](const Interval &each) { return each.finish <= interval.start; });
       other != others.end() && other->start < interval.finish; ++other)
    hidden += std::min(other->finish, interval.finish) - std::max(other->start, interval.start);
  return std::max(0.0, interval.finish - interval.start - hidden);
}

} // namespace

/// What the ranks that are looked at spend their time on.
void Simulation::measure(Outcome &outcome) const {
  std::map<std::pair<uint32_t, uint32_t>, double> exposedBy;
  const double share = 1 / double(observed.size());
  for (size_t i = 0; i < observed.size(); ++i) {
    const std::vector<Interval> computing = disjoint(computed[i]), sending = disjoint(sent[i]);
    double exposed = 0;
    for (const Interval &interval : sending) {
      const double bare = bareOf(interval, computing);
      exposed += bare;
      const Node &node = nodes[interval.node];
      exposedBy[{node.program, node.command}] += share * bare;
    }
    const double window = endOf(observed[i]) - windowStart[i], busy = total(computing);
    outcome.computing += share * busy;
    outcome.communicating += share * total(sending);
    outcome.exposed += share * exposed;
    outcome.idle += share * std::max(0.0, window - busy - exposed);
    if (settings.isDetailed && shown.count(i))
      for (const std::vector<Interval> *intervals : {&computed[i], &sent[i], &transferred[i]})
        for (const Interval &interval : *intervals)
          if (interval.node >= firstDetailed) {
            const Node &node = nodes[interval.node];
            // What the step before it has uploaded is shown where the one behind it will.
            const bool isEarly =
                node.transfer == Transfer::Upload && interval.start < detailedStart[observed[i]];
            const double origin = detailedStart[observed[0]] -
                                  (isEarly ? endOf(observed[i]) - detailedStart[observed[i]] : 0);
            outcome.spans.push_back({int64_t(observed[i]), node.program, node.command,
                                     interval.start - origin, interval.finish - origin,
                                     node.transfer});
          }
  }
  measureCopies(outcome);
  if (!settings.isDetailed)
    return;
  for (auto [at, seconds] : exposedBy)
    if (seconds > 0)
      outcome.exposedBy.push_back({&plan.programs[at.first].commands[at.second], seconds});
  std::stable_sort(outcome.exposedBy.begin(), outcome.exposedBy.end(),
                   [](const Share &a, const Share &b) { return a.seconds > b.seconds; });
}

/// The copies of the first rank that is looked at.
void Simulation::measureCopies(Outcome &outcome) const {
  std::vector<Interval> copying, other;
  for (const Interval &interval : computed[0]) {
    const Node &node = nodes[interval.node];
    const Command *command = node.transfer == Transfer::None
                                 ? &plan.programs[node.program].commands[node.command]
                                 : nullptr;
    const bool isCopy = command && plan::isCopy(*command);
    (isCopy ? copying : other).push_back(interval);
    if (isCopy) {
      outcome.onDevice.seconds += interval.finish - interval.start;
      outcome.onDevice.bytes += plan::workOf(plan, *command).bytes;
    }
  }
  other = disjoint(std::move(other));
  for (const Interval &interval : copying)
    outcome.onDevice.exposed += bareOf(interval, other);
}

/// From the command that ends last back to what let each start.
void Simulation::findPath(Outcome &outcome) const {
  size_t rank = 0;
  for (size_t other = 1; other < ranks; ++other)
    if (endOf(other) > endOf(rank))
      rank = other;
  uint32_t node = lastOn(rank);
  while (node != noNode) {
    const Node &here = nodes[node];
    const size_t at = (node - firstDetailed) * ranks;
    const double finish = finishes[at + rank];
    if (here.isCollective)
      rank = here.last[setOf(here.ranks, rank)];
    node = befores[at + rank];
    const double start =
        node == noNode ? detailedStart[rank] : finishes[(node - firstDetailed) * ranks + rank];
    outcome.path.push_back({here.transfer == Transfer::None
                                ? &plan.programs[here.program].commands[here.command]
                                : nullptr,
                            finish - start, here.transfer});
  }
  std::reverse(outcome.path.begin(), outcome.path.end());
}

} // namespace nano::simulate
