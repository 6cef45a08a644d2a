// `nanoc diff`: what differs between two plans, by model line and kernel.
#pragma once

#include <cstdint>
#include <string>

namespace nano::inspect {

struct DiffOptions {
  std::string a, b;    ///< the plan files
  int64_t world = 0;   ///< --gpus; 0: the smallest number of ranks that both are for
  std::string machine; ///< --machine; empty: by A's target
  int64_t lines = 20;  ///< --lines: of each table
};

/// Prints what differs to stdout, messages to stderr. Returns an exit status: 0 where the plans are
/// equal in every byte, 1 where they differ, 2 for bad input.
int diff(const DiffOptions &options);

} // namespace nano::inspect
