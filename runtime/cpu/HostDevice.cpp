// Makes a plan's programs ready to run on the host's processor, and runs them.
#include "runtime/cpu/HostDevice.h"
#include "runtime/cpu/CpuFeatures.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace nano::cpu {

using plan::Command;

HostDevice::HostDevice(const plan::Plan &plan, Communicator &communicator,
                       const DeviceOptions &options)
    : plan(plan), communicator(communicator), options(options),
      team(options.threads > 0 ? options.threads : std::max(1, usableCores() / ranks())),
      matmuls(team) {}

int HostDevice::ranks() const {
  return options.localRanks > 0 ? options.localRanks : communicator.world();
}

Status HostDevice::allocateArena() {
  uint64_t available = availableMemory();
  if (plan.arenaBytes > available / uint64_t(ranks()) || !arena.allocate(plan.arenaBytes))
    return plan::outOfMemory(plan, ranks(), available);
  return ok();
}

Status HostDevice::prepareCommands() {
  if (Status status = communicator.setGroup(int(plan.group)); !status)
    return status;
  for (const plan::Program &program : plan.programs) {
    PreparedProgram &prepared = programs[program.name];
    prepared.program = &program;
    prepared.commands.resize(program.commands.size());
    for (size_t i = 0; i < program.commands.size(); ++i)
      if (Status status = prepare(program.commands[i], prepared.commands[i]); !status)
        return plan::inCommand(plan, program, i, status.error());
  }
  return matmuls.reserveScratch();
}

Status HostDevice::prepare(const Command &command, Prepared &prepared) {
  prepared.command = &command;
  if (command.kind == Command::Kind::Matmul) {
    auto product = matmuls.get(problemOf(command));
    if (!product)
      return product.error();
    prepared.product = *product;
  }
  if (command.kind == Command::Kind::Launch) {
    auto launch = prepareLaunch(command);
    if (!launch)
      return launch.error();
    prepared.launch = std::move(*launch);
  }
  if (isCollective(command))
    for (size_t i = 0; i < command.counts.size(); ++i) {
      size_t first = command.kind == Command::Kind::AllReduce ? i : 2 * i;
      prepared.names.push_back(plan::nameOfExchange(plan, command, command.refs[first]));
    }
  return ok();
}

Status HostDevice::write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) {
  if (Status status = plan::checkRange(plan, buffer, offset, bytes); !status)
    return status;
  if (bytes)
    std::memcpy(address({buffer, offset}), data, bytes);
  return ok();
}

Status HostDevice::clear(uint32_t buffer) {
  const uint64_t bytes = buffer < plan.buffers.size() ? plan.buffers[buffer].bytes : 0;
  if (Status status = plan::checkRange(plan, buffer, 0, bytes); !status)
    return status;
  if (bytes)
    std::memset(address({buffer, 0}), 0, bytes);
  return ok();
}

Status HostDevice::read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  if (Status status = plan::checkRange(plan, buffer, offset, bytes); !status)
    return status;
  if (bytes)
    std::memcpy(data, address({buffer, offset}), bytes);
  return ok();
}

Status HostDevice::run(const std::string &name) {
  auto found = programs.find(name);
  if (found == programs.end())
    return failed("the plan has no program '" + name + "'");
  PreparedProgram &prepared = found->second;
  using Clock = std::chrono::steady_clock;
  FlushDenormals mode;
  team.activate();
  begin(*prepared.program);
  const bool isMeasured = options.profile || options.trace;
  Clock::time_point start = isMeasured ? Clock::now() : Clock::time_point();
  for (size_t i = 0; i < prepared.commands.size(); ++i) {
    Prepared &command = prepared.commands[i];
    if (Status status = execute(command); !status)
      return plan::inCommand(plan, *prepared.program, i, status.error());
    if (!isMeasured)
      continue;
    Clock::time_point end = Clock::now();
    double seconds = std::chrono::duration<double>(end - start).count();
    command.seconds += seconds;
    ++command.runs;
    if (options.trace)
      spans.push_back({command.command,
                       std::chrono::duration<double>(start.time_since_epoch()).count(), seconds});
    start = end;
  }
  return ok();
}

Status HostDevice::runCommand(const std::string &name, size_t command) {
  auto found = programs.find(name);
  if (found == programs.end() || command >= found->second.commands.size())
    return failed("the plan has no program '" + name + "' with so many commands");
  FlushDenormals mode;
  team.activate();
  if (Status status = execute(found->second.commands[command]); !status)
    return plan::inCommand(plan, *found->second.program, command, status.error());
  return ok();
}

MatmulOperands HostDevice::operandsOf(const Command &command) const {
  MatmulOperands operands{address(command.a), address(command.b), address(command.c)};
  if (command.beta != 0)
    operands.d = address(command.d);
  if (command.scaled) {
    operands.scaleA = reinterpret_cast<const float *>(address(command.scaleA));
    operands.scaleB = reinterpret_cast<const float *>(address(command.scaleB));
  }
  return operands;
}

Status HostDevice::execute(const Prepared &prepared) {
  const Command &command = *prepared.command;
  switch (command.kind) {
  case Command::Kind::Launch:
    return prepared.launch->run();
  case Command::Kind::Matmul:
    return prepared.product->run(operandsOf(command), matmuls.scratch());
  case Command::Kind::AllReduce:
  case Command::Kind::ReduceScatter:
  case Command::Kind::AllGather:
    return communicate(prepared);
  case Command::Kind::Shard: {
    const int place =
        placeOf(command.ranks, communicator.rank(), communicator.world(), int(plan.group)).place;
    for (size_t i = 0; i < command.counts.size(); ++i) {
      uint64_t bytes = uint64_t(command.counts[i]) * plan::sizeOf(command.type);
      team.copy(address(command.refs[2 * i + 1]),
                address(command.refs[2 * i]) + uint64_t(place) * bytes, bytes);
    }
    return ok();
  }
  case Command::Kind::Fill:
    team.zero(address(command.refs[0]), uint64_t(command.counts[0]) * plan::sizeOf(command.type));
    return ok();
  case Command::Kind::Copy:
    team.copy(address(command.refs[1]), address(command.refs[0]),
              uint64_t(command.counts[0]) * plan::sizeOf(command.type));
    return ok();
  case Command::Kind::RecordEvent:
  case Command::Kind::WaitEvent:
    return ok();
  }
  return failed("unknown kind of command");
}

Status HostDevice::communicate(const Prepared &prepared) {
  const Command &command = *prepared.command;
  for (size_t i = 0; i < command.counts.size(); ++i) {
    const char *name = prepared.names[i].c_str();
    const int64_t count = command.counts[i];
    Status status = ok();
    if (command.kind == Command::Kind::AllReduce)
      status = communicator.allReduce(address(command.refs[i]), count, command.type,
                                      command.maximum ? Combine::Max : Combine::Sum, command.ranks,
                                      name);
    else if (command.kind == Command::Kind::ReduceScatter)
      status =
          communicator.reduceScatter(address(command.refs[2 * i]), address(command.refs[2 * i + 1]),
                                     count, command.type, command.ranks, name);
    else
      status =
          communicator.allGather(address(command.refs[2 * i]), address(command.refs[2 * i + 1]),
                                 count, command.type, command.ranks, name);
    if (!status)
      return status;
  }
  return ok();
}

std::string HostDevice::describe() const {
  return processorName() + ", " + std::to_string(team.size()) +
         (team.size() == 1 ? " thread, " : " threads, ") + matmulLibrary();
}

std::vector<CommandTime> HostDevice::times() const { return timesOf(plan, programs); }

} // namespace nano::cpu
