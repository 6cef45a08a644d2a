// `nanoc explain`: where a model line, a kernel or a buffer of a plan comes from, and what it
// costs.
#pragma once

#include <cstdint>
#include <string>

namespace nano::inspect {

struct ExplainOptions {
  std::string what;    ///< FILE:LINE or LINE, a kernel's name, or a buffer's, or the start of one
  std::string plan;    ///< the plan file
  int64_t world = 0;   ///< --gpus; 0: the smallest number of ranks that the plan is for
  std::string machine; ///< --machine; empty: by the plan's target
  int64_t lines = 20;  ///< --lines: of each list
};

/// Prints to stdout, messages to stderr. Returns an exit status: 0, or 2 for bad input, also where
/// the plan has nothing of that name, which names the nearest ones.
int explain(const ExplainOptions &options);

} // namespace nano::inspect
