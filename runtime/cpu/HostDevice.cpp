// Makes a plan's programs ready to run on the host's processor, and runs them.
#include "runtime/cpu/HostDevice.h"
#include "runtime/cpu/CpuFeatures.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/Overload.h"
#include "runtime/plan/Work.h"

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
  const uint64_t bytes = plan::memoryEnd(plan);
  if (bytes > available / uint64_t(ranks()) || !arena.allocate(bytes))
    return plan::outOfMemory(plan, ranks(), available, bytes - plan.arenaBytes);
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
  if (const auto *matmul = command.as<plan::Matmul>()) {
    auto product = matmuls.get(problemOf(*matmul));
    if (!product)
      return product.error();
    prepared.product = *product;
  }
  if (const auto *action = command.as<plan::Launch>()) {
    auto launch = prepareLaunch(*action);
    if (!launch)
      return launch.error();
    prepared.launch = std::move(*launch);
  }
  if (!plan::isCollective(command))
    return ok();
  prepared.exchange = *exchangeOf(command);
  for (const plan::Move &move : prepared.exchange.moves)
    prepared.names.push_back(plan::nameOfExchange(plan, command, move.from));
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
    Clock::time_point now = Clock::now();
    double seconds = std::chrono::duration<double>(now - start).count();
    command.seconds += seconds;
    ++command.runs;
    if (options.trace) {
      spans.push_back({command.command,
                       std::chrono::duration<double>(start.time_since_epoch()).count(), seconds,
                       decidedFlops(*command.command)});
      now = Clock::now();
    }
    start = now;
  }
  return end(*prepared.program);
}

double HostDevice::decidedFlops(const plan::Command &command) const {
  const auto *launch = command.as<plan::Launch>();
  if (!launch)
    return 0;
  std::vector<double> keys;
  for (const plan::KeyRanges &ranges : plan::keyRangesOf(plan, *launch))
    keys.push_back(plan::meanKeys(reinterpret_cast<const int32_t *>(address(ranges.first)),
                                  reinterpret_cast<const int32_t *>(address(ranges.last)),
                                  ranges.queries));
  return plan::attentionFlops(plan, *launch, keys);
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

MatmulOperands HostDevice::operandsOf(const plan::Matmul &matmul) const {
  MatmulOperands operands{address(matmul.a), address(matmul.b), address(matmul.c)};
  if (matmul.beta != 0)
    operands.d = address(matmul.d);
  if (matmul.scales) {
    operands.scaleA = reinterpret_cast<const float *>(address(matmul.scales->a));
    operands.scaleB = reinterpret_cast<const float *>(address(matmul.scales->b));
  }
  return operands;
}

Status HostDevice::execute(const Prepared &prepared) {
  return prepared.command->candidates.empty()
             ? executeOwn(prepared)
             : runChosen(*prepared.command, [&] { return executeOwn(prepared); });
}

Status HostDevice::executeOwn(const Prepared &prepared) {
  auto bytesOf = [](plan::DType type, int64_t count) {
    return uint64_t(count) * plan::sizeOf(type);
  };
  return std::visit(
      Overload{
          [&](const plan::Launch &) { return prepared.launch->run(); },
          [&](const plan::Matmul &matmul) {
            return prepared.product->run(operandsOf(matmul), matmuls.scratch());
          },
          [&](const plan::Shard &shard) {
            const int place =
                placeOf(shard.ranks, communicator.rank(), communicator.world(), int(plan.group))
                    .place;
            for (const plan::Move &move : shard.moves) {
              const uint64_t bytes = bytesOf(shard.type, move.count);
              team.copy(address(move.to), address(move.from) + uint64_t(place) * bytes, bytes);
            }
            return ok();
          },
          [&](const plan::Fill &fill) {
            team.zero(address(fill.to), bytesOf(fill.type, fill.count));
            return ok();
          },
          [&](const plan::Copy &copy) {
            team.copy(address(copy.to), address(copy.from), bytesOf(copy.type, copy.count));
            return ok();
          },
          [](const plan::RecordEvent &) { return ok(); },
          [](const plan::WaitEvent &) { return ok(); },
          [&](const auto &) { return communicate(prepared); },
      },
      prepared.command->action);
}

Status HostDevice::communicate(const Prepared &prepared) {
  const Command &command = *prepared.command;
  const plan::Exchange &exchange = prepared.exchange;
  const auto *reduce = command.as<plan::AllReduce>();
  for (size_t i = 0; i < exchange.moves.size(); ++i) {
    const char *name = prepared.names[i].c_str();
    const auto &[from, to, count] = exchange.moves[i];
    Status status = ok();
    if (reduce)
      status = communicator.allReduce(address(to), count, exchange.type,
                                      reduce->maximum ? Combine::Max : Combine::Sum, exchange.ranks,
                                      name);
    else if (command.is<plan::ReduceScatter>())
      status = communicator.reduceScatter(address(from), address(to), count, exchange.type,
                                          exchange.ranks, name);
    else
      status = communicator.allGather(address(from), address(to), count, exchange.type,
                                      exchange.ranks, name);
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
