// List scheduling in the order of time, one decision a step.
#include "passes/schedule/ListSchedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

namespace nano::schedule {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// By stream, a place on it: tasks up to there are known to have ended. −1: none is.
using StreamEnds = std::array<int64_t, numStreams>;
constexpr StreamEnds atStart = {-1, -1, -1};

void merge(StreamEnds &clock, const StreamEnds &other) {
  for (unsigned stream = 0; stream < numStreams; ++stream)
    clock[stream] = std::max(clock[stream], other[stream]);
}

class ListScheduler {
public:
  ListScheduler(const TaskGraph &graph, Rule rule, Collectives collectives, int64_t maxBytes)
      : graph(graph), rule(rule), collectives(collectives), maxBytes(maxBytes),
        tails(longestPaths(graph)) {
    const size_t count = graph.tasks.size();
    after.resize(count);
    pending.resize(count);
    ready.resize(count, 0);
    clocks.resize(count, atStart);
    knows.fill(atStart);
    feeds.resize(count, false);
    deferred.resize(count, false);
    born.resize(count, 0);
    storageOf.resize(count);
    usersLeft.resize(graph.storage.size());
    lastUse.resize(graph.storage.size(), atStart);
    order.start.resize(count);
    order.end.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      pending[i] = uint32_t(graph.tasks[i].before.size());
      for (uint32_t earlier : graph.tasks[i].before)
        after[earlier].push_back(i);
      if (graph.tasks[i].stream == computeStream)
        waiting.insert(i);
    }
    for (uint32_t i = uint32_t(count); i-- > 0;)
      for (uint32_t later : after[i])
        feeds[i] = feeds[i] || feeds[later] || graph.tasks[later].stream == collectiveStream;
    for (uint32_t buffer = 0; buffer < graph.storage.size(); ++buffer) {
      usersLeft[buffer] = uint32_t(graph.storage[buffer].users.size());
      for (uint32_t user : graph.storage[buffer].users) {
        storageOf[user].push_back(buffer);
        born[user] += graph.storage[buffer].bytes;
      }
    }
    for (uint32_t i = 0; i < count; ++i)
      if (pending[i] == 0)
        open(i);
  }

  Order run() {
    while (order.tasks.size() < graph.tasks.size())
      step();
    predict(graph, order); // a task for which the stream was kept free may have gone elsewhere
    return std::move(order);
  }

private:
  /// A task and the earliest time at which it could start.
  struct Choice {
    uint32_t task = 0;
    double start = never;
  };

  struct Before {
    const ListScheduler *scheduler;
    bool operator()(uint32_t task, uint32_t other) const {
      return scheduler->isBefore(task, other);
    }
  };

  void open(uint32_t task) { startable[graph.tasks[task].stream].insert(task); }
  void step();
  Choice nextBeside(unsigned stream);
  std::optional<uint32_t> nextComputing(double now) const;
  bool isBefore(uint32_t task, uint32_t other) const;
  bool isFirst(uint32_t task, uint32_t other) const;
  void emit(uint32_t task, double start);
  void place(uint32_t task, double start);

  bool fits(uint32_t task) const {
    const int64_t bytes = live + born[task];
    return bytes <= maxBytes || bytes - endedBytes() <= maxBytes;
  }
  int64_t endedBytes() const;
  double earliest(uint32_t task) const {
    return std::max(free[graph.tasks[task].stream], ready[task]);
  }
  StreamEnds waitsForBytes(uint32_t task) const;
  void waitFor(uint32_t earlier, uint32_t task, double &start);
  void release();

  const TaskGraph &graph;
  const Rule rule;
  const Collectives collectives;
  const int64_t maxBytes;
  const std::vector<double> tails;
  std::vector<std::vector<uint32_t>> after;
  std::vector<uint32_t> pending;            ///< by task: what must still be placed before it
  std::vector<double> ready;                ///< by task: when all that is before it has ended
  std::vector<StreamEnds> clocks;           ///< by task, once placed: what has ended when it has
  std::array<StreamEnds, numStreams> knows; ///< by stream: what has ended when its next task starts
  std::vector<bool> feeds;                  ///< by task: a collective depends on it
  std::vector<std::vector<uint32_t>> storageOf; ///< by task
  /// By stream, tasks before which all is placed; in the order in which the rule would take them.
  std::array<std::set<uint32_t, Before>, numStreams> startable = {
      std::set<uint32_t, Before>(Before{this}), std::set<uint32_t, Before>(Before{this}),
      std::set<uint32_t, Before>(Before{this})};
  std::set<uint32_t> waiting;                             ///< computing tasks that are not placed
  std::array<double, numStreams> free = {};               ///< end of each stream's last task
  std::array<std::vector<uint32_t>, numStreams> onStream; ///< tasks in the order of their stream
  Order order;

  // Memory. Storage is live from its first user until all users are placed and the computing stream
  // knows that the collectives and copies among them have ended.
  int64_t live = 0;
  std::vector<int64_t> born;       ///< by task: bytes of its storage that is not live yet
  std::vector<uint32_t> usersLeft; ///< by storage
  std::vector<StreamEnds> lastUse; ///< by storage: its last user on the other streams
  std::set<std::pair<double, uint32_t>> held; ///< (end of those, storage): no users left
  mutable std::optional<int64_t> ended;       ///< of `endedBytes`, in this step
  std::vector<bool> deferred;            ///< by task: a collective or copy that waits for bytes
  std::optional<uint32_t> lastComputing; ///< the last one placed
};

bool ListScheduler::isBefore(uint32_t task, uint32_t other) const {
  if (rule == Rule::Feeding && feeds[task] != feeds[other])
    return feeds[task];
  if (rule != Rule::Feeding && tails[task] != tails[other])
    return tails[task] > tails[other];
  return task < other;
}

bool ListScheduler::isFirst(uint32_t task, uint32_t other) const {
  if (collectives == Collectives::Longest)
    return tails[task] > tails[other];
  return graph.tasks[task].seconds < graph.tasks[other].seconds;
}

/// The collective, or the copy, that would start first.
ListScheduler::Choice ListScheduler::nextBeside(unsigned stream) {
  Choice best;
  for (uint32_t task : startable[stream])
    if (fits(task))
      best.start = std::min(best.start, earliest(task));
    else
      deferred[task] = true;
  bool found = false;
  for (uint32_t task : startable[stream])
    if (earliest(task) <= best.start && fits(task) && (!found || isFirst(task, best.task))) {
      best.task = task;
      found = true;
    }
  return best;
}

/// The computing task that the rule lets start at `now`, if there is one.
std::optional<uint32_t> ListScheduler::nextComputing(double now) const {
  const uint32_t first = *waiting.begin();
  const bool firstCan = startable[computeStream].count(first) > 0;
  if (firstCan && ready[first] <= now && fits(first) &&
      (rule == Rule::Fixed || rule == Rule::Given))
    return first;
  if (rule == Rule::Fixed)
    return std::nullopt;
  std::vector<uint32_t> soon;
  if (rule == Rule::Patient)
    for (uint32_t task : startable[computeStream])
      if (ready[task] > now)
        soon.push_back(task);
  // A task with a longer path would be ready so soon that the stream would idle for less time than
  // this one would delay it.
  auto delays = [&](uint32_t task) {
    const double end = now + graph.tasks[task].seconds;
    return std::any_of(soon.begin(), soon.end(), [&](uint32_t other) {
      return tails[other] > tails[task] && end - ready[other] > ready[other] - now;
    });
  };
  for (uint32_t task : startable[computeStream])
    if (ready[task] <= now && fits(task) && !delays(task))
      return task;
  return std::nullopt;
}

void ListScheduler::step() {
  ended.reset();
  Choice beside = nextBeside(collectiveStream);
  if (const Choice copy = nextBeside(copyStream); copy.start < beside.start)
    beside = copy;
  const double now = free[computeStream];
  if (beside.start <= now)
    return place(beside.task, beside.start);
  if (!startable[computeStream].empty()) {
    if (std::optional<uint32_t> task = nextComputing(now))
      return place(*task, now);
    // Nothing can start now: the next moment at which something can.
    double soonest = never;
    for (uint32_t task : startable[computeStream])
      if ((rule != Rule::Fixed || task == *waiting.begin()) && ready[task] > now)
        soonest = std::min(soonest, ready[task]);
    if (soonest < beside.start) {
      free[computeStream] = soonest;
      return;
    }
  }
  if (beside.start < never)
    return place(beside.task, beside.start);
  // Only memory stands in the way: the first in the given order goes on.
  uint32_t task = std::numeric_limits<uint32_t>::max();
  for (const auto &tasks : startable)
    for (uint32_t other : tasks)
      task = std::min(task, other);
  place(task, earliest(task));
}

/// Emits a task, behind what must have ended so that it can have its bytes.
void ListScheduler::place(uint32_t task, double start) {
  if (graph.tasks[task].stream == computeStream) {
    const StreamEnds waits = waitsForBytes(task);
    for (unsigned stream : {collectiveStream, copyStream})
      if (waits[stream] > knows[computeStream][stream])
        waitFor(onStream[stream][size_t(waits[stream])], task, start);
  } else if (deferred[task] && lastComputing) {
    waitFor(*lastComputing, task, start);
  }
  emit(task, start);
}

void ListScheduler::waitFor(uint32_t earlier, uint32_t task, double &start) {
  order.forMemory.emplace_back(earlier, task);
  start = std::max(start, order.end[earlier]);
  merge(knows[graph.tasks[task].stream], clocks[earlier]);
}

/// Bytes that waits for collectives and copies that have ended would give.
int64_t ListScheduler::endedBytes() const {
  if (ended)
    return *ended;
  ended = 0;
  for (auto [end, buffer] : held) {
    if (end > free[computeStream])
      break;
    *ended += graph.storage[buffer].bytes;
  }
  return *ended;
}

/// What gives the task the bytes that it lacks by its end, soonest first, or all that gives any;
/// −1 on every stream where nothing is lacking or to be had.
StreamEnds ListScheduler::waitsForBytes(uint32_t task) const {
  StreamEnds waits = atStart;
  int64_t missing = live + born[task] - maxBytes;
  for (auto [end, buffer] : held) {
    if (missing <= 0)
      break;
    missing -= graph.storage[buffer].bytes;
    merge(waits, lastUse[buffer]);
  }
  return waits;
}

/// Gives back the bytes whose users the computing stream knows to have ended.
void ListScheduler::release() {
  const StreamEnds &known = knows[computeStream];
  for (auto at = held.begin(); at != held.end();) {
    const StreamEnds &last = lastUse[at->second];
    if (last[collectiveStream] > known[collectiveStream] || last[copyStream] > known[copyStream]) {
      ++at;
      continue;
    }
    live -= graph.storage[at->second].bytes;
    at = held.erase(at);
  }
}

void ListScheduler::emit(uint32_t task, double start) {
  const Task &placed = graph.tasks[task];
  const unsigned stream = placed.stream;
  startable[stream].erase(task);
  order.tasks.push_back(task);
  order.start[task] = start;
  order.end[task] = free[stream] = start + placed.seconds;
  const auto number = int64_t(onStream[stream].size());
  onStream[stream].push_back(task);
  for (uint32_t earlier : placed.before)
    merge(knows[stream], clocks[earlier]);
  knows[stream][stream] = number;
  clocks[task] = knows[stream];
  if (stream == computeStream) {
    lastComputing = task;
    waiting.erase(task);
    release();
  }
  live += born[task];
  for (uint32_t buffer : storageOf[task]) {
    if (usersLeft[buffer] == graph.storage[buffer].users.size())
      for (uint32_t user : graph.storage[buffer].users)
        born[user] -= graph.storage[buffer].bytes;
    if (stream != computeStream)
      lastUse[buffer][stream] = number;
    if (--usersLeft[buffer] > 0)
      continue;
    double end = 0;
    for (unsigned other : {collectiveStream, copyStream})
      if (const int64_t last = lastUse[buffer][other]; last > knows[computeStream][other])
        end = std::max(end, order.end[onStream[other][size_t(last)]]);
    if (end > 0)
      held.emplace(end, buffer);
    else
      live -= graph.storage[buffer].bytes;
  }
  for (uint32_t later : after[task]) {
    ready[later] = std::max(ready[later], order.end[task]);
    if (--pending[later] == 0)
      open(later);
  }
}

} // namespace

Order listSchedule(const TaskGraph &graph, Rule rule, Collectives collectives, int64_t maxBytes) {
  return ListScheduler(graph, rule, collectives, maxBytes).run();
}

/// The program run backwards: task i is task n − 1 − i, what was before is after.
static TaskGraph reversed(const TaskGraph &graph) {
  const auto last = uint32_t(graph.tasks.size()) - 1;
  TaskGraph result;
  result.tasks.resize(graph.tasks.size());
  result.storage = graph.storage;
  for (uint32_t i = 0; i < graph.tasks.size(); ++i) {
    result.tasks[last - i].stream = graph.tasks[i].stream;
    result.tasks[last - i].seconds = graph.tasks[i].seconds;
    result.tasks[last - i].memory = graph.tasks[i].memory;
    for (uint32_t earlier : graph.tasks[i].before)
      result.tasks[last - earlier].before.push_back(last - i);
  }
  for (Storage &storage : result.storage) {
    std::reverse(storage.users.begin(), storage.users.end());
    for (uint32_t &user : storage.users)
      user = last - user;
  }
  return result;
}

std::vector<Order> candidates(const TaskGraph &graph, int64_t maxBytes) {
  std::vector<Order> orders;
  for (Rule rule : {Rule::Fixed, Rule::Given, Rule::Feeding, Rule::Longest, Rule::Patient})
    for (Collectives first : {Collectives::Longest, Collectives::Shortest})
      orders.push_back(listSchedule(graph, rule, first, maxBytes));
  const TaskGraph backwards = reversed(graph);
  const auto last = uint32_t(graph.tasks.size()) - 1;
  for (Rule rule : {Rule::Given, Rule::Longest, Rule::Patient})
    for (Collectives first : {Collectives::Longest, Collectives::Shortest}) {
      Order order = listSchedule(backwards, rule, first, maxBytes);
      std::reverse(order.tasks.begin(), order.tasks.end());
      for (uint32_t &task : order.tasks)
        task = last - task;
      for (auto &[earlier, later] : order.forMemory)
        std::tie(earlier, later) = std::pair(last - later, last - earlier);
      predict(graph, order);
      orders.push_back(std::move(order));
    }
  return orders;
}

namespace {

/// When a task keeps the memory busy.
struct Busy {
  double start = 0, end = 0, memory = 0;
};

/// When a task ends that starts at `start`, beside those that go on at that time.
double endBeside(const Task &task, double start, const std::vector<Busy> &others) {
  double time = start, left = task.seconds;
  if (task.memory > 0)
    for (auto other = std::partition_point(others.begin(), others.end(),
                                           [&](const Busy &busy) { return busy.end <= start; });
         other != others.end() && time + left > other->start; ++other) {
      left -= std::max(0.0, other->start - time);
      time = std::max(time, other->start);
      const double rate = 1 - task.memory * other->memory, done = (other->end - time) * rate;
      if (rate > 0 && left <= done)
        return time + left / rate;
      left -= done;
      time = other->end;
    }
  return time + left;
}

} // namespace

void predict(const TaskGraph &graph, Order &order) {
  order.start.assign(graph.tasks.size(), 0);
  order.end.assign(graph.tasks.size(), 0);
  order.seconds = 0;
  std::array<double, numStreams> free = {};
  std::array<std::vector<Busy>, numStreams> busy;
  std::vector<std::vector<uint32_t>> forMemory(graph.tasks.size());
  for (auto [earlier, later] : order.forMemory)
    forMemory[later].push_back(earlier);
  for (uint32_t at : order.tasks) {
    const Task &task = graph.tasks[at];
    double start = free[task.stream];
    for (uint32_t earlier : task.before)
      start = std::max(start, order.end[earlier]);
    for (uint32_t earlier : forMemory[at])
      start = std::max(start, order.end[earlier]);
    const unsigned other = task.stream == copyStream      ? computeStream
                           : task.stream == computeStream ? copyStream
                                                          : collectiveStream;
    // Collectives are slowed by nothing; what they take of the memory, their times have in them.
    const double end =
        other == collectiveStream ? start + task.seconds : endBeside(task, start, busy[other]);
    if (task.memory > 0)
      busy[task.stream].push_back({start, end, task.memory});
    order.start[at] = start;
    order.end[at] = free[task.stream] = end;
    order.seconds = std::max(order.seconds, end);
  }
}

void addFreeWaits(const TaskGraph &graph, Order &order) {
  // By stream: its tasks so far; and, by who could wait, the first that it does not know to end.
  std::array<std::vector<uint32_t>, numStreams> placed;
  std::array<std::array<size_t, numStreams>, numStreams> unknown = {};
  for (uint32_t task : order.tasks) {
    const unsigned stream = graph.tasks[task].stream;
    for (unsigned other = 0; other < numStreams; ++other) {
      size_t &next = unknown[stream][other];
      const size_t known = next;
      while (other != stream && next < placed[other].size() &&
             order.end[placed[other][next]] <= order.start[task])
        ++next;
      if (next > known)
        order.forMemory.emplace_back(placed[other][next - 1], task);
    }
    placed[stream].push_back(task);
  }
}

std::vector<double> longestPaths(const TaskGraph &graph) {
  std::vector<double> tails(graph.tasks.size(), 0);
  for (size_t i = graph.tasks.size(); i-- > 0;) {
    tails[i] += graph.tasks[i].seconds;
    for (uint32_t earlier : graph.tasks[i].before)
      tails[earlier] = std::max(tails[earlier], tails[i]);
  }
  return tails;
}

int64_t serialPeak(const TaskGraph &graph) {
  std::vector<int64_t> change(graph.tasks.size() + 1, 0);
  for (const Storage &storage : graph.storage)
    if (!storage.users.empty()) {
      change[storage.users.front()] += storage.bytes;
      change[storage.users.back() + 1] -= storage.bytes;
    }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}

} // namespace nano::schedule
