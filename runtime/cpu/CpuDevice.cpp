// Makes a plan's programs ready to run on the CPU, and runs them.
#include "runtime/cpu/CpuDevice.h"
#include "runtime/cpu/CpuFeatures.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace nano::cpu {

using plan::Command;

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(const plan::Plan &plan,
                                                     Communicator &communicator,
                                                     const DeviceOptions &options) {
  if (plan.target != "cpu")
    return badInput("the plan is for target " + plan.target +
                    ", this is the CPU; recompile the model with --target cpu");
  std::vector<std::string> missing = missingFeatures(plan.cpuFeatures);
  if (!missing.empty()) {
    std::string names;
    for (const std::string &feature : missing)
      names += (names.empty() ? "" : ", ") + feature;
    return badInput("the plan's code needs processor features that this machine (" +
                    processorName() + ") lacks: " + names +
                    "; recompile the model on this machine");
  }
  int ranks = options.localRanks > 0 ? options.localRanks : communicator.world();
  FlushDenormals mode;
  std::unique_ptr<CpuDevice> device(new CpuDevice(plan, communicator, options, ranks));

  uint64_t available = availableMemory();
  if (plan.arenaBytes > available / uint64_t(ranks) || !device->arena.allocate(plan.arenaBytes))
    return outOfMemory(plan, ranks, available);
  if (!plan.kernels.empty()) {
    auto code = NativeCode::load(plan.code);
    if (!code)
      return code.error();
    device->code = std::move(*code);
  }
  if (Status status = device->prepare(); !status)
    return status.error();
  return device;
}

CpuDevice::CpuDevice(const plan::Plan &plan, Communicator &communicator,
                     const DeviceOptions &options, int ranks)
    : plan(plan), communicator(communicator), options(options),
      team(options.threads > 0 ? options.threads : std::max(1, usableCores() / ranks)),
      matmuls(team) {}

std::byte *CpuDevice::address(const plan::Ref &ref) const {
  return arena.data() + plan.buffers[ref.buffer].offset + ref.offset;
}

/// The error with the command that it came from.
Error CpuDevice::in(const plan::Program &program, size_t index, const Error &error) const {
  const Command &command = program.commands[index];
  std::string where = "program '" + program.name + "', command " + std::to_string(index);
  if (!command.label.empty())
    where += " '" + command.label + "'";
  if (command.location.line)
    where += " (" + command.location.file + ":" + std::to_string(command.location.line) + ")";
  return {error.kind, where + ": " + error.message};
}

Status CpuDevice::prepare() {
  uint64_t scratchBytes = 0;
  for (const plan::Kernel &kernel : plan.kernels)
    scratchBytes = std::max(scratchBytes, kernel.scratchBytes);
  scratchStride = size_t((scratchBytes + 4095) / 4096 * 4096);
  if (scratchStride > 0 && !scratch.allocate(scratchStride * uint64_t(team.size())))
    return failed("out of memory for the scratch memory of kernels");

  for (const plan::Program &program : plan.programs) {
    std::vector<Prepared> &list = programs[program.name];
    list.resize(program.commands.size());
    for (size_t i = 0; i < list.size(); ++i)
      if (Status status = prepare(program.commands[i], list[i]); !status)
        return in(program, i, status.error());
  }
  return matmuls.reserveScratch();
}

Status CpuDevice::prepare(const Command &command, Prepared &prepared) {
  prepared.command = &command;
  if (command.kind == Command::Kind::Matmul) {
    auto product = matmuls.get(problemOf(command));
    if (!product)
      return product.error();
    prepared.product = *product;
  }
  if (command.kind != Command::Kind::Launch)
    return ok();

  const std::string &name = plan.kernels[command.kernel].name;
  prepared.kernel = code->find(name);
  if (!prepared.kernel)
    return badInput("the plan's native code lacks kernel '" + name + "'; recompile the model");
  int64_t total = 0;
  for (const Command::Segment &segment : command.segments) {
    std::vector<void *> args;
    for (const plan::Ref &ref : segment.args)
      args.push_back(address(ref));
    prepared.args.push_back(std::move(args));
    if (__builtin_add_overflow(total, segment.iterations, &total))
      return badInput("the iteration space is too large");
  }
  for (size_t i = 0; i < command.segments.size(); ++i)
    appendChunks(prepared.args[i].data(), command.segments[i].iterations, command.segments[i].grain,
                 total, team.size(), prepared.chunks);
  return ok();
}

Status CpuDevice::checkRange(uint32_t buffer, uint64_t offset, uint64_t bytes) const {
  if (buffer >= plan.buffers.size())
    return failed("buffer " + std::to_string(buffer) + " does not exist");
  const plan::Buffer &target = plan.buffers[buffer];
  if (offset > target.bytes || bytes > target.bytes - offset)
    return failed("buffer '" + target.name + "' has " + std::to_string(target.bytes) +
                  " bytes, not " + std::to_string(bytes) + " at offset " + std::to_string(offset));
  return ok();
}

Status CpuDevice::write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) {
  if (Status status = checkRange(buffer, offset, bytes); !status)
    return status;
  if (bytes)
    std::memcpy(address({buffer, offset}), data, bytes);
  return ok();
}

Status CpuDevice::read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  if (Status status = checkRange(buffer, offset, bytes); !status)
    return status;
  if (bytes)
    std::memcpy(data, address({buffer, offset}), bytes);
  return ok();
}

Status CpuDevice::run(const std::string &name) {
  auto found = programs.find(name);
  if (found == programs.end())
    return failed("the plan has no program '" + name + "'");
  std::vector<Prepared> &list = found->second;
  using Clock = std::chrono::steady_clock;
  FlushDenormals mode;
  team.activate();
  Clock::time_point start = options.profile ? Clock::now() : Clock::time_point();
  for (size_t i = 0; i < list.size(); ++i) {
    if (Status status = execute(list[i]); !status) {
      auto program = std::find_if(plan.programs.begin(), plan.programs.end(),
                                  [&](const plan::Program &each) { return each.name == name; });
      return in(*program, i, status.error());
    }
    if (options.profile) {
      Clock::time_point end = Clock::now();
      list[i].seconds += std::chrono::duration<double>(end - start).count();
      ++list[i].runs;
      start = end;
    }
  }
  return ok();
}

Status CpuDevice::execute(const Prepared &prepared) {
  const Command &command = *prepared.command;
  switch (command.kind) {
  case Command::Kind::Launch:
    team.launch(prepared.kernel, prepared.chunks, scratch.data(), scratchStride);
    return ok();
  case Command::Kind::Matmul:
    return prepared.product->run(address(command.a), address(command.b), address(command.c),
                                 command.beta != 0 ? address(command.d) : nullptr,
                                 matmuls.scratch());
  case Command::Kind::AllReduce:
    for (size_t i = 0; i < command.refs.size(); ++i)
      if (Status status =
              communicator.allReduce(address(command.refs[i]), command.counts[i], command.type,
                                     plan.buffers[command.refs[i].buffer].name.c_str());
          !status)
        return status;
    return ok();
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

std::string CpuDevice::describe() const {
  return processorName() + ", " + std::to_string(team.size()) +
         (team.size() == 1 ? " thread, " : " threads, ") + matmulLibrary();
}

std::vector<CommandTime> CpuDevice::times() const {
  std::vector<CommandTime> result;
  for (const plan::Program &program : plan.programs)
    for (const Prepared &prepared : programs.at(program.name))
      if (prepared.runs)
        result.push_back({prepared.command, prepared.runs, prepared.seconds});
  return result;
}

} // namespace nano::cpu

extern "C" __attribute__((visibility("default"))) nano::Device *
nanoCreateDevice(const nano::plan::Plan *plan, nano::Communicator *communicator,
                 const nano::DeviceOptions *options, nano::Error *error) {
  auto device = nano::cpu::CpuDevice::create(*plan, *communicator, *options);
  if (device)
    return device->release();
  *error = device.error();
  return nullptr;
}
