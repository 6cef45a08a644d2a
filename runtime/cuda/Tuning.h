// The measured choice of algorithms for matrix products, as a file beside the plan.
#pragma once

#include "runtime/files/BuildCache.h"
#include "runtime/plan/Status.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nano::cuda {

/// One product's algorithm and what was measured.
struct TunedChoice {
  std::array<uint64_t, 8> algorithm = {}; ///< cublasLtMatmulAlgo_t, as the library made it
  double seconds = 0;                     ///< of one run
  double firstSeconds = 0;                ///< of the algorithm that is taken without tuning
  int candidates = 0;                     ///< algorithms measured
  int chosen = 0;                         ///< which of them, 0 the first
};

/// A JSON file: {"format": 1, "machines": {"<GPU>, cuBLASLt <version>": {"<product>": {...}}}}.
/// An algorithm is only good for the GPU and library that it was measured with, so choices are kept
/// by machine and those of others stay as they are.
class Tuning {
public:
  /// Reads the file; one that is missing is an empty one. A file that is no such file is said to
  /// the user and taken as empty.
  static Tuning open(const std::string &path, const std::string &machine, const Report &report);

  /// The choice for that product on this machine.
  std::optional<TunedChoice> find(const std::string &product) const;
  void set(const std::string &product, const TunedChoice &choice) { choices[product] = choice; }
  size_t size() const { return choices.size(); }

  /// The choices as text, and those of such a text instead of what there was: so that all ranks
  /// have the choices of one.
  std::string text() const;
  void take(const std::string &text);

  /// Publishes the file. BadInput when it cannot be written.
  Status save() const;

private:
  std::string path, machine;
  std::map<std::string, TunedChoice> choices;
};

} // namespace nano::cuda
