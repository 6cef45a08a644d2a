// List scheduling of tasks on streams of computation, collectives and copies, with live bytes kept
// under a limit. It knows nothing of IR: tasks have seconds and predecessors, storage bytes and
// users.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace nano::schedule {

inline constexpr unsigned numStreams = 3;
inline constexpr unsigned computeStream = 0, collectiveStream = 1, copyStream = 2;
/// Not of the list scheduler: copies to the host's memory, and from there.
inline constexpr unsigned toHostStream = 3, fromHostStream = 4;

/// A command as the scheduler sees it.
struct Task {
  unsigned stream = computeStream;
  double seconds = 0;
  /// Tasks of the given order that must have finished when this one starts; smaller numbers only.
  std::vector<uint32_t> before;
  /// The share of `seconds` in which it keeps the memory busy: 0 to 1. A computing task and a copy
  /// share the memory's rate: what starts second goes on with what the first one leaves.
  double memory = 0;
};

/// Bytes that are held from the first of its users to the last.
struct Storage {
  int64_t bytes = 0;
  std::vector<uint32_t> users; ///< by number, each once
};

/// A program: tasks in the given order, which satisfies `before`.
struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<Storage> storage;
};

/// Which computing task goes next when the computing stream is free. A rule other than Fixed takes
/// one that would have to wait only when no other can start.
enum class Rule : uint8_t {
  Fixed,   ///< the first in the given order, though it may have to wait
  Given,   ///< the first in the given order; if it would have to wait, the longest path to the end
  Feeding, ///< those that a collective needs, in the given order, before all others
  Longest, ///< the longest path to the end
  Patient, ///< as Longest, but rather waits than delays a longer path by more than the wait
};

/// Which of the collectives, or of the copies, that could start at the same time goes first.
enum class Collectives : uint8_t {
  Longest,  ///< the longest path to the end
  Shortest, ///< the one that itself takes least time
};

/// An order in which one thread may execute the tasks, and when each would start and end.
struct Order {
  std::vector<uint32_t> tasks; ///< numbers, in order
  /// Pairs (earlier, later) of tasks on different streams that are ordered only so that the later
  /// one can have the bytes that the earlier one uses.
  std::vector<std::pair<uint32_t, uint32_t>> forMemory;
  std::vector<double> start, end; ///< by task number
  double seconds = 0;             ///< end of the last
};

/// Schedules in the order of time: whenever a stream is free, the rule picks what it does next.
/// Collectives and copies start as early as their inputs and their stream allow. What is live stays
/// at or below `maxBytes` where that is possible: a task that would go beyond it lets others go
/// first, and then waits for collectives and copies that hold bytes; where nothing helps, it goes
/// on. Storage that they use counts as live until the computing stream is known to be behind them.
/// Deterministic; O(n·w) for n tasks, w of which can start at one time.
Order listSchedule(const TaskGraph &graph, Rule rule, Collectives collectives, int64_t maxBytes);

/// The orders of all rules, and of some of them on the program run backwards; the first is that of
/// Rule::Fixed, and the earlier ones are nearer to the given order.
std::vector<Order> candidates(const TaskGraph &graph, int64_t maxBytes);

/// Orders every task behind what is predicted to have ended on other streams when it starts. It
/// delays nothing, if the prediction is right, and storage is known to be free earlier.
void addFreeWaits(const TaskGraph &graph, Order &order);

/// When tasks start and end in a given order: each after its stream's previous one, and after what
/// is `before` it or ordered for memory; slower where it shares the memory (Task::memory). Fills
/// `start`, `end` and `seconds`.
void predict(const TaskGraph &graph, Order &order);

/// By task: the seconds from its start to the end of all that depends on it, at best.
std::vector<double> longestPaths(const TaskGraph &graph);

/// The most bytes that are live at one moment when the tasks run one after the other as given.
int64_t serialPeak(const TaskGraph &graph);

} // namespace nano::schedule
