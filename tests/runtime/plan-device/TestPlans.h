// Hand-made plans for tests of the format and of devices.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace nano::test {

/// The bytes of a file; fails the test when it cannot be read.
std::string readBytes(const std::string &path);
/// The shared object of Kernels.c, and that of OtherKernels.c.
const std::string &kernelCode();
const std::string &otherKernelCode();

/// A valid plan in which every field has a value other than its default and every kind of command
/// occurs.
plan::Plan fullPlan();
/// The same for target cuda, with a source of every kernel and a header.
plan::Plan fullCudaPlan();
/// That of fullPlan in two stages: "short" for 40 steps, then "long" with half the batch.
plan::Plan stagedPlan();
/// The plans of one file: that of fullPlan, for 2 and 4 ranks, and a smaller one for 1.
std::vector<plan::Plan> variants();

/// Builds plans piece by piece: buffers one behind the other, one program "main".
class PlanBuilder {
public:
  PlanBuilder();
  /// A new buffer; returns its index.
  uint32_t buffer(const std::string &name, plan::DType type, std::vector<int64_t> shape);
  /// The index of the kernel of that name in Kernels.c.
  uint32_t kernel(const std::string &name, uint64_t scratchBytes = 0);
  /// Appends to program "main".
  template <typename Action> Action &add(const std::string &label = "") {
    plan::Command &command = plan.programs[0].commands.emplace_back();
    command.label = label;
    return command.action.emplace<Action>();
  }
  /// The command that was added last.
  plan::Command &last() { return plan.programs[0].commands.back(); }

  plan::Plan plan;
};

} // namespace nano::test
