// Measured choices, as a file beside the plan: algorithms for matrix products, and kernels among
// commands' candidates.
#pragma once

#include "runtime/files/BuildCache.h"
#include "runtime/plan/Status.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// One product's algorithm and what was measured.
struct TunedChoice {
  std::array<uint64_t, 8> algorithm = {}; ///< cublasLtMatmulAlgo_t, as the library made it
  double seconds = 0;                     ///< of one run
  double firstSeconds = 0;                ///< of the algorithm that is taken without tuning
  int candidates = 0;                     ///< algorithms measured
  int chosen = 0;                         ///< which of them, 0 the first
};

/// One command's way among its own and its candidates, and what all of them took.
struct TunedWay {
  std::string chosen;
  std::vector<std::pair<std::string, double>> seconds; ///< of one run, by the ways' names
};

/// A JSON file: {"format": 1, "machines": {"<GPU>, cuBLASLt <version>": {"<product>": {...}}},
/// "kernels": {"<machine>": {"<command>": {"chosen": …, "us": {"<way>": …}}}}}.
/// An algorithm is only good for the GPU and library that it was measured with, so choices are kept
/// by machine and those of others stay as they are.
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

  /// Publishes the file. BadInput when it cannot be written.
  Status save() const;

private:
  std::string path, machine;
  std::map<std::string, TunedChoice> choices;
  std::map<std::string, TunedWay> ways;
};

} // namespace nano
