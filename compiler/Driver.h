// What `nanoc` does: model file in, plan out. Every step of it is reported as one line or one
// message.
#pragma once

#include "compiler/PipelineOptions.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nano {

namespace explore {
struct PassRecords;
} // namespace explore

struct CompileOptions {
  PipelineOptions pipeline = {.target = ""}; ///< what the user asks for; an empty target:
                                             ///< `defaultTarget`
  std::string model;                         ///< the model file; with `from` the file of IR
  std::string output;                        ///< the plan file; may be empty with `stopAfter`
  std::vector<std::pair<std::string, std::string>> overrides; ///< -D name=value
  std::string fp8Scales;                                      ///< --fp8-scales; empty: none
  std::vector<std::string> reports;                           ///< --reports; empty: none
  std::vector<int64_t> worlds{1}; ///< with `from`, empty: those that the IR is for
  int64_t maxMemory = 0;          ///< --max-memory, bytes a rank; 0: no limit
  std::string dumpDirectory;      ///< --dump-ir; empty: none
  std::string from;               ///< the stage that `model` is IR of; empty: a model file
  std::string stopAfter;          ///< a stage's name; empty: none
  bool locations = false;         ///< with `stopAfter`: the IR with its model lines
  bool printPipeline = false;     ///< print the passes up to `stopAfter` and do nothing else
  bool reportMemory = false;
  bool checkKernels = false; ///< --check-kernels
  bool checkAtRun = false;   ///< --check-at-run
  /// Checks of kernels that are left to a run in any case, by name: those of a plan that is made
  /// again.
  std::set<std::string> unproven = {};
  bool timing = false;
  bool verbose = false; ///< all that the host compiler says of a model file
  std::string knownAs;  ///< the path by which the plan names the model file; empty: `model`
  bool quiet = false;   ///< says nothing about the plan that was written
  explore::PassRecords *passes = nullptr; ///< where to put what the passes did; null: nowhere
};

/// What plans are for unless told: "cuda" when built where the CUDA toolkit is, else "cpu".
const char *defaultTarget();

/// Exit statuses of nanoc.
enum Exit : int { Done = 0, RunFailed = 1, BadInput = 2 };

/// `nanoc compile`. Results go to stdout, messages to stderr. Returns an exit status; throws
/// nothing but std::bad_alloc.
int compileModel(const CompileOptions &options);

/// `nanoc params`: hyperparameters and parameters as tables on stdout.
int listParameters(const std::string &model,
                   const std::vector<std::pair<std::string, std::string>> &overrides,
                   bool isVerbose);

/// `nanoc stages`: the stage table on stdout.
int listStages();

} // namespace nano
