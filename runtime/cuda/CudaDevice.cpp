// A plan on a GPU: memory, kernels and ranks, and what it tells of itself.
#include "runtime/cuda/CudaDevice.h"
#include "base/Target.h"
#include "runtime/Candidates.h"
#include "runtime/cuda/Energy.h"
#include "runtime/cuda/OwnKernels.h"
#include "runtime/cuda/PeerCollectives.h"
#include "runtime/cuda/Rates.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <string_view>
#include <thread>

namespace nano::cuda {

using plan::Command;

CudaDevice::CudaDevice(const plan::Plan &plan, Communicator &communicator,
                       const DeviceOptions &options, const Apis &apis, const Placement &placement,
                       Phases startTimes)
    : plan(plan), communicator(communicator), options(options), apis(apis), placement(placement),
      gpu(*apis.driver, placement.ordinal), phases(std::move(startTimes)) {}

CudaDevice::~CudaDevice() {
  // Kernels that wait for other ranks must end before their memory goes.
  if (collectives && (hasFailed || communicator.failure()))
    leave();
}

Result<std::unique_ptr<CudaDevice>>
CudaDevice::create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
                   const Apis &apis, const std::string &cacheFolder, const Phases &startTimes) {
  if (!targetOf(plan.target).runsOn("cuda"))
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
CudaDevice::Code CudaDevice::compile(const std::string &cacheFolder) {
  CompileOptions compileOptions = {architectureOf(gpu.major, gpu.minor),
                                   options.threads > 0
                                       ? options.threads
                                       : std::max(1, int(std::thread::hardware_concurrency()))};
  BuildCache cache(cacheFolder, ".cubin", options.report);
  auto compileAll = [&]() -> Result<Code> {
    if (!apis.nvrtc && !plan.kernels.empty()) {
      Result<const NvrtcApi *> loaded = loadNvrtc();
      if (!loaded)
        return loaded.error();
      apis.nvrtc = *loaded;
    }
    std::future<Result<std::string>> compilingDraws;
    if (apis.nvrtc && Draws::areIn(plan))
      compilingDraws = std::async(std::launch::async, [&] {
        return ownCubin(Draws::text, *apis.nvrtc, cache, compileOptions.architecture);
      });
    Code made;
    if (!plan.kernels.empty()) {
      Result<KernelCode> kernels = compileKernels(plan, *apis.nvrtc, cache, compileOptions);
      if (!kernels)
        return kernels.error();
      made.kernels = std::move(*kernels);
    }
    if (compilingDraws.valid()) {
      Result<std::string> cubin = compilingDraws.get();
      if (!cubin)
        return cubin.error();
      made.draws = std::move(*cubin);
    }
    return made;
  };
  const bool isAlone = communicator.world() == 1;
  auto meet = [&] {
    if (isAlone)
      return;
    if (Status status = communicator.barrier("compiling the kernels"); !status)
      throw Failure{status.error()};
  };
  // They compile while the context and the memory are made.
  std::future<Result<Code>> compiling;
  if (placement.isFirstHere)
    compiling = std::async(std::launch::async, compileAll);
  gpu.activate();
  phases.end("context");
  allocate();
  if (!options.tune)
    openProducts();
  makeStreams();
  if (!placement.isFirstHere)
    meet();
  Result<Code> compiled = placement.isFirstHere ? compiling.get() : compileAll();
  if (!compiled)
    throw Failure{compiled.error()};
  if (placement.isFirstHere)
    meet();
  phases.end("kernel_code");
  return std::move(*compiled);
}

void CudaDevice::prepare(const std::string &cacheFolder) {
  const Code compiled = compile(cacheFolder);
  code.compiled = compiled.kernels.compiled;
  code.cached = compiled.kernels.cached;
  code.seconds = compiled.kernels.seconds;
  if (options.tune)
    openProducts();
  const bool tunes = isTuner();
  loadKernels(compiled.kernels);
  if (!compiled.draws.empty())
    draws.emplace(gpu, compiled.draws);
  phases.end("kernel_modules");
  for (const plan::Program &program : plan.programs)
    prepareProgram(program);
  phases.end("programs");
  if (tunes || options.trace)
    fillWithNoise();
  // What follows measures products, or looks up what is known of them.
  if (tunes || options.trace || hasCandidates(plan))
    takeProducts();
  if (options.trace)
    measuredRates =
        measureRates(gpu, products.get(), arena, plan.arenaBytes, workspaceOf(0), streams[0]);
  if (tunes && products)
    tuneProducts();
  phases.end("products");
  if (tunes)
    shareTuning();
  takeWays();
  if (tunes && products && !options.tuneFile.empty()) {
    if (Status saved = tuning->save(); !saved)
      throw Failure{saved.error()};
    report("wrote " + options.tuneFile + ": " + std::to_string(tuning->size()) + " products of " +
           gpu.name);
  }
  joinRanks(cacheFolder);
  phases.end("ranks");
  gpu.check(gpu.api.cuMemsetD8Async(arena, 0, plan.arenaBytes, streams[0]), "cuMemsetD8Async");
  gpu.check(gpu.api.cuEventRecord(epoch, streams[0]), "cuEventRecord");
  gpu.synchronize(streams[0]);
  epochSeconds = secondsNow();
  phases.end("clearing");
}

/// Begins with the products, by the algorithms that are known. Ranks that are to hear of others
/// than those wait here until these are measured.
void CudaDevice::openProducts() {
  if (products) {
    tuning = Tuning::open(options.tuneFile, gpu.name + ", cuBLASLt " + products->version(),
                          options.report, options.tune);
    products->useTuning(&*tuning);
  } else if (hasCandidates(plan)) {
    tuning = Tuning::open(options.tuneFile, gpu.name, options.report, options.tune);
  }
  if (!isTuner())
    shareTuning();
  beginProducts();
}

/// Has cuBLASLt choose the algorithms of all products and load their code, several at a time,
/// beside what comes before the first run: compiling and loading the kernels, clearing the memory
/// and filling the states.
void CudaDevice::beginProducts() {
  if (!products)
    return;
  std::vector<CUstream> aside(productLoaders);
  for (CUstream &stream : aside)
    stream = gpu.makeStream();
  makingProducts = std::async(std::launch::async, [this, aside] {
                     gpu.activate();
                     const Phases::Clock::time_point begin = Phases::Clock::now();
                     makeProducts(aside);
                     productTime = Phases::Clock::now() - begin;
                   }).share();
}

/// On as many threads as there are streams, which the driver takes code on.
void CudaDevice::makeProducts(const std::vector<CUstream> &aside) {
  struct Distinct {
    const plan::Program *program;
    size_t command;
    Product *product;
    Status chosen = ok();
  };
  std::vector<Distinct> distinct;
  std::set<std::string_view> keys;
  for (const plan::Program &program : plan.programs)
    for (size_t i = 0; i < program.commands.size(); ++i)
      if (const auto *matmul = program.commands[i].as<plan::Matmul>()) {
        Result<std::unique_ptr<Product>> product = products->open(*matmul, operandsOf(*matmul));
        if (!product)
          throw Failure{plan::inCommand(plan, program, i, product.error())};
        if (keys.insert((*product)->key()).second)
          distinct.push_back({&program, i, product->get()});
        madeProducts.push_back(std::move(*product));
      }
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> threads;
  for (CUstream stream : aside)
    threads.push_back(std::async(std::launch::async, [&, stream] {
      gpu.activate();
      for (size_t i; (i = next++) < distinct.size();)
        if (Distinct &each = distinct[i]; (each.chosen = products->choose(*each.product)))
          loadCode(*each.product, stream);
    }));
  for (std::future<void> &thread : threads)
    thread.get();
  for (const Distinct &each : distinct)
    if (!each.chosen)
      throw Failure{plan::inCommand(plan, *each.program, each.command, each.chosen.error())};
  for (const std::unique_ptr<Product> &product : madeProducts)
    (void)products->choose(*product); // as its like
}

/// Waits for the products, gives each command its own, and throws what is wrong with one.
void CudaDevice::takeProducts() {
  if (!makingProducts.valid())
    return;
  makingProducts.get();
  if (madeProducts.empty())
    return;
  phases.add("products_aside", productTime);
  auto product = madeProducts.begin();
  for (const plan::Program &program : plan.programs)
    for (Prepared &prepared : programs.at(program.name).commands)
      if (prepared.command->is<plan::Matmul>())
        prepared.product = std::move(*product++);
  madeProducts.clear();
}

/// Whoever runs, measures or asks about products waits for them, and hears what is wrong with one.
void CudaDevice::endProducts() {
  if (!makingProducts.valid())
    return;
  const Phases::Clock::time_point begin = Phases::Clock::now();
  takeProducts();
  phases.add("products", Phases::Clock::now() - begin);
}

/// The library loads the code of an algorithm when it is first put on a stream: here into a graph
/// that nobody runs.
void CudaDevice::loadCode(const Product &product, CUstream stream) const {
  if (gpu.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
    return;
  (void)product.enqueue(workspaceOf(0), stream); // again where it is run, and looked at
  CUgraph graph = nullptr;
  if (gpu.api.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS)
    gpu.api.cuGraphDestroy(graph);
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
void CudaDevice::joinRanks(const std::string &cacheFolder) {
  std::vector<plan::Ranks> sets;
  bool areCopied = false; // some of them
  uint64_t besideBytes = 0;
  for (auto &[name, prepared] : programs)
    for (const Prepared &each : prepared.commands) {
      if (!each.isExchange)
        continue;
      const plan::Ranks set = each.collective.ranks;
      if (std::find(sets.begin(), sets.end(), set) == sets.end())
        sets.push_back(set);
      const int members =
          placeOf(set, communicator.rank(), communicator.world(), int(plan.group)).members;
      if (PeerCollectives::takes(each.collective, members)) {
        areCopied = true;
        besideBytes = std::max(besideBytes, PeerCollectives::bytesBeside(each.collective, members));
      }
    }
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
  auto made = std::make_unique<NcclCollectives>(gpu, *apis.nccl, communicator, int(plan.group));
  NcclCollectives &joined = *made;
  collectives = std::move(made);
  gpu.watch = [this](std::chrono::nanoseconds waited) { watch(waited); };
  joined.join(sets);
  ncclVersion = joined.version();
  if (areCopied)
    joinPeers(besideBytes, cacheFolder);
}

/// Large collectives go by copies where the ranks can reach each other's memory.
void CudaDevice::joinPeers(uint64_t besideBytes, const std::string &cacheFolder) {
  BuildCache cache(cacheFolder, ".cubin", options.report);
  const PeerCollectives::Site site = {int(plan.group), arena,      besideBytes,
                                      streams[0],      apis.nvrtc, &cache};
  std::string whyNot;
  auto peers = PeerCollectives::join(gpu, communicator, site, *collectives, whyNot);
  if (peers)
    nccl = std::exchange(collectives, std::move(peers));
  else if (communicator.rank() == 0)
    report("collectives take multiprocessors from the computation beside them: " + whyNot +
           ", so that no copy engine can do them");
}

/// Memory for the largest of the programs, and cuBLASLt if there are products.
void CudaDevice::allocate() {
  uint32_t productStreams = 0;
  for (const plan::Program &program : plan.programs)
    for (const Command &command : program.commands)
      if (command.is<plan::Matmul>())
        productStreams = std::max(productStreams, command.stream + 1);
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
  if (plan.hostBytes)
    try {
      hostMemory = gpu.allocatePinned(plan.hostBytes);
    } catch (const Failure &failure) {
      throw Failure{badInput("out of memory: of the host's memory the plan needs " +
                             std::to_string(plan.hostBytes) + " bytes that cannot be paged out: " +
                             failure.error.message + "; compile the model with --no-offload")};
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
}

/// Streams and events for the largest of the programs, and memory that both sides reach.
void CudaDevice::makeStreams() {
  uint32_t streamCount = 1, eventCount = 0;
  size_t markCount = 0;
  for (const plan::Program &program : plan.programs) {
    streamCount = std::max(streamCount, program.streams);
    eventCount = std::max(eventCount, program.events);
    size_t ranges = 0; // at most
    for (const Command &command : program.commands)
      if (const auto *launch = command.as<plan::Launch>())
        ranges += plan::keyRangesOf(plan, *launch).size();
    markCount =
        std::max(markCount, program.commands.size() + program.streams + spareMarks + 2 + ranges);
  }
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
  if (nccl)
    text += " and copies between GPUs";
  return text;
}

EnergyCounter CudaDevice::energy() const {
  Result<const NvmlApi *> nvml = apis.nvml ? apis.nvml : loadNvml();
  if (!nvml)
    return {{}, nvml.error().message, ""};
  try {
    return energyOf(**nvml, visibleGpus(*apis.driver).at(size_t(placement.ordinal)));
  } catch (const Failure &failure) {
    return {{}, failure.error.message, ""};
  }
}

std::vector<CommandTime> CudaDevice::times() const { return timesOf(plan, programs); }

std::vector<std::pair<std::string, std::string>> CudaDevice::facts() const {
  if (makingProducts.valid())
    makingProducts.wait();
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
    all.emplace_back("kernel_resources", resources);
  }
  if (products) {
    all.emplace_back("cublaslt", products->version());
    all.emplace_back("products", std::to_string(products->distinct()));
    all.emplace_back("products_tuned", std::to_string(products->tuned()));
  }
  all.emplace_back("arena_bytes", std::to_string(plan.arenaBytes));
  all.emplace_back("allocated_bytes", std::to_string(gpu.allocatedBytes()));
  if (plan.hostBytes)
    all.emplace_back("host_bytes", std::to_string(plan.hostBytes));
  if (!ncclVersion.empty())
    all.emplace_back("nccl", ncclVersion);
  if (nccl)
    all.emplace_back("collectives", "copies between GPUs, small ones by NCCL");
  if (placement.isShared)
    all.emplace_back("gpus_shared", "yes");
  // The context, the kernels' code and other processes included.
  if (std::optional<uint64_t> used = gpu.usedBytes())
    all.emplace_back("gpu_used_bytes", std::to_string(*used));
  return all;
}

} // namespace nano::cuda
