// The options of the pipeline, which the driver and nanoc's command line share. Pipeline.cpp says
// which pass gets which.
#pragma once

#include "passes/PassOptions.h"

#include <cstdint>
#include <string>

namespace nano {

/// What passes are told about the target and the run: what the command line asks for, and what the
/// driver finds out. A pass's own options are those that Passes.td declares, with its defaults;
/// what several passes get, such as `world` and `machine`, the pipeline fills in.
struct PipelineOptions : PassOptions {
  int64_t world = 1;          ///< the number of ranks that run the program
  std::string target = "cpu"; ///< of base/Target.h
  /// A known name or a JSON file, by whose rates times are estimated, of schedules and of products;
  /// empty: h100-infiniband for cuda, cpu for cpu.
  std::string machine = {};
  bool decode = true;     ///< a program of the next token's logits beside that of all
  bool reports = false;   ///< the model's reports, or norms of its updates, are part of programs
  bool reportFp8 = false; ///< a remark on every 8-bit conversion that is a kernel of its own
  bool reportDetails = false; ///< what passes decided for each product, chain and kept value
};

} // namespace nano
