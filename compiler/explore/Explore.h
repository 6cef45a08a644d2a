// `nanoc explore`: one HTML file that shows a compilation, its runs and what differs from another
// one, in a browser, without a server or the network.
#pragma once

#include "compiler/explore/PassRecords.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano::explore {

struct Options {
  std::string plan;                    ///< the plan file
  std::string other;                   ///< another one to compare with; empty: none
  std::vector<std::string> runs;       ///< --run: logs of nanorun --log
  std::string profile;                 ///< --profile of nanorun; empty: none
  std::string machine;                 ///< --machine; empty: of the plan's target
  std::string output;                  ///< the page; empty: the plan's name with .html
  const PassRecords *passes = nullptr; ///< of the compilation that made the plan; null: unknown
};

/// Writes the page and says so in a line on stdout, messages to stderr. Returns an exit status: 0,
/// 2 for bad usage or bad input.
int run(const Options &options);

/// What is known of a compilation that made no plan.
struct FailedCompilation {
  std::string model;                   ///< the model's name
  std::string target;                  ///< "cpu" or "cuda"
  std::vector<int64_t> worlds;         ///< numbers of ranks
  const PassRecords *passes = nullptr; ///< with a failure
  std::string output;                  ///< the page
};

/// Writes a page of the passes that have run, the one that failed, and the model's text with the
/// error at its line; says so in a line on stdout, or on stderr that it cannot be written.
void showFailure(const FailedCompilation &failed);

} // namespace nano::explore
