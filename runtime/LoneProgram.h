// One or two programs of a plan on one rank, without what trains: for sampling and for measuring a
// trained model.
#pragma once

#include "base/Status.h"
#include "runtime/Progress.h"
#include "runtime/Start.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

namespace nano {

struct LoneOptions {
  StartOptions start;
  int threads = 0;      ///< as DeviceOptions
  std::string tuneFile; ///< as DeviceOptions
};

/// A device with the plan's parameters, for programs of these roles.
class LoneProgram {
public:
  /// Which of a stage's programs.
  using Role = std::string plan::Training::*;

  /// Run-time scalars have their values of the checkpoint's step, or of the last step where there
  /// is no checkpoint; the programs are those of the step's stage, the last of which may be none.
  /// `option`: who asks, for messages. BadInput: a bad start.
  static Result<std::unique_ptr<LoneProgram>>
  open(const plan::Plan &plan, const std::string &planHash, std::initializer_list<Role> roles,
       const std::string &option, const LoneOptions &options, const MakeDevice &makeDevice,
       Console &console);

  Device &device() { return *made; }
  /// The stage of the run that the step is of, whose program it is.
  const plan::Training &training() const { return *stage; }
  /// Optimizer steps that the parameters have been trained for; the plan's where that is unknown.
  int64_t step() const { return steps; }
  /// Runs the program of `role` once and waits for it. Failed, with `where`, for an index out of
  /// range.
  Status run(Role role, const plan::IndexChecks &checks, const std::string &where);

private:
  LoneProgram() : group(1) {}

  plan::Plan alone;
  const plan::Training *stage = nullptr; ///< of it
  LocalGroup group;
  std::unique_ptr<Device> made;
  std::string option;
  int64_t steps = 0;
};

} // namespace nano
