// Lays out launches as the CUDA runtime does, and runs their clusters.
#include "runtime/emulator/EmulatorDevice.h"
#include "base/Target.h"
#include "runtime/cpu/CpuFeatures.h"
#include "runtime/emulator/Boxes.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>

namespace nano::emulator {

using plan::Command;

/// A kernel with its parameters, and what it may touch.
class EmulatorDevice::EmulatedLaunch : public cpu::PreparedLaunch {
public:
  explicit EmulatedLaunch(EmulatorDevice &device) : device(device) {}

  Status run() override {
    if (launch.blocks == 0)
      return ok();
    launch.parameters = parameters.data();
    launch.maps = maps.data();
    if (!device.emulator.checked)
      return device.runBlocks(launch);
    for (const auto &[buffer, use] : uses) {
      Region &region = device.global[buffer];
      region.operand = true;
      region.readable = use.read;
      region.writable = use.written;
    }
    Status status = device.runBlocks(launch);
    for (const auto &[buffer, use] : uses)
      device.global[buffer].operand = false;
    return status;
  }

  struct Use {
    bool read = false, written = false;
  };
  EmulatorDevice &device;
  Launch launch;
  std::vector<int64_t> parameters; ///< the kernel's nano::Launch
  std::vector<TensorMap> maps;     ///< the kernel's nano::TensorMaps
  std::unordered_map<uint32_t, Use> uses;
};

Result<std::unique_ptr<EmulatorDevice>> EmulatorDevice::create(const plan::Plan &plan,
                                                               Communicator &communicator,
                                                               const DeviceOptions &options,
                                                               const Options &emulator) {
  if (!targetOf(plan.target).runsOn("emulator"))
    return badInput("the plan is for target " + plan.target +
                    ", the emulator runs plans for cuda; recompile the model with --target cuda");
  cpu::FlushDenormals mode;
  std::unique_ptr<EmulatorDevice> device(new EmulatorDevice(plan, communicator, options, emulator));
  CompileOptions compile;
  compile.checked = emulator.checked;
  compile.processes = std::max(1, cpu::usableCores());
  compile.cacheFolder = BuildCache::defaultFolder();
  compile.report = options.report;
  // The other ranks find in the cache what the first one compiles.
  auto meet = [&] { return communicator.barrier("compiling the kernels"); };
  const bool isFirst = communicator.rank() == 0;
  if (Status status = isFirst ? ok() : meet(); !status)
    return status.error();
  auto kernels = compileKernels(plan, compile);
  if (!kernels)
    return kernels.error();
  if (Status status = isFirst ? meet() : ok(); !status)
    return status.error();
  device->kernels = std::move(*kernels);
  for (int i = 0; i < device->team.size(); ++i)
    device->clusters.push_back(std::make_unique<Cluster>());
  if (Status status = emulator.checked ? device->allocateBuffers() : device->allocateArena();
      !status)
    return status.error();
  if (Status status = device->prepareCommands(); !status)
    return status.error();
  if (Status status = device->prepareCandidates(); !status)
    return status.error();
  return device;
}

Status EmulatorDevice::allocateBuffers() {
  constexpr uint64_t alignment = 256, gap = 4096;
  uint64_t bytes = gap;
  for (const plan::Buffer &buffer : plan.buffers) {
    offsets.push_back(bytes);
    bytes += (buffer.bytes + alignment - 1) / alignment * alignment + gap;
    // Buffers that share an arena may come to more than numbers hold.
    bytes = std::min(bytes, 2 * plan::mostArenaBytes);
  }
  if (bytes > cpu::availableMemory() / uint64_t(ranks()) || !memory.allocate(bytes))
    return badInput("out of memory: the emulator gives every buffer memory of its own, " +
                    std::to_string(bytes >> 20) +
                    " MiB in all; set NANO_EMULATOR=fast, or compile a smaller model");
  std::vector<Region> regions;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    Region region;
    region.begin = bufferAddress(uint32_t(i));
    region.bytes = plan.buffers[i].bytes;
    region.name = plan.buffers[i].name;
    region.elementBytes = int(plan::sizeOf(plan.buffers[i].type));
    regions.push_back(std::move(region));
  }
  if (!global.set(std::move(regions)))
    return failed("out of memory for the emulator's checks; set NANO_EMULATOR=fast");

  std::set<uint32_t> kept = {plan.scalarBuffer};
  for (const plan::Training *stage : plan::stagesOf(plan)) {
    kept.insert({stage->tokensBuffer, stage->targetsBuffer, stage->valTokensBuffer,
                 stage->valTargetsBuffer, stage->genTokensBuffer});
    for (const auto *columns : {&stage->columns, &stage->valColumns})
      for (const plan::Column &column : *columns)
        kept.insert(column.buffer);
  }
  for (const plan::State &state : plan.states)
    kept.insert(state.buffer);
  for (const plan::Program &program : plan.programs) {
    std::set<uint32_t> &list = voidAtStart[program.name];
    for (const Command &command : program.commands)
      for (const plan::Ref &ref : plan::operandsOf(command))
        if (!kept.count(ref.buffer))
          list.insert(ref.buffer);
  }
  // What one sampling program leaves for the other is what both touch.
  for (const plan::Training *stage : plan::stagesOf(plan)) {
    if (stage->decode.empty())
      continue;
    std::set<uint32_t> &list = voidAtStart[stage->decode];
    std::erase_if(list, [&](uint32_t buffer) {
      return buffer == stage->decodeTokenBuffer || buffer == stage->decodePositionBuffer ||
             voidAtStart[stage->generate].count(buffer) > 0;
    });
  }
  return ok();
}

std::byte *EmulatorDevice::bufferAddress(uint32_t buffer) const {
  return emulator.checked ? memory.data() + offsets[buffer] : HostDevice::bufferAddress(buffer);
}

void EmulatorDevice::begin(const plan::Program &program) {
  if (emulator.checked)
    for (uint32_t buffer : voidAtStart[program.name])
      std::memset(bufferAddress(buffer), 0xff, plan.buffers[buffer].bytes);
}

Result<std::unique_ptr<cpu::PreparedLaunch>>
EmulatorDevice::prepareLaunch(const plan::Launch &command) {
  const plan::Kernel &kernel = plan.kernels[command.kernel];
  auto prepared = std::make_unique<EmulatedLaunch>(*this);
  // nano::Launch: int32 segments, blocks; then by segment its operands, iterations, first block.
  size_t args = command.segments.empty() ? 0 : command.segments[0].args.size();
  std::vector<int64_t> &words = prepared->parameters;
  words.resize(1 + kernel.maxSegments * (args + 2));
  uint64_t blocks = 0;
  for (size_t s = 0; s < command.segments.size(); ++s) {
    const plan::Launch::Segment &segment = command.segments[s];
    int64_t *word = &words[1 + s * (args + 2)];
    for (const plan::Ref &ref : segment.args) {
      *word++ = reinterpret_cast<int64_t>(address(ref));
      EmulatedLaunch::Use &use = prepared->uses[ref.buffer];
      use.read |= ref.read;
      use.written |= ref.written;
    }
    *word++ = segment.iterations;
    *word = int64_t(blocks);
    blocks += uint64_t(segment.iterations / kernel.iterationsPerBlock) +
              uint64_t(segment.iterations % kernel.iterationsPerBlock != 0);
  }
  if (blocks > uint64_t(std::numeric_limits<int32_t>::max()))
    return badInput("kernel '" + kernel.name + "' needs more blocks than a grid has");
  std::array<int32_t, 2> counts = {int32_t(command.segments.size()), int32_t(blocks)};
  std::memcpy(words.data(), counts.data(), sizeof counts);

  Launch &launch = prepared->launch;
  launch.kernel = kernels.byIndex[command.kernel];
  if (launch.kernel->parameterBytes != words.size() * sizeof(int64_t))
    return badInput("kernel '" + kernel.name + "' takes " +
                    std::to_string(launch.kernel->parameterBytes) + " bytes of parameters, of " +
                    std::to_string(words.size() * sizeof(int64_t)) +
                    " that the plan says; recompile the model");
  if (launch.kernel->tensorMaps != kernel.tensorMaps.size())
    return badInput("kernel '" + kernel.name + "' takes " +
                    std::to_string(launch.kernel->tensorMaps) + " tensor maps, the plan has " +
                    std::to_string(kernel.tensorMaps.size()) + "; recompile the model");
  if (launch.kernel->clusterBlocks != int(kernel.clusterBlocks))
    return badInput("kernel '" + kernel.name + "' has clusters of " +
                    std::to_string(launch.kernel->clusterBlocks) + " blocks, in the plan of " +
                    std::to_string(kernel.clusterBlocks) + "; recompile the model");
  for (const plan::TensorMap &map : kernel.tensorMaps)
    prepared->maps.push_back(encode(map, address(command.segments[0].args[map.argument])));
  launch.blocks = uint32_t(blocks);
  launch.threads = kernel.threads;
  launch.sharedBytes = uint32_t(kernel.sharedBytes);
  return std::unique_ptr<cpu::PreparedLaunch>(std::move(prepared));
}

Status EmulatorDevice::runBlocks(Launch &launch) {
  launch.seed = emulator.seed + 0x9e3779b97f4a7c15u * ++launches;
  launch.exactSums = emulator.exactSums;
  auto blocksOfCluster = uint32_t(launch.kernel->clusterBlocks);
  int64_t count = (int64_t(launch.blocks) + blocksOfCluster - 1) / blocksOfCluster;
  if (emulator.checked) {
    launch.memory = &global;
    launch.serial = global.begin();
    std::vector<uint32_t> order(size_t(count), 0);
    std::iota(order.begin(), order.end(), 0u);
    Random random(launch.seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(i)]);
    for (uint32_t i : order)
      if (auto fault = clusters[0]->run(launch, i * blocksOfCluster))
        return failed(*fault);
    return ok();
  }
  std::atomic<bool> stopped = false;
  std::mutex guard;
  std::string first;
  team.forEach(count, [&](int64_t i, int thread) {
    if (stopped)
      return;
    if (auto fault = clusters[size_t(thread)]->run(launch, uint32_t(i) * blocksOfCluster)) {
      std::lock_guard lock(guard);
      if (!stopped.exchange(true))
        first = *fault;
    }
  });
  if (stopped)
    return failed(first);
  return ok();
}

std::string EmulatorDevice::describe() const {
  return std::string("emulator of a GPU, ") + (emulator.checked ? "checked" : "fast") + ", seed " +
         std::to_string(emulator.seed) + ", " + std::to_string(kernels.byIndex.size()) +
         " kernels (" + std::to_string(kernels.compiled) + " sources compiled, " +
         std::to_string(kernels.cached) + " from the cache); " + HostDevice::describe();
}

} // namespace nano::emulator
