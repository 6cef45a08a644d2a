// Loads a plan's native code and splits its launches over the threads of the rank.
#include "runtime/cpu/CpuDevice.h"
#include "base/Target.h"
#include "runtime/cpu/CpuFeatures.h"

#include <algorithm>

namespace nano::cpu {

/// A kernel, its operands by segment, and the chunks of its iterations.
class CpuDevice::Launch : public PreparedLaunch {
public:
  Launch(const CpuDevice &device, plan::KernelFunction kernel) : device(device), kernel(kernel) {}

  Status run() override {
    device.team.launch(kernel, chunks, device.scratch.data(), device.scratchStride);
    return ok();
  }

  const CpuDevice &device;
  plan::KernelFunction kernel;
  std::vector<std::vector<void *>> args;
  std::vector<Chunk> chunks;
};

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(const plan::Plan &plan,
                                                     Communicator &communicator,
                                                     const DeviceOptions &options) {
  if (!targetOf(plan.target).runsOn("cpu"))
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
  FlushDenormals mode;
  std::unique_ptr<CpuDevice> device(new CpuDevice(plan, communicator, options));
  if (Status status = device->allocateArena(); !status)
    return status.error();
  if (!plan.kernels.empty()) {
    auto code = plan::LoadedCode::load(plan.code);
    if (!code)
      return Error{code.error().kind,
                   "the plan's " + code.error().message + "; recompile the model on this machine"};
    device->code = std::move(*code);
  }
  if (Status status = device->allocateScratch(); !status)
    return status.error();
  if (Status status = device->prepareCommands(); !status)
    return status.error();
  return device;
}

Status CpuDevice::allocateScratch() {
  uint64_t scratchBytes = 0;
  for (const plan::Kernel &kernel : plan.kernels)
    scratchBytes = std::max(scratchBytes, kernel.scratchBytes);
  scratchStride = size_t((scratchBytes + 4095) / 4096 * 4096);
  if (scratchStride > 0 && !scratch.allocate(scratchStride * uint64_t(team.size())))
    return failed("out of memory for the scratch memory of kernels");
  return ok();
}

Result<std::unique_ptr<PreparedLaunch>> CpuDevice::prepareLaunch(const plan::Launch &command) {
  const std::string &name = plan.kernels[command.kernel].name;
  plan::KernelFunction kernel = code->find(name);
  if (!kernel)
    return badInput("the plan's native code lacks kernel '" + name + "'; recompile the model");
  auto launch = std::make_unique<Launch>(*this, kernel);
  int64_t total = 0;
  for (const plan::Launch::Segment &segment : command.segments) {
    std::vector<void *> args;
    for (const plan::Ref &ref : segment.args)
      args.push_back(address(ref));
    launch->args.push_back(std::move(args));
    if (__builtin_add_overflow(total, segment.iterations, &total))
      return badInput("the iteration space is too large");
  }
  for (size_t i = 0; i < command.segments.size(); ++i)
    appendChunks(launch->args[i].data(), command.segments[i].iterations, command.segments[i].grain,
                 total, team.size(), launch->chunks);
  return std::unique_ptr<PreparedLaunch>(std::move(launch));
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
