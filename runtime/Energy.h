// Joules of a run: what the devices' counters say, read beside the steps, as joules of steps.
//
// Counters move on every 1 to 100 ms, and one look at a GPU's takes milliseconds, in which its
// driver does little else. So a thread looks at them, not often; between two changes the power is
// taken as constant; and joules are told of as many steps in a row as take two seconds. What lies
// between steps, a validation or a checkpoint, is left out.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/comm/Communicator.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace nano {

/// What the devices of all ranks used in steps [first, last], counted from 1.
struct EnergyFacts {
  int64_t first = 0, last = 0;
  double joules = 0, seconds = 0;
  double joulesOfStep() const { return joules / double(last - first + 1); }
};

/// Whose counters a run reads.
struct EnergySource {
  std::string counter; ///< what they are called
  int devices = 0;     ///< how many there are
  std::string missing; ///< why there are none for all of the ranks; empty where there are
};

/// How often a counter is looked at, and how long the steps are together that are told of.
struct EnergyPace {
  double look = 0.1, window = 2; ///< seconds
};

/// Looks at one counter, and steps that go on meanwhile; times are seconds of one clock and grow.
class EnergyRecord {
public:
  explicit EnergyRecord(double window) : window(window) {}

  /// The counter stands at so many joules.
  void see(double seconds, double joules);
  /// What was seen last is what the counter stood at until then: nothing more comes.
  void settle();
  /// The steps that follow begin.
  void begin(double seconds) { last = seconds; }
  /// A step ends, and the next one begins.
  void end(double seconds);
  /// Steps that have ended, are not taken yet, and whose joules are known; 0 where those beyond
  /// the first `skip` are shorter than a window.
  size_t ready(size_t skip = 0) const;
  /// Whether the counter has moved since the last step ended.
  bool isAhead() const {
    return spans.empty() || (!changes.empty() && spans.back().end <= changes.back().seconds);
  }
  /// Takes the first `count` steps, which are ready.
  EnergyFacts take(size_t count);

private:
  struct Look {
    double seconds, joules;
  };
  struct Span {
    double begin, end;
  };
  double joulesAt(double seconds) const;

  double window;
  double last = 0;
  std::deque<Look> changes;
  std::optional<Look> latest;
  std::deque<Span> spans;
  bool isSettled = false;
};

/// A thread that looks at a counter.
class EnergyMeter {
public:
  EnergyMeter(EnergyCounter counter, EnergyPace pace);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter &) = delete;
  EnergyMeter &operator=(const EnergyMeter &) = delete;

  void begin();
  void end();
  size_t ready(size_t skip);
  EnergyFacts take(size_t count);
  /// Waits until the counter has moved on, a quarter of a second at most.
  void settle();

private:
  void look();
  void run();

  const EnergyCounter counter;
  const EnergyPace pace;
  std::mutex mutex;
  std::condition_variable isOver, hasSeen;
  EnergyRecord record;
  bool isEnding = false;
  std::thread thread;
};

/// The joules of all ranks. Every rank makes the same calls in the same order.
///
/// Ranks agree on steps that all of them know the joules of, and tell these in the round after: a
/// round is one exchange of `numbers()` numbers, combined by their largest, which may travel with
/// others.
class RankEnergy {
public:
  /// Finds out whether all ranks have counters, and which of them count.
  static Result<RankEnergy> start(const Device &device, Communicator &communicator, int64_t step,
                                  EnergyPace pace = {});

  const EnergySource &source() const { return from; }
  /// Without a counter nothing is told, and rounds need not be.
  bool isCounting() const { return from.missing.empty(); }
  /// Steps begin, after something else.
  void begin();
  /// A step has ended, and the next one begins.
  void end();
  /// What this rank has to say in a round, behind `values`.
  void offer(std::vector<float> &values);
  size_t numbers() const { return isCounting() ? 2 + size_t(world) : 0; }
  /// What became of it on all ranks, the same on each: joules that are to be told.
  std::optional<EnergyFacts> accept(const float *values);
  /// The last rounds, after the last step.
  Result<std::vector<EnergyFacts>> finish(Communicator &communicator);

private:
  RankEnergy() = default;

  EnergySource from;
  int rank = 0, world = 1;
  std::unique_ptr<EnergyMeter> meter; ///< of a rank that counts
  int64_t told = 0;                   ///< steps whose joules were told, or did not run here
  int64_t agreed = 0;                 ///< steps whose joules come in the next round
};

} // namespace nano
