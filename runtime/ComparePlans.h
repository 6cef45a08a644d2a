// A plan's step on two devices, or the steps of two plans: what `nanorun --compare` holds against
// each other.
#pragma once

#include "runtime/CompareRuns.h"
#include "runtime/plan/PlanFile.h"

#include <functional>
#include <string>

namespace nano {

struct CompareRequest {
  std::string plan;    ///< the plan's file, for messages
  std::string device;  ///< that it runs on; empty: its target
  std::string other;   ///< a device, for the same plan, or the file of another one
  int threads = 0;     ///< as DeviceOptions
  CompareOptions runs; ///< `isSamePlan` follows from `other`
  /// Reads `other` where it is a file.
  std::function<Result<plan::PlanFile>(const std::string &path)> open;
  std::function<MakeDevice(const std::string &device)> on;
};

struct PlanComparison {
  std::string text; ///< several lines
  Status agrees;    ///< Failed where the runs differ, with the first buffer in which they do
};

/// Another plan runs on `device` too where it can, else on its own target. A plan on one and the
/// same device is run with one thread the second time, and then has to be equal. BadInput, as
/// `compareRuns`: a plan that is not for one rank, or not for the device.
Result<PlanComparison> comparePlans(const plan::PlanFile &file, const CompareRequest &request,
                                    Console &console);

} // namespace nano
