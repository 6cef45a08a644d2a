// Random plans against a second simulator that knows no order of programs: ranks' streams advance
// in a random order, each as far as it can, until all are done.
#include "compiler/simulate/Simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace nano;
using namespace nano::simulate;
using plan::Command;

namespace {

struct Case {
  plan::Plan plan;
  Costs costs;
  machine::Machine machine;
  Settings settings;
};

Case randomCase(std::mt19937 &random) {
  auto below = [&](int bound) { return int(random() % unsigned(bound)); };
  Case result;
  const int64_t worlds[] = {1, 2, 4, 6, 8, 12};
  const int64_t world = result.settings.world = worlds[below(6)];
  do
    result.plan.group = 1 + below(int(world));
  while (world % result.plan.group != 0);
  result.plan.training.seqLen = 1;
  result.plan.training.globalBatch = world * (1 + below(3));
  result.plan.training.phases = {{"first", "next", "last", "update"}};
  result.machine.graphNode = 1;
  result.machine.launch = below(3);
  for (const char *name : {"first", "next", "last", "update"}) {
    plan::Program program;
    program.name = name;
    program.streams = 1 + uint32_t(below(3));
    std::vector<Cost> &costs = result.costs.emplace_back();
    const int count = below(30);
    for (int i = 0; i < count; ++i) {
      Command command;
      command.stream = uint32_t(below(int(program.streams)));
      Cost cost{double(below(2)), double(below(10))};
      switch (below(4)) {
      case 0:
        command.action = plan::RecordEvent{program.events++};
        cost = {};
        break;
      case 1:
        if (program.events == 0)
          break;
        command.action = plan::WaitEvent{uint32_t(below(int(program.events)))};
        cost = {};
        break;
      case 2:
        command.action.emplace<plan::AllReduce>().ranks = plan::Ranks(below(3));
        break;
      default:
        break;
      }
      program.commands.push_back(command);
      costs.push_back(cost);
    }
    result.plan.programs.push_back(std::move(program));
  }
  for (int i = below(3); i > 0; --i)
    result.settings.stragglers.emplace_back(below(int(world)), 1 + below(3));
  result.settings.isDetailed = true;
  return result;
}

/// (rank, program, command) and when it ended, of the last of the steps.
using Ends = std::map<std::tuple<int64_t, uint32_t, uint32_t>, std::vector<double>>;

class Reference {
public:
  Reference(const Case &given, std::mt19937 &random)
      : plan(given.plan), given(given), random(random), world(size_t(given.settings.world)),
        factor(world, 1), done(world, 0) {
    for (auto [rank, times] : given.settings.stragglers)
      factor[size_t(rank)] = times;
  }

  void step() {
    ends.clear();
    const int64_t batches = plan.training.globalBatch / int64_t(world);
    for (int64_t i = 0; i + 1 < batches; ++i)
      run(i == 0 ? 0 : 1);
    run(2);
    run(3);
  }
  double latest() const { return *std::max_element(done.begin(), done.end()); }

  Ends ends;

private:
  size_t placeOfSet(plan::Ranks ranks, size_t rank) const {
    const auto group = size_t(plan.group);
    return ranks == plan::Ranks::All     ? 0
           : ranks == plan::Ranks::Group ? rank / group
                                         : rank % group;
  }

  void run(uint32_t index) {
    const plan::Program &program = plan.programs[index];
    const size_t streams = program.streams;
    std::vector<std::vector<uint32_t>> queues(streams);
    for (uint32_t i = 0; i < program.commands.size(); ++i)
      queues[program.commands[i].stream].push_back(i);
    std::vector<size_t> at(world * streams, 0);
    std::vector<double> now(world * streams);
    for (size_t rank = 0; rank < world; ++rank)
      for (size_t stream = 0; stream < streams; ++stream)
        now[rank * streams + stream] = done[rank] + given.machine.launch;
    std::map<std::pair<size_t, uint32_t>, double> recorded; // rank, event
    std::map<std::pair<uint32_t, size_t>, std::map<size_t, double>>
        came; // command, set: rank, time
    auto isLeft = [&](size_t row) { return at[row] < queues[row % streams].size(); };
    std::vector<size_t> left;
    while (true) {
      left.clear();
      for (size_t row = 0; row < at.size(); ++row)
        if (isLeft(row))
          left.push_back(row);
      if (left.empty())
        break;
      const size_t row = left[random() % left.size()], rank = row / streams;
      const uint32_t i = queues[row % streams][at[row]];
      const Command &command = program.commands[i];
      const Cost cost = given.costs[index][i];
      if (const auto *record = command.as<plan::RecordEvent>()) {
        recorded[{rank, record->event}] = now[row];
      } else if (const auto *wait = command.as<plan::WaitEvent>()) {
        auto found = recorded.find({rank, wait->event});
        if (found == recorded.end())
          continue;
        now[row] = std::max(now[row], found->second);
      } else if (const auto *reduce = command.as<plan::AllReduce>()) {
        auto &members = came[{i, placeOfSet(reduce->ranks, rank)}];
        members[rank] = now[row] + cost.gap;
        size_t wanted = 0;
        for (size_t other = 0; other < world; ++other)
          wanted += placeOfSet(reduce->ranks, other) == placeOfSet(reduce->ranks, rank);
        if (members.size() < wanted)
          continue;
        double start = 0;
        for (auto [other, time] : members)
          start = std::max(start, time);
        now[row] = start + cost.seconds;
        ends[{int64_t(rank), index, i}].push_back(now[row]);
      } else {
        now[row] += cost.gap + cost.seconds * factor[rank];
        ends[{int64_t(rank), index, i}].push_back(now[row]);
      }
      ++at[row];
    }
    for (size_t row = 0; row < now.size(); ++row)
      done[row / streams] = std::max(done[row / streams], now[row]);
  }

  const plan::Plan &plan;
  const Case &given;
  std::mt19937 &random;
  size_t world;
  std::vector<double> factor, done;
};

TEST(RandomPlans, AgreeWithASimulatorWithoutOrder) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    Case given = randomCase(random);
    Outcome outcome = simulate::simulate(given.plan, given.machine, given.costs, given.settings);
    Reference reference(given, random);
    reference.step();
    const double before = reference.latest();
    reference.step();
    ASSERT_NEAR(outcome.step, reference.latest() - before, 1e-9);
    double path = 0;
    for (const Share &share : outcome.path)
      path += share.seconds;
    // A path ends with the step's last work, behind which programs without any may start; it begins
    // where its first rank does, at the latest with the others.
    ASSERT_GE(path, outcome.step - 4 * given.machine.launch - 1e-9);
    ASSERT_LE(path, reference.latest() + 1e-9);
    Ends found;
    std::set<int64_t> ranks;
    for (const Span &span : outcome.spans) {
      found[{span.rank, span.program, span.command}].push_back(span.finish);
      ranks.insert(span.rank);
    }
    double shift = 0;
    bool isShifted = false;
    for (auto &[key, times] : found) {
      auto wanted = reference.ends.find(key);
      ASSERT_NE(wanted, reference.ends.end());
      std::sort(times.begin(), times.end());
      std::sort(wanted->second.begin(), wanted->second.end());
      ASSERT_EQ(times.size(), wanted->second.size());
      for (size_t j = 0; j < times.size(); ++j) {
        if (!isShifted)
          shift = wanted->second[j] - times[j];
        isShifted = true;
        ASSERT_NEAR(times[j] + shift, wanted->second[j], 1e-9);
      }
    }
    size_t wanted = 0;
    for (const auto &[key, times] : reference.ends)
      wanted += ranks.count(std::get<0>(key));
    ASSERT_EQ(found.size(), wanted);
    const int64_t shown = given.settings.stragglers.empty() ? 1 : given.settings.world;
    if (!reference.ends.empty()) {
      ASSERT_EQ(int64_t(ranks.size()), std::min<int64_t>(shown, 8));
    }
    for (auto [rank, times] : given.settings.stragglers) {
      ASSERT_TRUE(times == 1 || ranks.empty() || ranks.count(rank));
    }
  }
}

} // namespace
