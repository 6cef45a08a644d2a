// One optimizer step done by two runs, held against each other tensor by tensor: the first one in
// which they part.
#pragma once

#include "base/Status.h"
#include "runtime/Progress.h"
#include "runtime/Start.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// One of the two runs: a plan for one rank, and what it runs on.
struct ComparedRun {
  const plan::Plan *plan = nullptr;
  std::string planHash;
  std::string name; ///< for messages: "gpt.plan on emulator"
  MakeDevice makeDevice;
  int threads = 0; ///< as DeviceOptions
};

struct CompareOptions {
  std::string train; ///< pattern of shards
  StartOptions start;
  std::string tuneFile;            ///< as DeviceOptions
  bool isSamePlan = false;         ///< both are runs of one plan
  std::optional<double> tolerance; ///< relative error that is allowed; none: `defaultTolerance`
};

/// What two values of a tensor have between them. With r the root of the mean square of the one
/// with the larger norm, they agree within a tolerance t where ‖a − b‖ ≤ t·√n·r, and no element is
/// further from the other than 16·t·(r + |b|). Integers agree where they are equal; what is not
/// finite agrees with the same.
struct Distance {
  double relative = 0;  ///< ‖a − b‖ / (√n·r)
  uint64_t element = 0; ///< the one that is furthest off
  double a = 0, b = 0;  ///< its values
  bool isWithin = true;
};

/// Of `bytesOfA` and `bytesOfB`, which have the same number of elements.
Distance distanceOf(plan::DType typeOfA, const std::vector<std::byte> &bytesOfA,
                    plan::DType typeOfB, const std::vector<std::byte> &bytesOfB, double tolerance);

/// By the coarsest type of number that the steps' programs keep in memory: 2^-14 for f32, 2^-6 for
/// bf16, 2^-2 for 8 bits. What is computed in another order differs by the type's rounding, 2^-24,
/// 2^-9 and 2^-4, times what a chain of layers, or of products that make a matrix orthogonal, makes
/// of it.
double defaultTolerance(const plan::Plan &a, const plan::Plan &b);

/// What two runs of a step had in common.
struct StepComparison {
  struct Place {
    size_t command = 0; ///< in its program
    const plan::Program *program = nullptr;
    uint32_t buffer = 0;
  };
  struct Difference {
    Place a, b;
    Distance distance;
    std::string part; ///< "micro-batch 2 of 4", "the update"
  };
  int64_t step = 0; ///< counted from 1
  double tolerance = 0;
  size_t values = 0;                         ///< that were compared and agree
  double largest = 0;                        ///< relative error among them
  std::string largestAt;                     ///< the buffer that has it
  size_t withoutOther[2] = {0, 0};           ///< values of A, of B, that the other run has none for
  std::optional<Difference> firstDifference; ///< in the order of A's commands
};

/// Runs the step that comes after the start (the first one, or the one after a checkpoint) on both,
/// each command by itself, and reads every tensor as soon as it is whole: buffers share bytes. Two
/// runs of one plan go command by command, and the second goes on with what the first has computed,
/// so that a difference is one command's own. Two plans begin each micro-batch, and the update
/// where both have it apart, with the same states, the first one's; within these, tensors are held
/// against those with the same name (`visitsOf`): each against the one in the same place among
/// them, and where these differ against the others. Where one plan has more of a name than the
/// other, as by fusing otherwise, those that agree with none are counted and not said to differ.
/// BadInput: plans of other models, sizes or data; plans that have no model line in common; a bad
/// start. Failed: a device fails.
Result<StepComparison> compareRuns(const ComparedRun &a, const ComparedRun &b,
                                   const CompareOptions &options, Console &console);

/// What was found, several lines, with both commands and the model line where the runs differ.
std::string toString(const ComparedRun &a, const ComparedRun &b, const StepComparison &found);

} // namespace nano
