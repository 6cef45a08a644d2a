// Makes a device for a few programs and runs them.
#include "runtime/LoneProgram.h"

#include "runtime/States.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <vector>

namespace nano {

/// Leaves a plan of a few programs the parameters, tables, and what else they read or what that
/// starts as a copy of.
static void keepStates(plan::Plan &plan) {
  using Role = plan::State::Role;
  std::set<uint32_t> touched;
  for (const plan::Program &program : plan.programs)
    for (const plan::Command &command : program.commands)
      for (const plan::Ref &ref : plan::operandsOf(command))
        touched.insert(ref.buffer);
  std::set<std::string> kept;
  auto keeps = [&](const plan::State &state) {
    return state.role == Role::Parameter || state.role == Role::Constant ||
           touched.count(state.buffer) > 0 || kept.count(state.name) > 0;
  };
  for (size_t before = SIZE_MAX; before != kept.size();) {
    before = kept.size();
    for (const plan::State &state : plan.states)
      if (keeps(state) && isCopy(state))
        kept.insert(state.init.source);
  }
  std::erase_if(plan.states, [&](const plan::State &state) { return !keeps(state); });
}

Result<std::unique_ptr<LoneProgram>>
LoneProgram::open(const plan::Plan &plan, const std::string &planHash,
                  std::initializer_list<Role> roles, const std::string &option,
                  const LoneOptions &options, const MakeDevice &makeDevice, Console &console) {
  const Report report = [&](const std::string &line) { console.say(line); };
  Result<Start> start = Start::open(plan, planHash, options.start, report);
  if (!start)
    return start.error();
  std::unique_ptr<LoneProgram> lone(new LoneProgram());
  lone->steps = start->manifest() ? start->manifest()->step : plan.training.numIterations;
  lone->option = option;
  lone->alone = plan;
  plan::Plan &alone = lone->alone;
  lone->stage = &plan::stageAt(alone, lone->steps);
  alone.worlds = {1};
  alone.group = 1;
  std::erase_if(alone.programs, [&](const plan::Program &program) {
    return std::none_of(roles.begin(), roles.end(),
                        [&](Role role) { return lone->stage->*role == program.name; });
  });
  keepStates(alone);
  DeviceOptions deviceOptions;
  deviceOptions.threads = options.threads;
  deviceOptions.tuneFile = options.tuneFile;
  deviceOptions.report = report;
  Result<std::unique_ptr<Device>> device =
      makeDevice(alone, lone->group.communicator(0), deviceOptions);
  if (!device)
    return device.error();
  lone->made = std::move(*device);
  if (Status status = start->write(alone, Seat(), *lone->made, threadsPerRank(options.threads, 1));
      !status)
    return status.error();
  if (Status status = writeScalars(plan, lone->steps, 1, *lone->made); !status)
    return status.error();
  return lone;
}

Status LoneProgram::run(Role role, const plan::IndexChecks &checks, const std::string &where) {
  if (Status status = made->run(stage->*role); !status)
    return status;
  if (Status status = made->wait(); !status)
    return status;
  if (checks.list.empty())
    return ok();
  std::vector<int32_t> checked(checks.list.size());
  if (Status status =
          made->read(checks.buffer, 0, checked.data(), checked.size() * sizeof(int32_t));
      !status)
    return status;
  const std::string index = plan::indexOutOfRange(checks, checked.data());
  return index.empty() ? ok() : failed(fmt::format("{}: {}: {}", option, where, index));
}

} // namespace nano
