// The state of a simulation, which Simulator.cpp runs and Results.cpp evaluates.
#pragma once

#include "compiler/simulate/Simulator.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace nano::simulate {

struct Interval {
  double start = 0, finish = 0;
  uint32_t node = 0; ///< Simulation::Node
  double memory = 0; ///< of work: the share of the memory that it keeps busy
};

/// What happens of a command: with one thing at a time there are no events.
struct Item {
  enum class Kind : uint8_t { Work, Collective, Record, Wait } kind = Kind::Work;
  uint32_t stream = 0, event = 0, command = 0;
  plan::Ranks ranks = plan::Ranks::All;
  Cost cost;
};

constexpr uint32_t noNode = ~uint32_t(0);

/// The ranks, their streams and what has happened on them: see `simulate`.
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
    Transfer transfer = Transfer::None;
    std::vector<uint32_t> last; ///< collective: by set, the rank that came last
  };
  /// A program of a step, with what nanorun copies around it.
  struct Execution {
    size_t program = 0;
    std::vector<double> uploads; ///< bytes
    double readback = 0;         ///< bytes
    bool hostWaits = false;      ///< for the readback
  };

  std::vector<Item> itemsOf(const plan::Program &program, const std::vector<Cost> &own) const;
  std::vector<Execution> programsOf(const plan::StepPrograms &step) const;
  double bytesOf(uint32_t buffer) const {
    return buffer < plan.buffers.size() ? double(plan.buffers[buffer].bytes) : 0;
  }
  void run(const Execution &execution);
  void runProgram(size_t program);
  void upload(const Execution &execution);
  void readBack(const Execution &execution);
  void work(const Item &item, uint32_t node);
  void collective(const Item &item, uint32_t node);
  /// The number of `ranks`' set that a simulated rank is in, and of such sets.
  size_t setOf(plan::Ranks ranks, size_t rank) const;
  size_t setsOf(plan::Ranks ranks) const;
  double slowed(size_t rank, const Item &item, double start, double seconds);
  uint32_t begin(size_t program, const Item &item);
  uint32_t beginTransfer(size_t program, Transfer transfer);
  uint32_t add(Node node);
  /// Moves all streams of a rank on to a time that the node brought about.
  void setAll(size_t rank, double time, uint32_t by) {
    std::fill_n(&free[rank * streams], streams, time);
    std::fill_n(&freeBy[rank * streams], streams, by);
  }
  void end(uint32_t node, size_t rank, double start, double finish, uint32_t before);

  double endOf(size_t rank) const {
    return *std::max_element(freeOf(rank), freeOf(rank) + streams);
  }
  const double *freeOf(size_t rank) const { return &free[rank * streams]; }
  uint32_t lastOn(size_t rank) const;
  void measure(Outcome &outcome) const;
  void measureCopies(Outcome &outcome) const;
  void findPath(Outcome &outcome) const;

  const plan::Plan &plan;
  const plan::Training &training; ///< the stage of the run
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
  std::vector<std::vector<Interval>> busy;  ///< by rank and stream: work that may, likewise
  std::vector<bool> isUsed;                 ///< by stream: the running program has commands on it
  bool sharesMemory = false;                ///< it has work on several streams
  std::vector<double> ready;                ///< by rank: when it has reached a collective
  uint64_t collectives = 0;                 ///< executed so far: jitter's counter
  std::vector<double> uploadFrom;           ///< by rank: when the next upload may start
  std::vector<uint32_t> uploadFromBy;       ///< as freeBy

  bool isMeasuring = false;
  std::vector<size_t> observed;                      ///< ranks, ascending
  std::vector<int32_t> observedAt;                   ///< by rank, its index there or −1
  std::set<size_t> shown;                            ///< of those, by index: in the spans
  std::vector<double> windowStart;                   ///< by observed rank
  std::vector<std::vector<Interval>> computed, sent; ///< by observed rank
  std::vector<std::vector<Interval>> transferred;    ///< by observed rank: uploads, readbacks
  Copying toDevice, toHost;                          ///< of the first rank
  std::vector<Node> nodes;

  // The last cycle, when details are wanted.
  bool isDetailed = false;
  size_t firstDetailed = 0;          ///< node
  std::vector<double> detailedStart; ///< by rank
  std::vector<double> finishes;      ///< by node from there on, and rank
  std::vector<uint32_t> befores;     ///< as finishes: the node that let this one start, or noNode
};

} // namespace nano::simulate
