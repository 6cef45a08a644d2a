// The choice among a command's candidates on the emulator: as the CUDA runtime's, with the host's
// clock.
#include "runtime/Candidates.h"
#include "runtime/comm/Communicator.h"
#include "runtime/emulator/EmulatorDevice.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <chrono>

namespace nano::emulator {

/// The machine that choices are kept for.
static std::string machineName(const cpu::HostDevice &device) {
  return "emulator on " + device.cpu::HostDevice::describe();
}

Status EmulatorDevice::prepareCandidates() {
  for (const plan::Program &program : plan.programs)
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const plan::Command &command = program.commands[i];
      if (command.candidates.empty())
        continue;
      if (!tuning)
        tuning = Tuning::open(options.tuneFile, machineName(*this), options.report, options.tune);
      Ways &own = ways[&command];
      own.names = waysOf(plan, command);
      own.isOpen = options.tune && canChoose(plan, program, communicator.world()) &&
                   !tuning->findWay(keyOfWays(own.names));
      for (const plan::Launch &candidate : command.candidates) {
        auto launch = prepareLaunch(candidate);
        if (!launch)
          return plan::inCommand(plan, program, i, launch.error());
        own.candidates.push_back(std::move(*launch));
      }
    }
  return takeChoices();
}

/// All ranks go the ways that rank 0 has chosen: what several of them compute alike must come out
/// alike.
Status EmulatorDevice::takeChoices() {
  if (!tuning)
    return ok();
  if (communicator.world() > 1) {
    const bool isFirst = communicator.rank() == 0;
    Result<std::vector<std::string>> texts =
        communicator.exchange(isFirst ? tuning->text() : "", "choices among candidates");
    if (!texts)
      return texts.error();
    if (!isFirst)
      tuning->take((*texts)[0]);
  }
  for (auto &[command, each] : ways) {
    each.chosen = chosenWay(*tuning, each.names);
    each.isOpen &= !tuning->findWay(keyOfWays(each.names));
  }
  return ok();
}

Status EmulatorDevice::runChosen(const plan::Command &command, const std::function<Status()> &own) {
  const Ways &each = ways.at(&command);
  if (each.isOpen && communicator.rank() == 0 && !tuning->findWay(keyOfWays(each.names)))
    if (Status status = measure(command, each, own); !status)
      return status;
  return each.chosen == 0 ? own() : each.candidates[each.chosen - 1]->run();
}

Status EmulatorDevice::measure(const plan::Command &command, const Ways &each,
                               const std::function<Status()> &own) {
  constexpr int runs = 2;
  std::vector<std::pair<std::byte *, std::vector<std::byte>>> kept;
  for (const plan::Ref &ref : updatedOperands(command)) {
    std::byte *const at = address(ref);
    kept.emplace_back(at,
                      std::vector<std::byte>(at, at + plan.buffers[ref.buffer].bytes - ref.offset));
  }
  auto putBack = [&] {
    for (const auto &[at, bytes] : kept)
      std::copy(bytes.begin(), bytes.end(), at);
  };
  Status status = ok();
  auto seconds = [&](size_t way) {
    double least = 0;
    for (int i = 0; i < runs && status; ++i) {
      putBack();
      const auto start = std::chrono::steady_clock::now();
      status = way == 0 ? own() : each.candidates[way - 1]->run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      least = i == 0 ? took.count() : std::min(least, took.count());
    }
    return least;
  };
  std::vector<RunCost> costs(each.names.size());
  for (size_t way = 0; way < costs.size(); ++way)
    costs[way].seconds = seconds(way);
  chooseWay(*tuning, each.names, costs, byTime(costs), /*limit=*/0, options.report);
  putBack();
  return status;
}

/// What this program's first run has measured is taken from its next run on, by all ranks.
Status EmulatorDevice::end(const plan::Program &program) {
  bool isNew = false;
  for (const plan::Command &command : program.commands)
    if (auto found = ways.find(&command); found != ways.end())
      isNew |= found->second.isOpen;
  if (!isNew)
    return ok();
  if (communicator.rank() == 0 && !options.tuneFile.empty())
    if (Status saved = tuning->save(); !saved)
      return saved;
  return takeChoices();
}

} // namespace nano::emulator
