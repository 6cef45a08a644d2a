// What differs between two plans, as tables: for `nanoc diff` to print and `nanoc explore` to show.
#pragma once

#include "base/Status.h"
#include "compiler/inspect/StepFacts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nano::inspect {

struct CompareOptions {
  std::string a, b;    ///< the plan files
  int64_t world = 0;   ///< the number of ranks; 0: the smallest one that both are for
  std::string machine; ///< by whose rates times are predicted; empty: by A's target
};

/// What a row of a table compares.
struct Entry {
  Cost cost;
  double memory = 0; ///< bytes of buffers
};

/// Of one line, kernel or call.
struct Row {
  std::string name; ///< empty: of no line
  Entry a, b;
};

/// A kernel that one plan alone has, or that is not the same in both.
struct KernelChange {
  std::string name;
  char sign = ' ';  ///< '-': of A alone; '+': of B alone
  std::string what; ///< what it does; of a kernel of both what has changed
  std::string a, b; ///< its text, of CUDA; of a kernel of both where it is another
};

/// One plan's figures of a step.
struct SideTotals {
  std::string hash;
  std::vector<int64_t> worlds; ///< that its file is for, rising
  double seconds = 0;          ///< a step, predicted
  Cost total;
  double arena = 0; ///< bytes
  size_t kernels = 0;
};

struct Comparison {
  SideTotals a, b;
  int64_t world = 1;      ///< the number of ranks that is compared
  std::string machine;    ///< its name
  bool hasStages = false; ///< one of the runs has several stages; the first one's step is compared
  /// By number of ranks that both are for: parts of the plans that are not equal; none: all are.
  std::vector<std::pair<int64_t, std::vector<std::string>>> parts;
  struct Value {
    std::string name, a, b; ///< "(none)" where there is none
  };
  std::vector<Value> hyperparameters; ///< that differ
  std::vector<Row> lines, workers; ///< that differ: by model line, by kernel or library call; most
                                   ///< time first, then most memory
  std::vector<KernelChange> kernels;
  bool isEqual() const { return a.hash == b.hash; }
};

/// Equal but for sums in another order.
bool isClose(double a, double b);

/// Compares two plan files; of equal ones only the hashes are filled. BadInput: a file that is no
/// plan, no number of ranks in common, an unknown machine.
Result<Comparison> compare(const CompareOptions &options);

} // namespace nano::inspect
