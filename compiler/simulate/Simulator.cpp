// Times of commands on ranks by maxima and sums.
#include "compiler/simulate/Simulation.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>

namespace nano::simulate {

using plan::Command;

namespace {

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

} // namespace

Simulation::Simulation(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
                       const Settings &settings)
    : plan(plan), training(settings.stage ? *settings.stage : plan.training), machine(machine),
      settings(settings) {
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
  busy.resize(ranks * streams);
  uploadFrom.assign(ranks, 0);
  uploadFromBy.assign(ranks, noNode);
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
  transferred.resize(observed.size());
  for (size_t i = 0; i < observed.size() && shown.size() < mostShown / 2; ++i)
    if (factor[observed[i]] != 1)
      shown.insert(i);
  for (size_t i = 0; i < observed.size() && shown.size() < mostShown; ++i)
    shown.insert(i);
}

/// The items with those of streams that have collectives as early as the events that they wait for
/// allow: whatever computes while a collective runs comes behind it, and is slowed by it. As they
/// are where an event is recorded twice, so that its waits have an order.
static std::vector<Item> withEarlyCollectives(const std::vector<Item> &items) {
  std::map<uint32_t, std::deque<Item>> early; // by stream
  std::set<uint32_t> recorded;
  for (const Item &item : items) {
    if (item.kind == Item::Kind::Collective)
      early.try_emplace(item.stream);
    else if (item.kind == Item::Kind::Record && !recorded.insert(item.event).second)
      return items;
  }
  for (const Item &item : items)
    if (auto stream = early.find(item.stream); stream != early.end())
      stream->second.push_back(item);
  recorded.clear();
  std::vector<Item> order;
  auto put = [&](const Item &item) {
    if (item.kind == Item::Kind::Record)
      recorded.insert(item.event);
    order.push_back(item);
  };
  auto canGo = [&](const std::deque<Item> &next) {
    return !next.empty() &&
           (next.front().kind != Item::Kind::Wait || recorded.count(next.front().event) > 0);
  };
  auto hurry = [&] {
    for (size_t before = order.size() + 1; before != order.size();) {
      before = order.size();
      for (auto &[stream, next] : early)
        for (; canGo(next); next.pop_front())
          put(next.front());
    }
  };
  hurry();
  for (const Item &item : items)
    if (early.count(item.stream) == 0) {
      put(item);
      hurry();
    }
  return order.size() == items.size() ? order : items;
}

std::vector<Item> Simulation::itemsOf(const plan::Program &program,
                                      const std::vector<Cost> &own) const {
  std::vector<Item> items;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    Item item;
    item.command = uint32_t(i);
    item.stream = machine.oneAtATime ? 0 : command.stream;
    item.cost = own[i];
    if (const auto *record = command.as<plan::RecordEvent>()) {
      item.kind = Item::Kind::Record;
      item.event = record->event;
    } else if (const auto *wait = command.as<plan::WaitEvent>()) {
      item.kind = Item::Kind::Wait;
      item.event = wait->event;
    } else if (isCollective(command)) {
      item.kind = Item::Kind::Collective;
      item.ranks = exchangeOf(command)->ranks;
    }
    if (!machine.oneAtATime || item.kind == Item::Kind::Work || item.kind == Item::Kind::Collective)
      items.push_back(item);
  }
  return machine.oneAtATime ? items : withEarlyCollectives(items);
}

/// The programs that a step runs, in order.
std::vector<Simulation::Execution> Simulation::programsOf(const plan::StepPrograms &step) const {
  std::vector<Execution> found;
  auto add = [&](const std::string &name, bool isMicroBatch) {
    Execution execution;
    if (isMicroBatch) {
      if (found.empty())
        execution.uploads.push_back(bytesOf(plan.scalarBuffer));
      for (uint32_t buffer : {training.tokensBuffer, training.targetsBuffer})
        execution.uploads.push_back(bytesOf(buffer));
      for (const plan::Column &column : training.columns)
        execution.uploads.push_back(bytesOf(column.buffer));
      execution.readback = bytesOf(training.lossBuffer);
    }
    for (size_t i = 0; i < plan.programs.size(); ++i)
      if (plan.programs[i].name == name) {
        execution.program = i;
        found.push_back(execution);
      }
  };
  const int64_t batches = training.globalBatch / (training.seqLen * settings.world);
  if (batches > 1)
    add(step.first, true);
  for (int64_t i = 2; i < batches; ++i)
    add(step.next, true);
  add(step.last, true); // may have the name of another one
  if (!found.empty())
    found.back().hostWaits = true;
  add(step.update, false);
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

/// When an item's work of that many seconds ends that starts then: collectives of the rank slow it,
/// and work on other streams by what it takes of the memory. What no stream can meet any more is
/// forgotten.
double Simulation::slowed(size_t rank, const Item &item, double start, double seconds) {
  double oldest = start;
  for (size_t stream = 0; stream < streams; ++stream)
    if (isUsed[stream])
      oldest = std::min(oldest, freeOf(rank)[stream]);
  auto forget = [&](std::vector<Interval> &intervals) {
    if (!intervals.empty() && intervals.front().finish <= oldest)
      intervals.erase(intervals.begin(), std::find_if(intervals.begin(), intervals.end(),
                                                      [&](const Interval &interval) {
                                                        return interval.finish > oldest;
                                                      }));
  };
  forget(links[rank]);
  for (size_t stream = 0; stream < streams; ++stream)
    forget(busy[rank * streams + stream]);
  double now = start, left = seconds;
  while (true) {
    // How fast it goes on now, and until when.
    double rate = 1, until = std::numeric_limits<double>::infinity();
    auto beside = [&](const std::vector<Interval> &intervals, auto rateOf) {
      for (const Interval &interval : intervals) {
        if (interval.finish <= now)
          continue;
        if (interval.start > now) {
          until = std::min(until, interval.start);
          break;
        }
        until = std::min(until, interval.finish);
        rate *= rateOf(interval);
      }
    };
    beside(links[rank], [&](const Interval &) { return 1 / machine.besideCollectives; });
    if (item.cost.memory > 0)
      for (size_t stream = 0; stream < streams; ++stream)
        if (stream != item.stream)
          beside(busy[rank * streams + stream],
                 [&](const Interval &other) { return 1 - item.cost.memory * other.memory; });
    const double done = (until - now) * rate;
    if (rate > 0 && left <= done)
      return now + left / rate;
    left -= done;
    now = until;
  }
}

uint32_t Simulation::begin(size_t program, const Item &item) {
  if (!isMeasuring)
    return noNode;
  Node node;
  node.program = uint32_t(program);
  node.command = item.command;
  node.isCollective = item.kind == Item::Kind::Collective;
  node.ranks = item.ranks;
  return add(std::move(node));
}

uint32_t Simulation::beginTransfer(size_t program, Transfer transfer) {
  if (!isMeasuring)
    return noNode;
  Node node;
  node.program = uint32_t(program);
  node.transfer = transfer;
  return add(std::move(node));
}

uint32_t Simulation::add(Node node) {
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
  const bool isBeside =
      nodes[node].transfer == Transfer::Upload || nodes[node].transfer == Transfer::Readback;
  if (observedAt[rank] >= 0)
    (nodes[node].isCollective ? sent
     : isBeside               ? transferred
                              : computed)[size_t(observedAt[rank])]
        .push_back({start, finish, node});
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
    const bool shares = sharesMemory && item.cost.memory > 0;
    const double finish =
        links[rank].empty() && !shares ? start + seconds : slowed(rank, item, start, seconds);
    if (shares)
      busy[at].push_back({start, finish, node, item.cost.memory});
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

/// Brings a batch to the device while the program before it runs, and then to its buffers. Where a
/// rank does one thing at a time, the host writes it there itself.
void Simulation::upload(const Execution &execution) {
  for (double bytes : execution.uploads) {
    const double seconds = machine.hostCopy(bytes);
    if (seconds <= 0)
      continue;
    const uint32_t up = beginTransfer(execution.program, Transfer::Upload);
    const uint32_t place =
        machine.oneAtATime ? noNode : beginTransfer(execution.program, Transfer::Place);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const bool isInOrder = machine.oneAtATime;
      const double before = endOf(rank), from = isInOrder ? before : uploadFrom[rank];
      const uint32_t last = lastOn(rank);
      end(up, rank, from, from + seconds, isInOrder ? last : uploadFromBy[rank]);
      uploadFrom[rank] = from + seconds;
      uploadFromBy[rank] = up;
      const bool isLate = from + seconds > before;
      double start = std::max(before, from + seconds);
      uint32_t by = isLate ? up : last;
      if (!machine.oneAtATime) {
        start += machine.command();
        const double placed = start + machine.kernel(2 * bytes);
        end(place, rank, start, placed, by);
        start = placed;
        by = place;
      }
      setAll(rank, start, by);
      if (rank == 0 && isMeasuring)
        toDevice.exposed += start - before;
    }
    if (isMeasuring) {
      toDevice.bytes += bytes;
      toDevice.seconds += seconds;
    }
  }
}

/// Brings the loss to the host.
void Simulation::readBack(const Execution &execution) {
  const double seconds = machine.hostCopy(execution.readback);
  const uint32_t node = seconds > 0 ? beginTransfer(execution.program, Transfer::Readback) : noNode;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (seconds > 0) {
      const double start = endOf(rank);
      end(node, rank, start, start + seconds, lastOn(rank));
      setAll(rank, start + seconds, node);
    }
    if (execution.hostWaits) {
      uploadFrom[rank] = std::max(uploadFrom[rank], endOf(rank));
      uploadFromBy[rank] = lastOn(rank);
    }
  }
  if (isMeasuring) {
    toHost.bytes += execution.readback;
    toHost.seconds += seconds;
    toHost.exposed += seconds;
  }
}

void Simulation::run(const Execution &execution) {
  upload(execution);
  // The next batch may be uploaded from here on.
  for (size_t rank = 0; rank < ranks; ++rank)
    if (const double start = endOf(rank); start > uploadFrom[rank]) {
      uploadFrom[rank] = start;
      uploadFromBy[rank] = lastOn(rank);
    }
  runProgram(execution.program);
  if (execution.readback > 0)
    readBack(execution);
}

void Simulation::runProgram(size_t program) {
  isUsed.assign(streams, false);
  for (const Item &item : items[program])
    isUsed[item.stream] = true;
  sharesMemory = false;
  for (const Item &item : items[program])
    sharesMemory |= item.kind == Item::Kind::Work && item.stream > 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    setAll(rank, endOf(rank) + (machine.graphNode > 0 ? machine.launch : 0), lastOn(rank));
    links[rank].clear();
  }
  for (std::vector<Interval> &intervals : busy)
    intervals.clear();
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
  const std::vector<plan::StepPrograms> &phases = training.phases;
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
      std::fill(uploadFromBy.begin(), uploadFromBy.end(), noNode);
      for (size_t rank = 0; rank < ranks; ++rank)
        detailedStart.push_back(endOf(rank));
    }
    for (const plan::StepPrograms &phase : phases)
      for (const Execution &execution : programsOf(phase))
        run(execution);
  }
  const double steps = double(cycles * phases.size());
  Outcome outcome;
  outcome.step = (*std::max_element(free.begin(), free.end()) - started) / steps;
  measure(outcome);
  if (settings.isDetailed)
    findPath(outcome);
  outcome.toDevice = toDevice;
  outcome.toHost = toHost;
  for (double *sum : {&outcome.computing, &outcome.communicating, &outcome.exposed, &outcome.idle})
    *sum /= steps;
  for (Copying *copying : {&outcome.onDevice, &outcome.toDevice, &outcome.toHost})
    for (double *sum : {&copying->bytes, &copying->seconds, &copying->exposed})
      *sum /= steps;
  for (Share &share : outcome.exposedBy)
    share.seconds /= steps;
  for (Share &share : outcome.path)
    share.seconds /= double(phases.size());
  return outcome;
}

Outcome simulate(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
                 const Settings &settings) {
  return Simulation(plan, machine, costs, settings).run();
}

} // namespace nano::simulate
