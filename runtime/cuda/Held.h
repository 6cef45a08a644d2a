// Work repeated until the GPU is as warm as in a run, and what a run of it costs then.
#pragma once

#include "runtime/Device.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Gpu.h"

#include <functional>
#include <vector>

namespace nano::cuda {

/// Repeats work, without a pause in between, and counts its joules.
///
/// What is fastest in a short burst, for which the clock goes up, need not be what costs a step
/// least: within a second of work the board is at its power limit, and clocks go down until it is
/// below. So work is held there for some moves of the counter, which come every tenth of a second.
class Held {
public:
  /// Of `counter`, which has `joules`.
  Held(Gpu &gpu, CUstream stream, EnergyCounter counter)
      : gpu(gpu), stream(stream), counter(std::move(counter)) {}

  /// The cost of one run of what `enqueue` puts on the stream, which takes about `once` seconds:
  /// the mean of runs over at least `least` seconds, and until the counter has moved `leastMoves`
  /// times. Joules are 0 where it does not move.
  RunCost run(const std::function<void()> &enqueue, double once, double least);
  /// The most that the board drew between some moves in the last `run`, in watts; 0: not counted.
  /// While it is kept at its limit it draws now more and now less than that.
  double watts() const { return mostWatts; }

  static constexpr size_t leastMoves = 4;

private:
  /// The counter just after it has moved.
  struct Move {
    double seconds, joules;
  };
  void look(std::vector<Move> &moves);

  Gpu &gpu;
  CUstream stream;
  EnergyCounter counter;
  double last = -1; ///< what the counter stood at
  double pause = 0; ///< between two moves nobody needs to look
  double mostWatts = 0;
};

/// How long that may take when choices are made: half a minute a plan at most, for its products,
/// and as long for its candidates.
struct HeldTuning {
  static constexpr double warmSeconds = 1.2; ///< until the power limit holds
  static constexpr double waySeconds = 0.6;  ///< likewise, before a command's candidates
  static constexpr double seconds = 0.45;    ///< of one candidate, at a time
  static constexpr double mostSeconds = 30;  ///< of all that are chosen among
  static constexpr double slower = 1.05;     ///< than the fastest in a burst: no candidate
  static constexpr size_t most = 3;          ///< of one choice; what the rule takes may come beside
  static constexpr int mostOfShape = 2;      ///< of one tile and cluster, as many are one kernel
  static constexpr double varied = 1.5;      ///< seconds of bursts of one product's variations
  static constexpr double leastBurst = 2e-3; ///< see secondsOfRun
};

/// The limit in watts that the board is kept below while it draws `watts`; 0: it is not there.
inline double limitReached(double watts, const EnergyCounter &counter) {
  constexpr double near = 0.95; // what is drawn swings by some percent around the limit
  return counter.limit > 0 && watts >= near * counter.limit ? counter.limit : 0;
}

} // namespace nano::cuda
