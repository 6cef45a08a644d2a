// Kernels in the place of nanoc's functions that could not be checked where the plan was made: a
// run begins with it, and uses the plan without them where they are off.
#pragma once

#include "base/Status.h"
#include "runtime/plan/PlanFile.h"

#include <chrono>
#include <string>

namespace nano {

struct ProofRequest {
  std::string device; ///< --device; empty: what the plan is for
  /// How long it may take; then the kernels count as not checked.
  std::chrono::seconds most = std::chrono::minutes(5);
};

/// Whether each unproven kernel of the plan, on random inputs and on the device that the run is
/// for, is off by no more than its tolerance, which is told on stderr, a line a kernel. Another
/// program finds it out, so that a kernel that breaks the device breaks that one. What it finds is
/// kept with the compiled kernels, by the bytes of its plan and by the device with its versions;
/// that a check could not be made is not. BadInput: a plan inside is no plan, or there is no such
/// device. Failed: no temporary folder, or nanorun cannot be started.
Result<bool> isProven(const plan::PlanFile &file, const ProofRequest &request);

/// The plan that runs where one process decides.
Result<plan::PlanFile> provenPlan(plan::PlanFile file, const ProofRequest &request);

} // namespace nano
