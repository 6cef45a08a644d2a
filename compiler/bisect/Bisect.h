// `nanoc bisect`: the first pass that changes what a step computes, and the smallest program that
// shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano::bisect {

struct Options {
  std::string model; ///< the model file; with `pass` a file of IR
  std::vector<std::pair<std::string, std::string>> overrides; ///< -D name=value
  std::string target;                                         ///< --target; empty: cpu
  std::string runStage;               ///< --run-stage: a stage of the run; empty: the first
  uint64_t seed = 0;                  ///< --seed
  std::optional<double> tolerance;    ///< --tolerance
  std::string check;                  ///< --check: a command with {}; empty: values are compared
  std::string pass;                   ///< --pass: the one to judge; empty: all of the pipeline
  std::string output = "bisect.mlir"; ///< -o: the test file
  int64_t seconds = 40;               ///< --seconds: at most for making the program smaller
};

/// Prints what each pass does to a step to stdout, messages to stderr. Returns an exit status: 0
/// where no pass is wrong, 1 where one is, whose test file it has then written, or where a pass
/// fails; 2 for bad input.
int run(const Options &options);

} // namespace nano::bisect
