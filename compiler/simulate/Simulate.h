// What `nanoc simulate` does: a plan's step on a machine that nobody needs to have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nano::simulate {

struct Options {
  std::string plan;                    ///< the plan file
  std::string machine;                 ///< a known name or a JSON file; empty: of the plan's target
  std::vector<int64_t> worlds;         ///< --gpus; empty: all that the plan has
  std::vector<std::string> stragglers; ///< --straggler RANK:FACTOR
  double jitter = 0;                   ///< --jitter
  uint64_t seed = 0;                   ///< --seed, of the jitter
  double attendedKeys = 512;           ///< --attended
  std::string times;                   ///< --times; empty: the machine's rates
  std::string labelledTimes; ///< times of a run of another plan of the model, by label; empty: none
  std::string timeline;      ///< --timeline; empty: none
};

/// Prints a line for every number of ranks, and for a single one what it is spent on. Results go to
/// stdout, messages to stderr. Returns an exit status: 0, or 2 for bad usage or bad input.
int run(const Options &options);

/// The names for --machine, as a list with commas.
std::string machineNames();

} // namespace nano::simulate
