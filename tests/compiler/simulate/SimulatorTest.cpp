// Plans of a few commands, whose times on ranks and streams are computed by hand.
#include "compiler/simulate/Simulator.h"

#include <gtest/gtest.h>

#include <map>

using namespace nano;
using namespace nano::simulate;

namespace {

Settings settingsOf(int64_t world, std::vector<std::pair<int64_t, double>> stragglers = {},
                    double jitter = 0, uint64_t seed = 0) {
  Settings settings;
  settings.world = world;
  settings.stragglers = std::move(stragglers);
  settings.jitter = jitter;
  settings.seed = seed;
  settings.isDetailed = true;
  return settings;
}

/// A plan and its costs, written together.
class Steps {
public:
  Steps() {
    plan.training.seqLen = 1;
    plan.training.globalBatch = 4;
    plan.training.phases = {{"first", "next", "last", "update"}};
  }

  void program(const std::string &name) {
    plan.programs.push_back({name, {}, 2, 8});
    costs.emplace_back();
  }
  /// A command of the last program, named for the tests' convenience by its label.
  void add(const std::string &label, plan::Command::Action action, uint32_t stream, double seconds,
           double gap = 0) {
    plan.programs.back().commands.push_back(
        {std::move(action), stream, label, {"m.cpp", uint32_t(++line)}});
    costs.back().push_back({gap, seconds});
  }
  void work(const std::string &label, double seconds, double gap = 0) {
    add(label, plan::Launch(), 0, seconds, gap);
  }
  void reduce(const std::string &label, double seconds, plan::Ranks ranks = plan::Ranks::All) {
    plan::AllReduce action;
    action.ranks = ranks;
    add(label, action, 1, seconds);
  }
  /// `waiting` goes on when `recorded` has come here.
  void after(uint32_t recorded, uint32_t waiting) {
    add("", plan::RecordEvent{events}, recorded, 0);
    add("", plan::WaitEvent{events++}, waiting, 0);
  }
  Outcome run(const Settings &settings = settingsOf(4)) {
    return simulate::simulate(plan, machine, costs, settings);
  }

  plan::Plan plan;
  Costs costs;
  machine::Machine machine;
  uint32_t events = 0;
  int line = 0;
};

/// a 0–3, then b 3–5 beside the all-reduce r 3–7; the update u waits for all.
Steps overlapping() {
  Steps steps;
  steps.program("last");
  steps.work("a", 3);
  steps.after(0, 1);
  steps.reduce("r", 4);
  steps.work("b", 2);
  steps.program("update");
  steps.work("u", 1);
  return steps;
}

std::vector<std::pair<std::string, double>> named(const std::vector<Share> &shares) {
  std::vector<std::pair<std::string, double>> found;
  for (const Share &share : shares)
    found.emplace_back(share.command->label, share.seconds);
  return found;
}
using Named = std::vector<std::pair<std::string, double>>;

/// (start, finish) by rank and label.
std::map<std::pair<int64_t, std::string>, std::pair<double, double>>
timesOf(const Steps &steps, const Outcome &outcome) {
  std::map<std::pair<int64_t, std::string>, std::pair<double, double>> times;
  for (const Span &span : outcome.spans)
    times[{span.rank, steps.plan.programs[span.program].commands[span.command].label}] = {
        span.start, span.finish};
  return times;
}
using Times = std::pair<double, double>;

TEST(Simulator, CommunicationHidesBehindComputation) {
  Steps steps = overlapping();
  Outcome outcome = steps.run();
  EXPECT_DOUBLE_EQ(outcome.step, 8);
  EXPECT_DOUBLE_EQ(outcome.computing, 6);
  EXPECT_DOUBLE_EQ(outcome.communicating, 4);
  EXPECT_DOUBLE_EQ(outcome.exposed, 2);
  EXPECT_DOUBLE_EQ(outcome.idle, 0);
  EXPECT_EQ(named(outcome.exposedBy), (Named{{"r", 2}}));
  EXPECT_EQ(named(outcome.path), (Named{{"a", 3}, {"r", 4}, {"u", 1}}));
  auto times = timesOf(steps, outcome);
  EXPECT_EQ((times[{0, "b"}]), Times(3, 5));
  EXPECT_EQ((times[{0, "r"}]), Times(3, 7));
  EXPECT_EQ((times[{0, "u"}]), Times(7, 8));
}

TEST(Simulator, AStreamWaitsOnlyForEvents) {
  Steps steps;
  steps.program("last");
  steps.work("a", 3);
  steps.after(0, 1);
  steps.reduce("r", 4);
  steps.after(1, 0); // what follows on stream 0 needs r
  steps.work("b", 2);
  steps.reduce("s", 3); // behind r, beside b
  steps.program("update");
  Outcome outcome = steps.run();
  EXPECT_DOUBLE_EQ(outcome.step, 10); // a 0–3, r 3–7, b 7–9, s 7–10
  EXPECT_DOUBLE_EQ(outcome.exposed, 5);
  EXPECT_EQ(named(outcome.exposedBy), (Named{{"r", 4}, {"s", 1}}));
  EXPECT_EQ(named(outcome.path), (Named{{"a", 3}, {"r", 4}, {"s", 3}}));
}

TEST(Simulator, GapsAreIdle) {
  Steps steps;
  steps.machine.launch = 0.5;
  steps.machine.graphNode = 0.25; // so that a program's start costs a launch
  steps.program("last");
  steps.work("a", 3, 0.25);
  steps.work("b", 2, 0.25);
  steps.program("update");
  steps.work("u", 1, 0.25);
  Outcome outcome = steps.run();
  EXPECT_DOUBLE_EQ(outcome.step, 6 + 3 * 0.25 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(outcome.computing, 6);
  EXPECT_DOUBLE_EQ(outcome.idle, 1.75);
  EXPECT_DOUBLE_EQ(outcome.exposed, 0);
}

TEST(Simulator, CollectivesSlowWhatRunsBesideThem) {
  Steps steps = overlapping();
  steps.machine.besideCollectives = 2;
  Outcome outcome = steps.run();
  auto times = timesOf(steps, outcome);
  EXPECT_EQ((times[{0, "b"}]), Times(3, 7)); // all of it beside r
  EXPECT_DOUBLE_EQ(outcome.exposed, 0);
  EXPECT_DOUBLE_EQ(outcome.step, 8);
  // b of 3 s: 4 s beside r do 2 of them, 1 is left.
  steps.costs[0].back().seconds = 3;
  EXPECT_DOUBLE_EQ(steps.run().step, 9);
}

/// Wherever they stand in the program; but in one that records an event twice, whose order is kept.
TEST(Simulator, CollectivesSlowWhatStandsBeforeThem) {
  Steps steps;
  steps.machine.besideCollectives = 2;
  steps.program("last");
  steps.work("a", 3);
  steps.add("", plan::RecordEvent{0}, 0, 0);
  steps.work("b", 2);
  steps.work("c", 1);
  steps.add("", plan::WaitEvent{0}, 1, 0);
  steps.reduce("r", 5);
  steps.add("", plan::RecordEvent{1}, 1, 0);
  steps.add("", plan::WaitEvent{1}, 0, 0);
  steps.work("d", 1);
  steps.program("update");
  Outcome outcome = steps.run();
  auto times = timesOf(steps, outcome);
  EXPECT_EQ((times[{0, "r"}]), Times(3, 8));
  EXPECT_EQ((times[{0, "b"}]), Times(3, 7));
  EXPECT_EQ((times[{0, "c"}]), Times(7, 8.5)); // half of it beside r
  EXPECT_EQ((times[{0, "d"}]), Times(8.5, 9.5));
  EXPECT_DOUBLE_EQ(outcome.exposed, 0);
  for (plan::Command &command : steps.plan.programs[0].commands) {
    if (auto *record = std::get_if<plan::RecordEvent>(&command.action))
      record->event = 0;
    if (auto *wait = std::get_if<plan::WaitEvent>(&command.action))
      wait->event = 0;
  }
  EXPECT_EQ((timesOf(steps, steps.run())[{0, "b"}]), Times(3, 5));
}

TEST(Simulator, StreamsShareTheMemory) {
  Steps steps;
  steps.program("last");
  steps.plan.programs.back().streams = 3;
  steps.add("c", plan::Copy{plan::DType::F32, {}, {}, 8}, 2, 4);
  steps.costs[0].back().memory = 1;
  steps.work("a", 10);
  steps.program("update");
  auto stepOf = [&](double memory) {
    steps.costs[0].back().memory = memory;
    return steps.run().step;
  };
  EXPECT_DOUBLE_EQ(stepOf(0), 10);
  EXPECT_DOUBLE_EQ(stepOf(0.5), 12); // 4 s beside the copy do 2
  EXPECT_DOUBLE_EQ(stepOf(1), 14);
  const Outcome outcome = steps.run();
  EXPECT_DOUBLE_EQ(outcome.onDevice.bytes, 64); // read and written
  EXPECT_DOUBLE_EQ(outcome.onDevice.seconds, 4);
  EXPECT_DOUBLE_EQ(outcome.onDevice.exposed, 0);
  // Of commands that stand the other way round the copy waits: a 0–10, c 10–14.
  std::swap(steps.plan.programs[0].commands[0], steps.plan.programs[0].commands[1]);
  std::swap(steps.costs[0][0], steps.costs[0][1]);
  EXPECT_DOUBLE_EQ(steps.run().step, 14);
  EXPECT_EQ((timesOf(steps, steps.run())[{0, "a"}]), Times(0, 10));
}

/// Two micro-batches of 10 s and an update of 9 s; tokens and targets of 20 bytes, scalars of 10, a
/// loss of 4; 10 bytes a second from and to the host, behind a latency of one second, and 10 bytes
/// a second read or written on the device.
Steps copying() {
  Steps steps;
  for (const char *name : {"first", "last", "update"}) {
    steps.program(name);
    steps.work(name, name == std::string("update") ? 9 : 10);
  }
  for (uint64_t bytes : {10, 20, 20, 4})
    steps.plan.buffers.push_back({"", 0, bytes, plan::DType::F32, {}, {}});
  steps.plan.scalarBuffer = 0;
  steps.plan.training.tokensBuffer = 1;
  steps.plan.training.targetsBuffer = 2;
  steps.plan.training.lossBuffer = 3;
  steps.plan.training.globalBatch = 2;
  steps.machine.memory.points = {{1, 10}};
  steps.machine.host = {1, 10};
  return steps;
}

double total(const std::vector<Share> &shares) {
  double sum = 0;
  for (const Share &share : shares)
    sum += share.seconds;
  return sum;
}

TEST(Simulator, BatchesAreUploadedBesideTheProgramBefore) {
  Steps steps = copying();
  const Outcome outcome = steps.run(settingsOf(1));
  // Scalars, tokens and targets are up 2, 5 and 8 s after the update's start, and placed behind it
  // in 2 + 4 + 4; 10 of the first; 1.4 until its loss is back; the next batch, up 6 s after the
  // first's start, is placed in 8; 10 of the last; 1.4; 9 of the update.
  EXPECT_NEAR(outcome.step, 10 + 10 + 1.4 + 8 + 10 + 1.4 + 9, 1e-9);
  EXPECT_DOUBLE_EQ(outcome.computing, 10 + 10 + 9 + 18);
  EXPECT_DOUBLE_EQ(outcome.toDevice.bytes, 10 + 4 * 20);
  EXPECT_DOUBLE_EQ(outcome.toDevice.seconds, 2 + 4 * 3);
  EXPECT_NEAR(outcome.toDevice.exposed, 18, 1e-9); // placing alone
  EXPECT_DOUBLE_EQ(outcome.toHost.bytes, 8);
  EXPECT_DOUBLE_EQ(outcome.toHost.seconds, 2.8);
  EXPECT_DOUBLE_EQ(outcome.toHost.exposed, 2.8);
  EXPECT_NEAR(total(outcome.path), outcome.step, 1e-9);
  // The step shows the next one's first uploads, beside its update.
  std::vector<Times> uploads;
  for (const Span &span : outcome.spans)
    if (span.transfer == Transfer::Upload)
      uploads.emplace_back(span.start, span.finish);
  const double update = outcome.step - 9;
  const std::vector<Times> wanted = {
      {update, update + 2}, {update + 2, update + 5}, {update + 5, update + 8}, {10, 13}, {13, 16}};
  ASSERT_EQ(uploads.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(uploads[i].first, wanted[i].first, 1e-9) << i;
    EXPECT_NEAR(uploads[i].second, wanted[i].second, 1e-9) << i;
  }
}

TEST(Simulator, OneProgramForAllMicroBatches) {
  Steps steps = copying();
  const double step = steps.run(settingsOf(1)).step;
  steps.plan.training.phases[0].last = "first";
  EXPECT_NEAR(steps.run(settingsOf(1)).step, step, 1e-9);
}

TEST(Simulator, TheHostWaitsForTheLossBeforeItUploads) {
  Steps steps = copying();
  steps.plan.training.phases[0].update = "";
  const Outcome outcome = steps.run(settingsOf(1));
  // The step's first uploads begin with it: 2 s for the scalars, placed in 2; one second later the
  // tokens are there.
  EXPECT_NEAR(outcome.step, 2 + 2 + 1 + 4 + 4 + 10 + 1.4 + 8 + 10 + 1.4, 1e-9);
  EXPECT_NEAR(outcome.toDevice.exposed, 3 + 18, 1e-9);
  EXPECT_NEAR(total(outcome.path), outcome.step, 1e-9);
}

TEST(Simulator, AHostThatDoesOneThingAtATimeWritesInBetween) {
  Steps steps = copying();
  steps.machine.oneAtATime = true;
  const Outcome outcome = steps.run(settingsOf(1));
  EXPECT_NEAR(outcome.step, 8 + 10 + 1.4 + 6 + 10 + 1.4 + 9, 1e-9);
  EXPECT_DOUBLE_EQ(outcome.computing, 29);
  EXPECT_NEAR(outcome.toDevice.exposed, 14, 1e-9);
}

TEST(Simulator, AllWaitForTheStraggler) {
  Steps steps = overlapping();
  Outcome outcome = steps.run(settingsOf(4, {{2, 1.5}}));
  // Rank 2: a 4.5, r 4 beside b 3, u 1.5. The others start a step half a second before it and wait.
  EXPECT_DOUBLE_EQ(outcome.step, 10);
  EXPECT_EQ(named(outcome.path), (Named{{"a", 4.5}, {"r", 4}, {"u", 1.5}}));
  auto times = timesOf(steps, outcome);
  const double from = times[{2, "a"}].first;
  EXPECT_EQ((times[{2, "r"}]), Times(from + 4.5, from + 8.5));
  EXPECT_EQ((times[{0, "r"}]), Times(from + 2.5, from + 8.5));
  // Of the others' 6 s of r, 2 are hidden by b; of rank 2's 4 s, 3.
  EXPECT_DOUBLE_EQ(outcome.exposed, (3 * 4 + 1) / 4.0);
}

TEST(Simulator, OnlyMembersWait) {
  Steps steps;
  steps.plan.group = 2;
  steps.program("last");
  steps.work("a", 1);
  steps.after(0, 1);
  steps.reduce("group", 1, plan::Ranks::Group);
  steps.program("update");
  auto times = timesOf(steps, steps.run(settingsOf(4, {{3, 5}})));
  EXPECT_EQ(times[(std::pair{2, "group"})].second, times[(std::pair{3, "group"})].second);
  EXPECT_LT(times[(std::pair{0, "group"})].second, times[(std::pair{2, "group"})].first + 1);
  EXPECT_EQ(times[(std::pair{0, "group"})].second, times[(std::pair{1, "group"})].second);

  // Ranks 1 and 3.
  steps.plan.programs[0].commands.back().as<plan::AllReduce>()->ranks = plan::Ranks::Peers;
  times = timesOf(steps, steps.run(settingsOf(4, {{3, 5}})));
  EXPECT_EQ(times[(std::pair{1, "group"})].second, times[(std::pair{3, "group"})].second);
  EXPECT_LT(times[(std::pair{0, "group"})].second, times[(std::pair{1, "group"})].second);
  EXPECT_EQ(times[(std::pair{0, "group"})].second, times[(std::pair{2, "group"})].second);
}

TEST(Simulator, MicroBatchesAndPhases) {
  Steps steps;
  double seconds = 1;
  for (const char *name : {"first", "next", "last", "update", "other"}) {
    steps.program(name);
    steps.work(name, seconds);
    seconds *= 2;
  }
  EXPECT_DOUBLE_EQ(steps.run().step, 4 + 8); // one micro-batch of a rank
  steps.plan.training.globalBatch = 8;
  EXPECT_DOUBLE_EQ(steps.run().step, 1 + 4 + 8);
  steps.plan.training.globalBatch = 20;
  EXPECT_DOUBLE_EQ(steps.run().step, 1 + 3 * 2 + 4 + 8);
  steps.plan.training.phases.push_back({"first", "next", "last", "other"});
  EXPECT_DOUBLE_EQ(steps.run().step, 1 + 3 * 2 + 4 + (8 + 16) / 2.0);
}

TEST(Simulator, OneAtATimeKeepsTheOrderOfTheProgram) {
  Steps steps = overlapping();
  steps.machine.oneAtATime = true;
  Outcome outcome = steps.run();
  EXPECT_DOUBLE_EQ(outcome.step, 10);
  EXPECT_DOUBLE_EQ(outcome.exposed, 4);
  EXPECT_EQ(named(outcome.path), (Named{{"a", 3}, {"r", 4}, {"b", 2}, {"u", 1}}));
}

TEST(Simulator, JitterIsSeeded) {
  Steps steps = overlapping();
  double even = steps.run().step;
  auto stepOf = [&](uint64_t seed) { return steps.run(settingsOf(4, {}, 0.5, seed)).step; };
  EXPECT_GT(stepOf(1), even);
  EXPECT_EQ(stepOf(1), stepOf(1));
  EXPECT_NE(stepOf(1), stepOf(2));
  // The slowest of four exponential draws of mean 1 has mean 1 + 1/2 + 1/3 + 1/4: 8 s + 2·2.083 on
  // average; the mean of 8 steps lies around it.
  double sum = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    sum += stepOf(seed);
  EXPECT_NEAR(sum / 100, 8 + 2 * 25.0 / 12, 0.25);
}

TEST(Simulator, RanksThatAreAlikeAreAsOne) {
  Steps steps = overlapping();
  steps.machine.besideCollectives = 1.5;
  Outcome one = steps.run(settingsOf(256));
  Outcome all = steps.run(settingsOf(256, {{7, 1}}));
  EXPECT_DOUBLE_EQ(one.step, all.step);
  EXPECT_NEAR(one.computing, all.computing, 1e-12);
  EXPECT_NEAR(one.exposed, all.exposed, 1e-12);
  EXPECT_NEAR(one.idle, all.idle, 1e-12);
  EXPECT_EQ(named(one.path), named(all.path));
}

TEST(Simulator, ThousandsOfRanks) {
  Steps steps;
  steps.machine.besideCollectives = 1.1;
  steps.plan.group = 8;
  steps.plan.training.globalBatch = 4096;
  steps.program("last");
  for (int i = 0; i < 300; ++i) {
    steps.work("a", 1);
    if (i % 10 == 9) {
      steps.events = 0;
      steps.after(0, 1);
      steps.reduce("r", 2, i % 20 == 9 ? plan::Ranks::Group : plan::Ranks::Peers);
    }
  }
  steps.program("update");
  // Rank 4000 needs 450 s and the last r 2; beside each r but the last 2 s of work take 2.2.
  Outcome outcome = steps.run(settingsOf(4096, {{4000, 1.5}}));
  EXPECT_NEAR(outcome.step, 450 + 29 * (2 - 2 / 1.1) + 2, 1e-6);
}

} // namespace
