// Makes a device for one program and runs it.
#include "runtime/LoneProgram.h"

#include "runtime/plan/Messages.h"

#include <fmt/format.h>
#include <vector>

namespace nano {

Result<std::unique_ptr<LoneProgram>>
LoneProgram::open(const plan::Plan &plan, const std::string &planHash,
                  std::string plan::Training::*role, const std::string &option,
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
  const std::string &program = lone->program = lone->stage->*role;
  alone.worlds = {1};
  alone.group = 1;
  std::erase_if(alone.programs, [&](const plan::Program &p) { return p.name != program; });
  std::erase_if(alone.states,
                [](const plan::State &s) { return s.role != plan::State::Role::Parameter; });
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

Status LoneProgram::run(const plan::IndexChecks &checks, const std::string &where) {
  if (Status status = made->run(program); !status)
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
