// Makes a plan's kernels and commands ready for the GPU: parameters, products, parts of exchanges.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/TensorMaps.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cstring>

namespace nano::cuda {
namespace {

using plan::Command;

std::string rangeName(const Command &command) {
  std::string text = command.label.empty() ? "command" : command.label;
  if (command.location.line)
    text += " " + command.location.file + ":" + std::to_string(command.location.line);
  return text;
}

} // namespace

void CudaDevice::loadKernels(const KernelCode &compiled) {
  std::unordered_map<std::string, CUmodule> modules;
  int mostShared = gpu.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  const std::vector<bool> isLaunched = plan::launchedKernels(plan);
  functions.assign(plan.kernels.size(), nullptr);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!isLaunched[i])
      continue;
    const plan::Kernel &kernel = plan.kernels[i];
    requireHopper(gpu, kernel);
    CUmodule &module = modules[kernel.source];
    if (!module)
      module = gpu.load(compiled.cubins.at(kernel.source), kernel.source);
    CUfunction function = nullptr;
    std::string named = "kernel " + kernel.name;
    if (gpu.api.cuModuleGetFunction(&function, module, kernel.name.c_str()) != CUDA_SUCCESS)
      throw Failure{badInput(named + ": its source " + kernel.source +
                             " does not define it; recompile the model")};
    auto query = [&](CUfunction_attribute attribute) {
      int value = 0;
      gpu.check(gpu.api.cuFuncGetAttribute(&value, attribute, function), "cuFuncGetAttribute");
      return value;
    };
    const int cluster = std::max(1, query(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
    if (cluster != int(kernel.clusterBlocks))
      throw Failure{badInput(named + ": it has clusters of " + std::to_string(cluster) +
                             " blocks, in the plan of " + std::to_string(kernel.clusterBlocks) +
                             "; recompile the model")};
    if (int most = query(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK); int(kernel.threads) > most)
      throw Failure{badInput(named + ": it is launched with " + std::to_string(kernel.threads) +
                             " threads, its registers allow " + std::to_string(most) + " on " +
                             gpu.name)};
    uint64_t shared = kernel.sharedBytes + uint64_t(query(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    if (shared > uint64_t(mostShared))
      throw Failure{badInput(named + ": it needs " + std::to_string(shared) +
                             " bytes of shared memory, a block of " + gpu.name + " has " +
                             std::to_string(mostShared))};
    if (kernel.sharedBytes)
      gpu.check(gpu.api.cuFuncSetAttribute(function,
                                           CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           int(kernel.sharedBytes)),
                "cuFuncSetAttribute");
    functions[i] = function;
    // Local memory is where registers spill, and where arrays are that are not in registers.
    resources += (resources.empty() ? "" : "; ") + kernel.name + " " +
                 std::to_string(query(CU_FUNC_ATTRIBUTE_NUM_REGS)) + " " +
                 std::to_string(query(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)) + " " +
                 std::to_string(shared);
  }
}

/// All of its commands but products.
void CudaDevice::prepareProgram(const plan::Program &program) {
  PreparedProgram &prepared = programs[program.name];
  prepared.program = &program;
  prepared.commands.resize(program.commands.size());
  uint32_t before = 0; // commands of the programs before it
  for (const plan::Program *each = plan.programs.data(); each != &program; ++each)
    before += uint32_t(each->commands.size());
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    Prepared &each = prepared.commands[i];
    each.command = &command;
    each.range = rangeName(command);
    each.number = before + uint32_t(i) + 1;
    try {
      if (const auto *action = command.as<plan::Launch>())
        each.launch = prepare(*action);
      if (const std::optional<plan::Exchange> exchange = exchangeOf(command))
        prepare(*exchange, each);
      if (!command.candidates.empty())
        prepareCandidates(program, each);
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
    prepared.hasExchange |= each.isExchange;
    if (const auto *copy = command.as<plan::Copy>())
      prepared.hasHostCopy |= isHostCopy(plan, *copy);
  }
  if (options.trace)
    prepareKeyRanges(prepared);
}

/// Operands of one buffer and place hold the same keys all through a program: they are computed
/// from its tokens once.
void CudaDevice::prepareKeyRanges(PreparedProgram &prepared) {
  for (size_t i = 0; i < prepared.commands.size(); ++i) {
    const auto *launch = prepared.commands[i].command->as<plan::Launch>();
    if (!launch)
      continue;
    for (const plan::KeyRanges &ranges : plan::keyRangesOf(plan, *launch)) {
      auto found = std::find_if(
          prepared.keyRanges.begin(), prepared.keyRanges.end(), [&](const KeptRanges &kept) {
            return kept.source.first == ranges.first && kept.source.last == ranges.last &&
                   kept.source.queries == ranges.queries;
          });
      if (found == prepared.keyRanges.end()) {
        std::byte *copy = gpu.allocatePinned(2 * sizeof(int32_t) * ranges.queries);
        prepared.keyRanges.push_back({ranges, i, copy});
        found = std::prev(prepared.keyRanges.end());
      }
      prepared.commands[i].keyRanges.push_back(size_t(found - prepared.keyRanges.begin()));
    }
  }
}

/// Lays out nano::Launch: two 32-bit numbers, then of every segment the operands, the number of
/// iterations and the first block. Encodes the tensor maps.
CudaDevice::KernelLaunch CudaDevice::prepare(const plan::Launch &command) const {
  const plan::Kernel &kernel = plan.kernels[command.kernel];
  size_t args = command.segments[0].args.size();
  KernelLaunch launch;
  std::vector<uint64_t> &words = launch.parameters;
  words.assign(1 + kernel.maxSegments * (args + 2), 0);
  size_t at = 1;
  uint64_t blocks = 0, segments = 0;
  for (const plan::Launch::Segment &segment : command.segments) {
    if (segment.iterations == 0)
      continue;
    for (const plan::Ref &ref : segment.args)
      words[at++] = address(ref);
    words[at++] = uint64_t(segment.iterations);
    words[at++] = blocks;
    blocks += uint64_t((segment.iterations - 1) / kernel.iterationsPerBlock + 1);
    ++segments;
  }
  words[0] = segments | blocks << 32;
  launch.function = functions[command.kernel];
  launch.blocks = uint32_t(blocks);
  launch.threads = kernel.threads;
  launch.sharedBytes = uint32_t(kernel.sharedBytes);
  for (const plan::TensorMap &map : kernel.tensorMaps)
    launch.maps.push_back(encode(gpu, map, address(command.segments[0].args[map.argument])));
  auto require = [&](size_t parameter, size_t planned, const char *what) {
    size_t offset = 0, bytes = 0;
    if (CUresult result = gpu.api.cuFuncGetParamInfo(launch.function, parameter, &offset, &bytes);
        result == CUDA_ERROR_INVALID_VALUE)
      bytes = 0; // the kernel has no such parameter
    else
      gpu.check(result, "cuFuncGetParamInfo");
    if (bytes != planned)
      throw Failure{badInput("kernel " + kernel.name + " takes " + std::to_string(bytes) +
                             " bytes of " + what + ", the plan has " + std::to_string(planned) +
                             "; recompile the model")};
  };
  require(0, words.size() * sizeof words[0], "parameters");
  require(1, launch.maps.size() * sizeof(CUtensorMap), "tensor maps");
  return launch;
}

MatmulOperands CudaDevice::operandsOf(const plan::Matmul &matmul) const {
  MatmulOperands operands = {address(matmul.a), address(matmul.b), address(matmul.c)};
  if (matmul.beta != 0)
    operands.d = address(matmul.d);
  if (matmul.scales) {
    operands.scaleA = address(matmul.scales->a);
    operands.scaleB = address(matmul.scales->b);
  }
  return operands;
}

/// Finds the parts. A set of one rank exchanges nothing: its parts are copies, as those of Shard.
void CudaDevice::prepare(const plan::Exchange &exchange, Prepared &prepared) const {
  const Place place =
      placeOf(exchange.ranks, communicator.rank(), communicator.world(), int(plan.group));
  PreparedCollective &collective = prepared.collective;
  collective = {prepared.command, exchange.ranks, exchange.type, {}};
  for (const plan::Move &move : exchange.moves) {
    CollectivePart part = {address(move.from), address(move.to), move.count, move.from.buffer};
    if (prepared.command->is<plan::Shard>())
      part.from += uint64_t(place.place) * uint64_t(part.count) * plan::sizeOf(exchange.type);
    if (part.count > 0)
      collective.parts.push_back(part);
  }
  prepared.isExchange =
      isCollective(*prepared.command) && place.members > 1 && !collective.parts.empty();
}

} // namespace nano::cuda
