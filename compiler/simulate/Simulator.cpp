// Times of commands on ranks by maxima and sums, and what a step is spent on.
#include "compiler/simulate/Simulator.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace nano::simulate {

using plan::Command;

namespace {

struct Interval {
  double start = 0, finish = 0;
  uint32_t node = 0; ///< Simulation::Node
};

/// What happens of a command: with one thing at a time there are no events.
struct Item {
  enum class Kind : uint8_t { Work, Collective, Record, Wait } kind = Kind::Work;
  uint32_t stream = 0, event = 0, command = 0;
  plan::Ranks ranks = plan::Ranks::All;
  Cost cost;
};

constexpr uint32_t noNode = ~uint32_t(0);
constexpr size_t mostObserved = 64, mostShown = 8;

/// A number from (0, 1] that only the arguments decide (splitmix64 of their mixture).
double uniform(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + a * 0xbf58476d1ce4e5b9 + b * 0x94d049bb133111eb;
  for (int round = 0; round < 2; ++round) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
  }
  return double((x >> 11) + 1) * 0x1p-53;
}

class Simulation {
public:
  Simulation(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
             const Settings &settings);
  Outcome run();

private:
  /// An item that takes time, of one execution of a program in the measured cycle.
  struct Node {
    uint32_t program = 0, command = 0;
    bool isCollective = false;
    plan::Ranks ranks = plan::Ranks::All;
    std::vector<uint32_t> last; ///< collective: by set, the rank that came last
  };

  std::vector<Item> itemsOf(const plan::Program &program, const std::vector<Cost> &own) const;
  std::vector<size_t> programsOf(const plan::StepPrograms &step) const;
  void runProgram(size_t program);
  void work(const Item &item, uint32_t node);
  void collective(const Item &item, uint32_t node);
  /// The number of `ranks`' set that a simulated rank is in, and of such sets.
  size_t setOf(plan::Ranks ranks, size_t rank) const;
  size_t setsOf(plan::Ranks ranks) const;
  double slowed(size_t rank, double start, double seconds);
  uint32_t begin(size_t program, const Item &item);
  void end(uint32_t node, size_t rank, double start, double finish, uint32_t before);

  double endOf(size_t rank) const {
    return *std::max_element(freeOf(rank), freeOf(rank) + streams);
  }
  const double *freeOf(size_t rank) const { return &free[rank * streams]; }
  uint32_t lastOn(size_t rank) const;
  void measure(Outcome &outcome) const;
  void findPath(Outcome &outcome) const;

  const plan::Plan &plan;
  const machine::Machine &machine;
  const Settings &settings;
  std::vector<std::vector<Item>> items; ///< by program
  size_t ranks = 1;                     ///< simulated; one stands for all when they are alike
  size_t streams = 1, events = 0;
  std::vector<double> factor;      ///< by rank
  std::vector<double> free;        ///< by rank and stream: when it is done with what it has
  std::vector<uint32_t> freeBy;    ///< the node that it is done with then
  std::vector<double> reached;     ///< by rank and event
  std::vector<uint32_t> reachedBy; ///< as freeBy
  std::vector<std::vector<Interval>> links; ///< by rank: collectives that may slow what comes
  std::vector<double> ready;                ///< by rank: when it has reached a collective
  uint64_t collectives = 0;                 ///< executed so far: jitter's counter

  bool isMeasuring = false;
  std::vector<size_t> observed;                      ///< ranks, ascending
  std::vector<int32_t> observedAt;                   ///< by rank, its index there or −1
  std::set<size_t> shown;                            ///< of those, by index: in the spans
  std::vector<double> windowStart;                   ///< by observed rank
  std::vector<std::vector<Interval>> computed, sent; ///< by observed rank
  std::vector<Node> nodes;

  // The last cycle, when details are wanted.
  bool isDetailed = false;
  size_t firstDetailed = 0;          ///< node
  std::vector<double> detailedStart; ///< by rank
  std::vector<double> finishes;      ///< by node from there on, and rank
  std::vector<uint32_t> befores;     ///< as finishes: the node that let this one start, or noNode
};

Simulation::Simulation(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
                       const Settings &settings)
    : plan(plan), machine(machine), settings(settings) {
  const bool isUniform = settings.stragglers.empty() && settings.jitter == 0;
  ranks = isUniform ? 1 : size_t(settings.world);
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    if (!machine.oneAtATime)
      streams = std::max<size_t>(streams, plan.programs[i].streams);
    events = std::max<size_t>(events, plan.programs[i].events);
    items.push_back(itemsOf(plan.programs[i], costs[i]));
  }
  factor.assign(ranks, 1);
  for (auto [rank, times] : settings.stragglers)
    factor[size_t(rank)] = times;
  free.assign(ranks * streams, 0);
  freeBy.assign(ranks * streams, noNode);
  reached.assign(ranks * events, 0);
  reachedBy.assign(ranks * events, noNode);
  links.resize(ranks);
  ready.resize(ranks);
  for (auto [rank, times] : settings.stragglers)
    if (observed.size() < mostObserved / 2)
      observed.push_back(size_t(rank));
  for (size_t i = 0; i < mostObserved && observed.size() < mostObserved; ++i)
    observed.push_back(i * std::max<size_t>(ranks, mostObserved) / mostObserved);
  std::sort(observed.begin(), observed.end());
  observed.erase(std::unique(observed.begin(), observed.end()), observed.end());
  while (observed.back() >= ranks)
    observed.pop_back();
  observedAt.assign(ranks, -1);
  for (size_t i = 0; i < observed.size(); ++i)
    observedAt[observed[i]] = int32_t(i);
  windowStart.resize(observed.size());
  computed.resize(observed.size());
  sent.resize(observed.size());
  for (size_t i = 0; i < observed.size() && shown.size() < mostShown / 2; ++i)
    if (factor[observed[i]] != 1)
      shown.insert(i);
  for (size_t i = 0; i < observed.size() && shown.size() < mostShown; ++i)
    shown.insert(i);
}

std::vector<Item> Simulation::itemsOf(const plan::Program &program,
                                      const std::vector<Cost> &own) const {
  std::vector<Item> items;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    Item item;
    item.command = uint32_t(i);
    item.stream = machine.oneAtATime ? 0 : command.stream;
    item.event = command.event;
    item.ranks = command.ranks;
    item.cost = own[i];
    if (command.kind == Command::Kind::RecordEvent)
      item.kind = Item::Kind::Record;
    else if (command.kind == Command::Kind::WaitEvent)
      item.kind = Item::Kind::Wait;
    else if (isCollective(command))
      item.kind = Item::Kind::Collective;
    if (!machine.oneAtATime || item.kind == Item::Kind::Work || item.kind == Item::Kind::Collective)
      items.push_back(item);
  }
  return items;
}

/// The programs that a step runs, in order, as indices.
std::vector<size_t> Simulation::programsOf(const plan::StepPrograms &step) const {
  std::vector<size_t> found;
  auto add = [&](const std::string &name) {
    for (size_t i = 0; i < plan.programs.size(); ++i)
      if (plan.programs[i].name == name)
        found.push_back(i);
  };
  const plan::Training &training = plan.training;
  const int64_t batches = training.globalBatch / (training.seqLen * settings.world);
  if (batches > 1)
    add(step.first);
  for (int64_t i = 2; i < batches; ++i)
    add(step.next);
  add(step.last);
  add(step.update);
  return found;
}

size_t Simulation::setOf(plan::Ranks set, size_t rank) const {
  switch (set) {
  case plan::Ranks::All:
    return 0;
  case plan::Ranks::Group:
    return rank / size_t(plan.group);
  case plan::Ranks::Peers:
    return rank % size_t(plan.group);
  }
  return 0;
}

size_t Simulation::setsOf(plan::Ranks set) const { return setOf(set, ranks - 1) + 1; }

uint32_t Simulation::lastOn(size_t rank) const {
  const double *own = freeOf(rank);
  return freeBy[rank * streams + size_t(std::max_element(own, own + streams) - own)];
}

/// When work of that many seconds ends that starts then: collectives of the rank slow it. Those
/// that no stream can meet any more are forgotten.
double Simulation::slowed(size_t rank, double start, double seconds) {
  std::vector<Interval> &own = links[rank];
  const double *streamEnds = freeOf(rank);
  double oldest = *std::min_element(streamEnds, streamEnds + streams);
  if (!own.empty() && own.front().finish <= oldest)
    own.erase(own.begin(), std::find_if(own.begin(), own.end(), [&](const Interval &interval) {
                return interval.finish > oldest;
              }));
  double now = start;
  for (const Interval &interval : own) {
    if (interval.finish <= now)
      continue;
    double quiet = std::max(0.0, interval.start - now);
    if (seconds <= quiet)
      return now + seconds;
    seconds -= quiet;
    now = std::max(now, interval.start);
    double beside = (interval.finish - now) / machine.besideCollectives;
    if (seconds <= beside)
      return now + seconds * machine.besideCollectives;
    seconds -= beside;
    now = interval.finish;
  }
  return now + seconds;
}

uint32_t Simulation::begin(size_t program, const Item &item) {
  if (!isMeasuring)
    return noNode;
  Node node;
  node.program = uint32_t(program);
  node.command = item.command;
  node.isCollective = item.kind == Item::Kind::Collective;
  node.ranks = item.ranks;
  nodes.push_back(std::move(node));
  if (isDetailed) {
    finishes.resize((nodes.size() - firstDetailed) * ranks);
    befores.resize(finishes.size());
  }
  return uint32_t(nodes.size() - 1);
}

void Simulation::end(uint32_t node, size_t rank, double start, double finish, uint32_t before) {
  if (node == noNode)
    return;
  if (observedAt[rank] >= 0)
    (nodes[node].isCollective ? sent : computed)[size_t(observedAt[rank])].push_back(
        {start, finish, node});
  if (isDetailed) {
    finishes[(node - firstDetailed) * ranks + rank] = finish;
    befores[(node - firstDetailed) * ranks + rank] = before;
  }
}

void Simulation::work(const Item &item, uint32_t node) {
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t at = rank * streams + item.stream;
    const double start = free[at] + item.cost.gap;
    const double seconds = item.cost.seconds * factor[rank];
    const double finish = links[rank].empty() ? start + seconds : slowed(rank, start, seconds);
    end(node, rank, start, finish, freeBy[at]);
    free[at] = finish;
    freeBy[at] = node;
  }
}

void Simulation::collective(const Item &item, uint32_t node) {
  const size_t sets = setsOf(item.ranks);
  std::vector<double> latest(sets, -1), slowest(sets, 0);
  std::vector<uint32_t> last(sets, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t set = setOf(item.ranks, rank);
    ready[rank] = free[rank * streams + item.stream] + item.cost.gap;
    if (ready[rank] > latest[set]) {
      latest[set] = ready[rank];
      last[set] = uint32_t(rank);
    }
    if (settings.jitter > 0)
      slowest[set] = std::max(slowest[set], -std::log(uniform(settings.seed, collectives, rank)));
  }
  ++collectives;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t set = setOf(item.ranks, rank), at = rank * streams + item.stream;
    const double finish = latest[set] + item.cost.seconds * (1 + settings.jitter * slowest[set]);
    if (machine.besideCollectives > 1)
      links[rank].push_back({ready[rank], finish, node});
    end(node, rank, ready[rank], finish, freeBy[at]);
    free[at] = finish;
    freeBy[at] = node;
  }
  if (node != noNode)
    nodes[node].last = std::move(last);
}

void Simulation::runProgram(size_t program) {
  for (size_t rank = 0; rank < ranks; ++rank) {
    const double start = endOf(rank) + (machine.graphNode > 0 ? machine.launch : 0);
    const size_t by = lastOn(rank);
    std::fill_n(&free[rank * streams], streams, start);
    std::fill_n(&freeBy[rank * streams], streams, by);
    links[rank].clear();
  }
  for (const Item &item : items[program])
    switch (item.kind) {
    case Item::Kind::Work:
      work(item, begin(program, item));
      break;
    case Item::Kind::Collective:
      collective(item, begin(program, item));
      break;
    case Item::Kind::Record:
      for (size_t rank = 0; rank < ranks; ++rank) {
        reached[rank * events + item.event] = free[rank * streams + item.stream];
        reachedBy[rank * events + item.event] = freeBy[rank * streams + item.stream];
      }
      break;
    case Item::Kind::Wait:
      for (size_t rank = 0; rank < ranks; ++rank) {
        const size_t at = rank * streams + item.stream, event = rank * events + item.event;
        if (reached[event] > free[at]) {
          free[at] = reached[event];
          freeBy[at] = reachedBy[event];
        }
      }
      break;
    }
}

Outcome Simulation::run() {
  const std::vector<plan::StepPrograms> &phases = plan.training.phases;
  const size_t cycles = settings.jitter > 0 ? 8 : 1;
  double started = 0;
  for (size_t cycle = 0; cycle <= cycles; ++cycle) {
    if (cycle == 1) {
      isMeasuring = true;
      started = *std::max_element(free.begin(), free.end());
      for (size_t i = 0; i < observed.size(); ++i)
        windowStart[i] = endOf(observed[i]);
    }
    if (cycle == cycles && settings.isDetailed) {
      isDetailed = true;
      firstDetailed = nodes.size();
      std::fill(freeBy.begin(), freeBy.end(), noNode);
      for (size_t rank = 0; rank < ranks; ++rank)
        detailedStart.push_back(endOf(rank));
    }
    for (const plan::StepPrograms &phase : phases)
      for (size_t program : programsOf(phase))
        runProgram(program);
  }
  const double steps = double(cycles * phases.size());
  Outcome outcome;
  outcome.step = (*std::max_element(free.begin(), free.end()) - started) / steps;
  measure(outcome);
  if (settings.isDetailed)
    findPath(outcome);
  for (double *sum : {&outcome.computing, &outcome.communicating, &outcome.exposed, &outcome.idle})
    *sum /= steps;
  for (Share &share : outcome.exposedBy)
    share.seconds /= steps;
  for (Share &share : outcome.path)
    share.seconds /= double(phases.size());
  return outcome;
}

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

/// What the ranks that are looked at spend their time on.
void Simulation::measure(Outcome &outcome) const {
  std::map<std::pair<uint32_t, uint32_t>, double> exposedBy;
  const double share = 1 / double(observed.size());
  for (size_t i = 0; i < observed.size(); ++i) {
    const std::vector<Interval> computing = disjoint(computed[i]), sending = disjoint(sent[i]);
    double exposed = 0;
    size_t next = 0; // the first that may still overlap
    for (const Interval &interval : sending) {
      double hidden = 0;
      while (next < computing.size() && computing[next].finish <= interval.start)
        ++next;
      for (size_t j = next; j < computing.size() && computing[j].start < interval.finish; ++j)
        hidden += std::min(computing[j].finish, interval.finish) -
                  std::max(computing[j].start, interval.start);
      const double bare = std::max(0.0, interval.finish - interval.start - hidden);
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
      for (const std::vector<Interval> *intervals : {&computed[i], &sent[i]})
        for (const Interval &interval : *intervals)
          if (interval.node >= firstDetailed)
            outcome.spans.push_back({int64_t(observed[i]), nodes[interval.node].program,
                                     nodes[interval.node].command,
                                     interval.start - detailedStart[observed[0]],
                                     interval.finish - detailedStart[observed[0]]});
  }
  if (!settings.isDetailed)
    return;
  for (auto [at, seconds] : exposedBy)
    if (seconds > 0)
      outcome.exposedBy.push_back({&plan.programs[at.first].commands[at.second], seconds});
  std::stable_sort(outcome.exposedBy.begin(), outcome.exposedBy.end(),
                   [](const Share &a, const Share &b) { return a.seconds > b.seconds; });
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
    outcome.path.push_back({&plan.programs[here.program].commands[here.command], finish - start});
  }
  std::reverse(outcome.path.begin(), outcome.path.end());
}

} // namespace

Outcome simulate(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
                 const Settings &settings) {
  return Simulation(plan, machine, costs, settings).run();
}

} // namespace nano::simulate
