// Measured choices, as a file beside the plan: algorithms for matrix products, and kernels among
// commands' candidates.
#pragma once

#include "base/Status.h"
#include "runtime/files/BuildCache.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// What one run of something costs.
struct RunCost {
  double seconds = 0;
  double joules = 0; ///< of the whole device; 0: not counted

  /// By what a run makes a step longer. A board that the step keeps at its power limit has a step's
  /// joules / limit for it, so that fewer joules are less time, also where they take longer alone.
  /// `limit`, in watts: 0 where the board does not reach it.
  double inStep(double limit) const { return limit > 0 && joules > 0 ? joules / limit : seconds; }
};

/// "81.3 us 55.2 mJ", or without joules.
std::string textOf(const RunCost &cost);

/// Their numbers, the shortest first.
std::vector<size_t> byTime(const std::vector<RunCost> &costs);
/// Which of several costs a step least: of those within what measuring once more changes of the
/// least, 2%, the one that is first in `fastest`, their order by short bursts. Where joules of some
/// were counted, the others are none of them. `limit`: see RunCost::inStep.
size_t leastCost(const std::vector<RunCost> &costs, const std::vector<size_t> &fastest,
                 double limit);

/// One product's algorithm and what was measured.
struct TunedChoice {
  std::array<uint64_t, 8> algorithm = {}; ///< cublasLtMatmulAlgo_t, as the library made it
  RunCost cost;                           ///< of one run
  RunCost first;                          ///< of the algorithm that is taken without tuning
  int candidates = 0;                     ///< algorithms measured
  int chosen = 0;                         ///< which of them, 0 the first
  double limit = 0; ///< watts, where the choice was by joules: see RunCost::inStep
  /// What was repeated until joules could be counted: the number of an algorithm, and its cost.
  std::vector<std::pair<int, RunCost>> held;
};

/// One command's way among its own and its candidates, and what all of them took.
struct TunedWay {
  std::string chosen;
  double limit = 0;                                   ///< as TunedChoice
  std::vector<std::pair<std::string, RunCost>> costs; ///< of one run, by the ways' names
};

/// A JSON file: {"format": 1, "machines": {"<GPU>, cuBLASLt <version>": {"<product>": {...}}},
/// "kernels": {"<machine>": {"<command>": {"chosen": …, "us": {"<way>": …}, "mj": {"<way>": …},
/// "limit_w": …}}}}. Whatever was not counted is absent, so that files without joules are such
/// files. An algorithm is only good for the GPU and library that it was measured with, so choices
/// are kept by machine and those of others stay as they are.
class Tuning {
public:
  /// Reads the file; one that is missing is an empty one. A file that is no such file, or that
  /// holds choices of other machines only and is not about to get some (`tunes`), is said to the
  /// user and taken as empty.
  static Tuning open(const std::string &path, const std::string &machine, const Report &report,
                     bool tunes = false);

  /// The choice for that product on this machine.
  std::optional<TunedChoice> find(const std::string &product) const;
  void set(const std::string &product, const TunedChoice &choice) { choices[product] = choice; }
  size_t size() const { return choices.size(); }
  /// Likewise of a command, by the names of its ways: see Candidates.h.
  std::optional<TunedWay> findWay(const std::string &command) const;
  void setWay(const std::string &command, const TunedWay &way) { ways[command] = way; }
  size_t waysSize() const { return ways.size(); }

  /// The choices as text, and those of such a text instead of what there was: so that all ranks
  /// have the choices of one.
  std::string text() const;
  void take(const std::string &text);

  /// What the file holds, a line a choice: what was taken, by what, and what the others cost. Empty
  /// where there is no such file.
  static std::string describe(const std::string &path);

  /// Publishes the file. BadInput when it cannot be written.
  Status save() const;

private:
  std::string path, machine;
  std::map<std::string, TunedChoice> choices;
  std::map<std::string, TunedWay> ways;
};

} // namespace nano
