// What a plan's programs report of each step: read with the losses, combined over micro-batches and
// ranks, told to the log, the progress line and TensorBoard. docs/reports.md has the rules.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// What one report says of a step.
struct ReportFacts {
  const plan::Report *report = nullptr;
  double value = 0; ///< mean, norm, or largest magnitude; of a histogram 0
  // Of a histogram.
  std::vector<double> counts; ///< one more than the report has edges
  double least = 0, most = 0, sum = 0, squares = 0;

  double elements() const;
};

/// A number for the eye: "0.0123", or of a histogram its range, "-3.1..4.2".
std::string shortText(const ReportFacts &facts);

/// Which of a plan's reports the progress line shows.
class ShownReports {
public:
  /// `names`: of reports, with wildcards as of file names. BadInput, with the option's name, for
  /// one that the plan does not report.
  static Result<ShownReports> create(const plan::Plan &plan, const std::vector<std::string> &names);

  /// "  acts 0.0123  grad_norm/blocks 1.2", of those among `facts`; what is not among them stays as
  /// it was.
  std::string text(const std::vector<ReportFacts> &facts);

private:
  struct Shown {
    std::string name, value;
  };
  std::vector<Shown> shown;
};

/// Reads one rank's reports, a step at a time.
class ReportReader {
public:
  explicit ReportReader(const plan::Training &training);

  /// Whether the plan reports anything of micro-batches, and of updates.
  bool hasMicroBatches() const { return !ofMicroBatches.list.empty(); }
  bool hasSteps() const { return !ofSteps.list.empty(); }

  /// Makes room for a step of so many sequences.
  void expect(size_t sequences);
  /// Reads what the program that ran last, of that sequence, has left, as `readLater` does.
  Status readSequence(Device &device, size_t sequence);
  /// Reads what the update has left, as `readLater` does.
  Status readStep(Device &device);

  /// Of each sequence its numbers, zeros where another rank has it: their sums over ranks are what
  /// `sequenceFacts` wants.
  std::vector<float> &numbers() { return sequenceNumbers; }
  /// What the micro-batches of the step report together, summed up in f64 in the order of their
  /// sequences: means of means, roots of sums of squares, the largest magnitudes, sums of counts.
  std::vector<ReportFacts> sequenceFacts() const;
  /// What the updates of a step of that phase report.
  std::vector<ReportFacts> stepFacts(int64_t phase) const;

private:
  /// Reports whose numbers lie in one buffer.
  struct Group {
    std::vector<const plan::Report *> list;
    uint32_t buffer = 0;
    uint64_t offset = 0; ///< bytes
    size_t count = 0;    ///< numbers, from the first report's to the last's
    size_t placeOf(const plan::Report &report) const {
      return size_t(report.offset - offset) / sizeof(float);
    }
  };
  static Group groupOf(const plan::Training &training, bool eachStep);

  Group ofMicroBatches, ofSteps;
  std::vector<float> sequenceNumbers, stepNumbers;
};

} // namespace nano
