// What a compilation tells the page of its passes: plain structs, which the driver fills.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano::explore {

/// Lines of IR before and after a pass, with what is the same around them.
struct TextRegion {
  int64_t lineBefore = 0, lineAfter = 0; ///< 1-based, of the first line
  std::string lead;                      ///< the lines before, which are the same in both
  std::string before, after;             ///< lines, each with its newline; of many the first ones
  int64_t linesLeftOut = 0;              ///< of both
  /// Names of values that both sides have: %12 before is %15 after.
  std::vector<std::pair<std::string, std::string>> same;
};

/// A function, program or kernel that a pass has changed.
struct FunctionChange {
  std::string name;
  int64_t opsBefore = 0, opsAfter = 0; ///< 0 where there is none
  std::vector<TextRegion> regions;     ///< the first ones of those that changed
  int64_t regionsLeftOut = 0;          ///< changed regions that are not in `regions`
};

/// What a program runs, each of its functions once, as it stands: every op is a kernel until what
/// is fused is one.
struct ProgramWork {
  std::optional<int64_t> kernels; ///< and library calls and collectives
  std::optional<int64_t>
      bytes; ///< that they read and write; none where tensors have become buffers
  bool operator==(const ProgramWork &) const = default;
};

/// A pass on one program.
struct PassRecord {
  std::string stage, pass; ///< as `nanoc stages` and nano-opt call them
  std::string runStage;    ///< the stage of the run; empty: all of it
  int64_t world = 0;       ///< 0: of all numbers of ranks
  double seconds = 0;
  int64_t opsBefore = 0, opsAfter = 0;
  ProgramWork workBefore, workAfter;
  std::vector<std::string> remarks;      ///< "models/x.cpp:41: remark: …"
  std::vector<FunctionChange> functions; ///< of the first number of ranks; else empty
  bool isFailed = false;                 ///< it reported an error, and nothing ran behind it
};

/// The ops that stand for a model line after a stage: "models/x.cpp:41" → "nano.matmul" → 12.
using LineOps = std::map<std::string, std::map<std::string, int64_t>>;

struct StageRecord {
  std::string name, summary;
  LineOps ops; ///< of the first number of ranks
};

/// Why there is no plan.
struct Failure {
  std::string message; ///< without its place
  std::string line;    ///< "models/x.cpp:41"; empty where there is none
};

struct PassRecords {
  std::vector<PassRecord> passes; ///< in the order of the pipeline; of one pass by program
  std::vector<StageRecord> stages;
  std::map<std::string, std::string> kernels;         ///< for the CPU: the loops of each, by name
  std::vector<std::pair<std::string, double>> phases; ///< all of the compilation, seconds
  std::optional<Failure> failure;
};

} // namespace nano::explore
