// Prepares a plan's programs for a GPU and runs them.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/Rates.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <thread>

namespace nano::cuda {
namespace {

using plan::Command;

/// "580.159.04", where the kernel module says so; else empty.
std::string kernelModuleVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos)
      return word;
  return "";
}

std::string rangeName(const Command &command) {
  std::string text = command.label.empty() ? "command" : command.label;
  if (command.location.line)
    text += " " + command.location.file + ":" + std::to_string(command.location.line);
  return text;
}

} // namespace

CudaDevice::CudaDevice(const plan::Plan &plan, Communicator &communicator,
                       const DeviceOptions &options, const Apis &apis, const Placement &placement,
                       Phases startTimes)
    : plan(plan), communicator(communicator), options(options), apis(apis), placement(placement),
      gpu(*apis.driver, placement.ordinal), launcher(gpu), phases(std::move(startTimes)) {
  launchesEarly = !options.serialLaunches && plan::kernelsAwait(plan) && launcher.canLaunchEarly();
}

CudaDevice::~CudaDevice() {
  // Kernels that wait for other ranks must end before their memory goes.
  if (collectives && (hasFailed || communicator.failure()))
    leave();
}

Result<std::unique_ptr<CudaDevice>>
CudaDevice::create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
                   const Apis &apis, const std::string &cacheFolder, const Phases &startTimes) {
  if (plan.target != "cuda")
    return badInput("the plan is for target " + plan.target +
                    ", this is a GPU; recompile the model with --target cuda");
  std::unique_ptr<CudaDevice> device;
  try {
    Result<Placement> placement =
        placeOnGpu(communicator, visibleGpus(*apis.driver), options.shareGpus);
    if (!placement)
      return placement.error();
    device.reset(new CudaDevice(plan, communicator, options, apis, *placement, startTimes));
    device->phases.end("driver");
    device->prepare(cacheFolder);
    return device;
  } catch (const Failure &failure) {
    if (device)
      device->hasFailed = true;
    return failure.error;
  }
}

/// Ranks that see the same GPUs find the kernels in the cache that the first of them fills.
KernelCode CudaDevice::compile(const std::string &cacheFolder) {
  CompileOptions compileOptions = {architectureOf(gpu.major, gpu.minor),
                                   options.threads > 0
                                       ? options.threads
                                       : std::max(1, int(std::thread::hardware_concurrency()))};
  BuildCache cache(cacheFolder, ".cubin", options.report);
  auto compileAll = [&]() -> Result<KernelCode> {
    if (plan.kernels.empty())
      return KernelCode();
    return compileKernels(plan, *apis.nvrtc, cache, compileOptions);
  };
  const bool isAlone = communicator.world() == 1;
  auto meet = [&] {
    if (isAlone)
      return;
    if (Status status = communicator.barrier("compiling the kernels"); !status)
      throw Failure{status.error()};
  };
  // They compile while the context and the memory are made.
  std::future<Result<KernelCode>> compiling;
  if (placement.isFirstHere)
    compiling = std::async(std::launch::async, compileAll);
  gpu.activate();
  phases.end("context");
  allocate();
  if (!placement.isFirstHere)
    meet();
  Result<KernelCode> compiled = placement.isFirstHere ? compiling.get() : compileAll();
  if (!compiled)
    throw Failure{compiled.error()};
  if (placement.isFirstHere)
    meet();
  phases.end("kernel_code");
  return std::move(*compiled);
}

void CudaDevice::prepare(const std::string &cacheFolder) {
  KernelCode compiled = compile(cacheFolder);
  loadKernels(compiled);
  phases.end("kernel_modules");
  code.compiled = compiled.compiled;
  code.cached = compiled.cached;
  code.seconds = compiled.seconds;
  if (products) {
    tuning = Tuning::open(options.tuneFile, gpu.name + ", cuBLASLt " + products->version(),
                          options.report);
    products->useTuning(&*tuning);
  }
  const bool tunes = options.tune && communicator.rank() == 0;
  if (tunes || options.trace)
    fillWithNoise();
  if (options.trace)
    measuredRates =
        measureRates(gpu, products.get(), arena, plan.arenaBytes, workspaceOf(0), streams[0]);
  if (!tunes)
    shareTuning();
  for (const plan::Program &program : plan.programs)
    prepareProgram(program);
  phases.end("products");
  if (tunes)
    shareTuning();
  if (tunes && tuning && !options.tuneFile.empty()) {
    if (Status saved = tuning->save(); !saved)
      throw Failure{saved.error()};
    report("wrote " + options.tuneFile + ": " + std::to_string(tuning->size()) + " products of " +
           gpu.name);
  }
  joinRanks();
  phases.end("ranks");
  gpu.check(gpu.api.cuMemsetD8Async(arena, 0, plan.arenaBytes, streams[0]), "cuMemsetD8Async");
  gpu.check(gpu.api.cuEventRecord(epoch, streams[0]), "cuEventRecord");
  gpu.synchronize(streams[0]);
  epochSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  phases.end("clearing");
}

/// All ranks take the algorithms that rank 0 has: what several of them compute alike must come out
/// alike.
void CudaDevice::shareTuning() {
  if (!tuning || communicator.world() == 1)
    return;
  const bool isFirst = communicator.rank() == 0;
  Result<std::vector<std::string>> texts =
      communicator.exchange(isFirst ? tuning->text() : "", "algorithms of products");
  if (!texts)
    throw Failure{texts.error()};
  if (!isFirst)
    tuning->take((*texts)[0]);
}

/// Makes the way in which the plan's collectives go, where it has any.
void CudaDevice::joinRanks() {
  std::vector<plan::Ranks> sets;
  for (auto &[name, prepared] : programs)
    for (const Prepared &each : prepared.commands)
      if (each.isExchange && std::find(sets.begin(), sets.end(), each.command->ranks) == sets.end())
        sets.push_back(each.command->ranks);
  if (sets.empty())
    return;
  std::sort(sets.begin(), sets.end()); // the same order on all ranks
  if (placement.isShared) {
    collectives = std::make_unique<HostCollectives>(*staging, communicator, plan);
    return;
  }
  if (!apis.nccl) {
    Result<const NcclApi *> loaded = loadNccl();
    if (!loaded)
      throw Failure{loaded.error()};
    apis.nccl = *loaded;
  }
  progress = gpu.allocate(256);
  progressCopy = gpu.allocatePinned(sizeof(uint32_t));
  probes = gpu.makeStream();
  gpu.check(gpu.api.cuMemsetD32Async(progress, 0, 1, streams[0]), "cuMemsetD32Async");
  auto nccl = std::make_unique<NcclCollectives>(gpu, *apis.nccl, communicator, int(plan.group));
  NcclCollectives &joined = *nccl;
  collectives = std::move(nccl);
  gpu.watch = [this](std::chrono::nanoseconds waited) { watch(waited); };
  joined.join(sets);
  ncclVersion = joined.version();
}

/// Memory, streams and events for the largest of the programs.
void CudaDevice::allocate() {
  uint32_t streamCount = 1, eventCount = 0, productStreams = 0;
  size_t markCount = 0;
  for (const plan::Program &program : plan.programs) {
    streamCount = std::max(streamCount, program.streams);
    eventCount = std::max(eventCount, program.events);
    markCount = std::max(markCount, program.commands.size() + program.streams + spareMarks + 2);
    for (const Command &command : program.commands)
      if (command.kind == Command::Kind::Matmul)
        productStreams = std::max(productStreams, command.stream + 1);
  }
  const bool hasProducts = productStreams > 0;
  uint64_t workspaceBytes = Products::defaultWorkspace * productStreams;
  uint64_t besides = workspaceBytes + Staging::deviceBytes;
  uint64_t available = gpu.freeBytes();
  if (plan.arenaBytes > available || besides > available - plan.arenaBytes)
    throw Failure{plan::outOfMemory(plan, 1, available, besides)};
  try {
    arena = gpu.allocate(std::max<uint64_t>(plan.arenaBytes, 256));
    if (workspaceBytes)
      workspace = gpu.allocate(workspaceBytes);
  } catch (const Failure &) {
    throw Failure{plan::outOfMemory(plan, 1, available, besides)};
  }
  phases.end("memory");
  if (hasProducts) {
    if (!apis.cublasLt) {
      Result<const CublasLtApi *> loaded = loadCublasLt();
      if (!loaded)
        throw Failure{loaded.error()};
      apis.cublasLt = *loaded;
    }
    Result<std::unique_ptr<Products>> made =
        Products::create(*apis.cublasLt, Products::defaultWorkspace);
    if (!made)
      throw Failure{made.error()};
    products = std::move(*made);
  }
  phases.end("cublaslt");
  for (uint32_t i = 0; i < streamCount; ++i) {
    // Collectives, which other ranks wait for, and copies begin as soon as a multiprocessor is
    // free.
    streams.push_back(gpu.makeStream(/*isUrgent=*/i > 0));
    joins.push_back(gpu.makeEvent(false));
  }
  for (uint32_t i = 0; i < eventCount; ++i)
    events.push_back(gpu.makeEvent(false));
  epoch = gpu.makeEvent(true);
  if (options.profile || options.trace)
    for (size_t i = 0; i < markCount; ++i)
      marks.push_back(gpu.makeEvent(true));
  staging = std::make_unique<Staging>(gpu, streams[0]);
  phases.end("streams");
}

void CudaDevice::loadKernels(const KernelCode &compiled) {
  std::unordered_map<std::string, CUmodule> modules;
  int mostShared = gpu.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  for (const plan::Kernel &kernel : plan.kernels) {
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
    functions.push_back(function);
  }
}

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
      if (command.kind == Command::Kind::Launch)
        prepareLaunch(command, each);
      if (command.kind == Command::Kind::Matmul)
        prepareProduct(command, each);
      if (isCollective(command) || command.kind == Command::Kind::Shard)
        prepareCollective(command, each);
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
    prepared.hasExchange |= each.isExchange;
  }
}

/// Lays out nano::Launch: two 32-bit numbers, then of every segment the operands, the number of
/// iterations and the first block.
void CudaDevice::prepareLaunch(const Command &command, Prepared &prepared) const {
  const plan::Kernel &kernel = plan.kernels[command.kernel];
  size_t args = command.segments[0].args.size();
  KernelLaunch &launch = prepared.launch;
  std::vector<uint64_t> &words = launch.parameters;
  words.assign(1 + kernel.maxSegments * (args + 2), 0);
  size_t at = 1;
  uint64_t blocks = 0, segments = 0;
  for (const Command::Segment &segment : command.segments) {
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
  size_t offset = 0, bytes = 0;
  gpu.check(gpu.api.cuFuncGetParamInfo(launch.function, 0, &offset, &bytes), "cuFuncGetParamInfo");
  if (bytes != words.size() * sizeof words[0])
    throw Failure{badInput("kernel " + kernel.name + " takes " + std::to_string(bytes) +
                           " bytes of parameters, the plan has " +
                           std::to_string(words.size() * sizeof words[0]) +
                           "; recompile the model")};
}

void CudaDevice::prepareProduct(const Command &command, Prepared &prepared) {
  MatmulOperands operands = {address(command.a), address(command.b), address(command.c)};
  if (command.beta != 0)
    operands.d = address(command.d);
  if (command.scaled) {
    operands.scaleA = address(command.scaleA);
    operands.scaleB = address(command.scaleB);
  }
  Result<std::unique_ptr<Product>> made = products->make(command, operands);
  if (!made)
    throw Failure{made.error()};
  prepared.product = std::move(*made);
  if (options.tune && communicator.rank() == 0 && !tuning->find(prepared.product->key()))
    tune(*prepared.product);
}

/// Finds the parts. A set of one rank exchanges nothing: its parts are copies, as those of Shard.
void CudaDevice::prepareCollective(const Command &command, Prepared &prepared) const {
  const Place place =
      placeOf(command.ranks, communicator.rank(), communicator.world(), int(plan.group));
  const bool isReduce = command.kind == Command::Kind::AllReduce;
  prepared.isExchange = isCollective(command) && place.members > 1;
  for (size_t i = 0; i < command.counts.size(); ++i) {
    const plan::Ref &from = command.refs[isReduce ? i : 2 * i];
    CollectivePart part = {address(from), address(command.refs[isReduce ? i : 2 * i + 1]),
                           command.counts[i], from.buffer};
    if (command.kind == Command::Kind::Shard)
      part.from += uint64_t(place.place) * uint64_t(part.count) * plan::sizeOf(command.type);
    if (part.count > 0)
      prepared.parts.push_back(part);
  }
  prepared.isExchange &= !prepared.parts.empty();
}

void CudaDevice::tune(Product &product) {
  Result<TunedChoice> choice = products->tune(product, [&](const Product &each) -> Result<double> {
    try {
      return secondsOf(each);
    } catch (const Failure &failure) {
      return failure.error;
    }
  });
  if (!choice)
    throw Failure{choice.error()};
  tuning->set(product.key(), *choice);
  char text[96];
  std::snprintf(text, sizeof text, ": algorithm %d of %d, %.1f us (the first: %.1f us)",
                choice->chosen + 1, choice->candidates, 1e6 * choice->seconds,
                1e6 * choice->firstSeconds);
  report("tuned " + product.key() + text);
}

/// Values like those of activations: what a product takes depends on its data.
void CudaDevice::fillWithNoise() {
  constexpr uint64_t patternBytes = Staging::slotBytes;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> pattern(patternBytes / 2);
  for (uint16_t &value : pattern) {
    float number = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    value = uint16_t(bits >> 16);
  }
  uint64_t filled = std::min(patternBytes, plan.arenaBytes);
  staging->write(arena, pattern.data(), filled);
  while (filled < plan.arenaBytes) {
    uint64_t count = std::min(filled, plan.arenaBytes - filled);
    gpu.check(gpu.api.cuMemcpyDtoDAsync(arena + filled, arena, count, streams[0]),
              "cuMemcpyDtoDAsync");
    filled += count;
  }
  gpu.synchronize(streams[0]);
}

double CudaDevice::secondsOf(const Product &product) {
  return secondsOfRun(gpu, streams[0], [&] {
    cublasStatus_t status = product.enqueue(workspaceOf(0), streams[0]);
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Failure{cublasLtError(*apis.cublasLt, status, "cublasLtMatmul")};
  });
}

std::string CudaDevice::describe() const {
  std::string text = gpu.name + " (sm_" + std::to_string(gpu.major * 10 + gpu.minor) + ", " +
                     std::to_string(gpu.multiprocessors) + " multiprocessors), CUDA " +
                     cudaVersionText(gpu.driverVersion);
  if (!plan.kernels.empty())
    text += ", NVRTC " + nvrtcVersion(*apis.nvrtc);
  if (products)
    text += ", cuBLASLt " + products->version();
  if (!ncclVersion.empty())
    text += ", NCCL " + ncclVersion;
  return text;
}

std::vector<CommandTime> CudaDevice::times() const { return timesOf(plan, programs); }

std::vector<std::pair<std::string, std::string>> CudaDevice::facts() const {
  std::vector<std::pair<std::string, std::string>> all = {
      {"gpu", gpu.name},
      {"architecture", architectureOf(gpu.major, gpu.minor)},
      {"cuda_of_driver", cudaVersionText(gpu.driverVersion)}};
  if (std::string version = kernelModuleVersion(); !version.empty())
    all.emplace_back("driver", version);
  if (!plan.kernels.empty()) {
    all.emplace_back("nvrtc", nvrtcVersion(*apis.nvrtc));
    all.emplace_back("kernels_compiled", std::to_string(code.compiled));
    all.emplace_back("kernels_cached", std::to_string(code.cached));
    all.emplace_back("compile_ms", std::to_string(std::llround(1e3 * code.seconds)));
    // What the driver makes of it is known when graphs are recorded.
    all.emplace_back("early_launches_possible", launchesEarly ? "yes" : "no");
  }
  if (products) {
    all.emplace_back("cublaslt", products->version());
    all.emplace_back("products", std::to_string(products->distinct()));
    all.emplace_back("products_tuned", std::to_string(products->tuned()));
  }
  all.emplace_back("arena_bytes", std::to_string(plan.arenaBytes));
  all.emplace_back("allocated_bytes", std::to_string(gpu.allocatedBytes()));
  if (!ncclVersion.empty())
    all.emplace_back("nccl", ncclVersion);
  if (placement.isShared)
    all.emplace_back("gpus_shared", "yes");
  // The context, the kernels' code and other processes included.
  if (std::optional<uint64_t> used = gpu.usedBytes())
    all.emplace_back("gpu_used_bytes", std::to_string(*used));
  return all;
}

} // namespace nano::cuda
