// Prepares a plan's programs for a GPU and runs them.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/Rates.h"
#include "runtime/plan/Messages.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <thread>

namespace nano::cuda {
namespace {

using plan::Command;

std::string versionText(int version) { // 13000: 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

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

CudaDevice::CudaDevice(const plan::Plan &plan, const DeviceOptions &options, const Apis &apis)
    : plan(plan), options(options), apis(apis), gpu(*apis.driver) {}

Result<std::unique_ptr<CudaDevice>>
CudaDevice::create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
                   const Apis &apis, const std::string &cacheFolder) {
  if (plan.target != "cuda")
    return badInput("the plan is for target " + plan.target +
                    ", this is a GPU; recompile the model with --target cuda");
  if (communicator.world() > 1)
    return badInput("--gpus " + std::to_string(communicator.world()) +
                    ": a plan for target cuda runs on one rank in this version; use --gpus 1");
  try {
    std::unique_ptr<CudaDevice> device(new CudaDevice(plan, options, apis));
    device->prepare(cacheFolder);
    return device;
  } catch (const Failure &failure) {
    return failure.error;
  }
}

void CudaDevice::prepare(const std::string &cacheFolder) {
  // The kernels compile while the context and the memory are made.
  CompileOptions compileOptions = {architectureOf(gpu.major, gpu.minor),
                                   options.threads > 0
                                       ? options.threads
                                       : std::max(1, int(std::thread::hardware_concurrency()))};
  BuildCache cache(cacheFolder, ".cubin", options.report);
  std::future<Result<KernelCode>> compiling =
      std::async(std::launch::async, [&]() -> Result<KernelCode> {
        if (plan.kernels.empty())
          return KernelCode();
        return compileKernels(plan, *apis.nvrtc, cache, compileOptions);
      });
  gpu.activate();
  allocate();
  Result<KernelCode> compiled = compiling.get();
  if (!compiled)
    throw Failure{compiled.error()};
  loadKernels(*compiled);
  code.compiled = compiled->compiled;
  code.cached = compiled->cached;
  code.seconds = compiled->seconds;
  if (products) {
    tuning = Tuning::open(options.tuneFile, gpu.name + ", cuBLASLt " + products->version(),
                          options.report);
    products->useTuning(&*tuning);
  }
  if (options.tune || options.trace)
    fillWithNoise();
  if (options.trace)
    measuredRates =
        measureRates(gpu, products.get(), arena, plan.arenaBytes, workspaceOf(0), streams[0]);
  for (const plan::Program &program : plan.programs)
    prepareProgram(program);
  if (options.tune && tuning && !options.tuneFile.empty()) {
    if (Status saved = tuning->save(); !saved)
      throw Failure{saved.error()};
    report("wrote " + options.tuneFile + ": " + std::to_string(tuning->size()) + " products of " +
           gpu.name);
  }
  gpu.check(gpu.api.cuMemsetD8Async(arena, 0, plan.arenaBytes, streams[0]), "cuMemsetD8Async");
  gpu.check(gpu.api.cuEventRecord(epoch, streams[0]), "cuEventRecord");
  gpu.check(gpu.api.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
}

/// Memory, streams and events for the largest of the programs.
void CudaDevice::allocate() {
  uint32_t streamCount = 1, eventCount = 0;
  size_t commandCount = 0;
  bool hasProducts = false;
  for (const plan::Program &program : plan.programs) {
    streamCount = std::max(streamCount, program.streams);
    eventCount = std::max(eventCount, program.events);
    commandCount = std::max(commandCount, program.commands.size());
    for (const Command &command : program.commands)
      hasProducts |= command.kind == Command::Kind::Matmul;
  }
  uint64_t workspaceBytes = hasProducts ? Products::defaultWorkspace * streamCount : 0;
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
  for (uint32_t i = 0; i < streamCount; ++i) {
    streams.push_back(gpu.makeStream());
    joins.push_back(gpu.makeEvent(false));
  }
  for (uint32_t i = 0; i < eventCount; ++i)
    events.push_back(gpu.makeEvent(false));
  epoch = gpu.makeEvent(true);
  if (options.profile || options.trace)
    for (size_t i = 0; i <= commandCount + spareMarks; ++i)
      marks.push_back(gpu.makeEvent(true));
  staging = std::make_unique<Staging>(gpu, streams[0]);
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
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    Prepared &each = prepared.commands[i];
    each.command = &command;
    each.range = rangeName(command);
    try {
      if (command.kind == Command::Kind::Launch)
        prepareLaunch(command, each);
      if (command.kind == Command::Kind::Matmul)
        prepareProduct(command, each);
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
  }
}

/// Lays out nano::Launch: two 32-bit numbers, then of every segment the operands, the number of
/// iterations and the first block.
void CudaDevice::prepareLaunch(const Command &command, Prepared &prepared) const {
  const plan::Kernel &kernel = plan.kernels[command.kernel];
  size_t args = command.segments[0].args.size();
  std::vector<uint64_t> &words = prepared.parameters;
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
  prepared.function = functions[command.kernel];
  prepared.blocks = uint32_t(blocks);
  prepared.threads = kernel.threads;
  prepared.sharedBytes = uint32_t(kernel.sharedBytes);
  size_t offset = 0, bytes = 0;
  gpu.check(gpu.api.cuFuncGetParamInfo(prepared.function, 0, &offset, &bytes),
            "cuFuncGetParamInfo");
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
    if (command.scaleBlock != 0)
      throw Failure{badInput("block scales of f8 products are not available on target cuda in this "
                             "version; compile the model with one scale a tensor")};
    operands.scaleA = address(command.scaleA);
    operands.scaleB = address(command.scaleB);
  }
  bool isNew = options.tune && !tuning->find(productKey(command, operands));
  Result<std::unique_ptr<Product>> made = products->make(command, operands);
  if (!made)
    throw Failure{made.error()};
  prepared.product = std::move(*made);
  if (isNew)
    tune(*prepared.product);
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
  gpu.check(gpu.api.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
}

double CudaDevice::secondsOf(const Product &product) {
  return secondsOfRun(gpu, streams[0], [&] {
    cublasStatus_t status = product.enqueue(workspaceOf(0), streams[0]);
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Failure{cublasLtError(*apis.cublasLt, status, "cublasLtMatmul")};
  });
}

/// Puts a command on a stream. Without `withEvents`, the plan's events are left out: everything is
/// on one stream then.
void CudaDevice::enqueue(const Prepared &prepared, CUstream stream, bool withEvents) {
  const Command &command = *prepared.command;
  const DriverApi &api = gpu.api;
  nvtxRangePushA(prepared.range.c_str());
  struct Pop {
    ~Pop() { nvtxRangePop(); }
  } pop;
  switch (command.kind) {
  case Command::Kind::Launch: {
    if (prepared.blocks == 0)
      return;
    void *parameters[] = {const_cast<uint64_t *>(prepared.parameters.data())};
    return gpu.check(api.cuLaunchKernel(prepared.function, prepared.blocks, 1, 1, prepared.threads,
                                        1, 1, prepared.sharedBytes, stream, parameters, nullptr),
                     "cuLaunchKernel");
  }
  case Command::Kind::Matmul: {
    cublasStatus_t status =
        prepared.product->enqueue(workspaceOf(withEvents ? command.stream : 0), stream);
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Failure{
          cublasLtError(*apis.cublasLt, status, "the product " + prepared.product->key())};
    return;
  }
  case Command::Kind::AllReduce: // the sum over one rank
    return;
  case Command::Kind::Fill:
    if (uint64_t bytes = uint64_t(command.counts[0]) * plan::sizeOf(command.type))
      gpu.check(api.cuMemsetD8Async(address(command.refs[0]), 0, bytes, stream), "cuMemsetD8Async");
    return;
  case Command::Kind::Copy:
    if (uint64_t bytes = uint64_t(command.counts[0]) * plan::sizeOf(command.type))
      gpu.check(
          api.cuMemcpyDtoDAsync(address(command.refs[1]), address(command.refs[0]), bytes, stream),
          "cuMemcpyDtoDAsync");
    return;
  case Command::Kind::RecordEvent:
    if (withEvents)
      gpu.check(api.cuEventRecord(events[command.event], stream), "cuEventRecord");
    return;
  case Command::Kind::WaitEvent:
    if (withEvents)
      gpu.check(api.cuStreamWaitEvent(stream, events[command.event], 0), "cuStreamWaitEvent");
    return;
  }
}

void CudaDevice::runOneByOne(PreparedProgram &prepared) {
  for (size_t i = 0; i < prepared.commands.size(); ++i)
    try {
      enqueue(prepared.commands[i], streams[0], /*withEvents=*/false);
      gpu.check(gpu.api.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
}

/// Runs the program on one stream with an event between any two commands. The events are nodes of a
/// graph: between launches by the host there would be gaps, which would count as the commands'.
void CudaDevice::runMeasured(PreparedProgram &prepared) {
  const size_t count = prepared.commands.size();
  if (!prepared.graph)
    prepared.graph = record(prepared, /*isMeasured=*/true);
  gpu.check(gpu.api.cuGraphLaunch(prepared.graph, streams[0]), "cuGraphLaunch");
  gpu.check(gpu.api.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
  auto seconds = [&](CUevent from, CUevent to) {
    float milliseconds = 0;
    gpu.check(gpu.api.cuEventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime");
    return 1e-3 * double(milliseconds);
  };
  // What an event takes by itself, of those behind the last command.
  double nothing = seconds(marks[count], marks[count + 1]);
  for (size_t i = 1; i < spareMarks; ++i)
    nothing = std::min(nothing, seconds(marks[count + i], marks[count + i + 1]));
  double start = count > 0 ? seconds(epoch, marks[0]) : 0;
  for (size_t i = 0; i < count; ++i) {
    Prepared &each = prepared.commands[i];
    double taken = seconds(marks[i], marks[i + 1]), own = std::max(0.0, taken - nothing);
    each.seconds += own;
    ++each.runs;
    if (options.trace)
      spans.push_back({each.command, start, own});
    start += taken;
  }
}

/// Records the program as a graph: the other streams start behind the first and end before it. A
/// measured one is on the first stream alone, with the marks around commands.
CUgraphExec CudaDevice::record(PreparedProgram &prepared, bool isMeasured) {
  const DriverApi &api = gpu.api;
  const uint32_t count = isMeasured ? 1 : prepared.program->streams;
  size_t marked = 0;
  auto mark = [&] {
    if (isMeasured)
      gpu.check(api.cuEventRecordWithFlags(marks[marked++], streams[0], CU_EVENT_RECORD_EXTERNAL),
                "cuEventRecordWithFlags");
  };
  CUgraph graph = nullptr;
  gpu.check(api.cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            "cuStreamBeginCapture");
  try {
    if (count > 1)
      gpu.check(api.cuEventRecord(joins[0], streams[0]), "cuEventRecord");
    for (uint32_t i = 1; i < count; ++i)
      gpu.check(api.cuStreamWaitEvent(streams[i], joins[0], 0), "cuStreamWaitEvent");
    for (size_t i = 0; i < prepared.commands.size(); ++i)
      try {
        mark();
        uint32_t stream = isMeasured ? 0 : prepared.commands[i].command->stream;
        enqueue(prepared.commands[i], streams[stream], /*withEvents=*/!isMeasured);
      } catch (const Failure &failure) {
        failIn(prepared, i, failure);
      }
    for (size_t i = 0; i <= spareMarks; ++i)
      mark();
    for (uint32_t i = 1; i < count; ++i) {
      gpu.check(api.cuEventRecord(joins[i], streams[i]), "cuEventRecord");
      gpu.check(api.cuStreamWaitEvent(streams[0], joins[i], 0), "cuStreamWaitEvent");
    }
  } catch (const Failure &) {
    api.cuStreamEndCapture(streams[0], &graph); // leaves the stream usable
    if (graph)
      api.cuGraphDestroy(graph);
    throw;
  }
  gpu.check(api.cuStreamEndCapture(streams[0], &graph), "cuStreamEndCapture");
  return gpu.instantiate(graph, streams[0]);
}

void CudaDevice::failIn(const PreparedProgram &prepared, size_t command, const Failure &failure) {
  throw Failure{plan::inCommand(plan, *prepared.program, command, failure.error)};
}

template <typename Work> Status CudaDevice::guarded(Work work) {
  try {
    gpu.activate();
    work();
    return ok();
  } catch (const Failure &failure) {
    return failure.error;
  }
}

CudaDevice::PreparedProgram &CudaDevice::find(const std::string &program) {
  auto found = programs.find(program);
  if (found == programs.end())
    throw Failure{failed("the plan has no program '" + program + "'")};
  return found->second;
}

Status CudaDevice::run(const std::string &program) {
  return guarded([&] {
    PreparedProgram &prepared = find(program);
    bool isFirst = !std::exchange(prepared.hasRun, true);
    if (options.waitForEach || isFirst)
      return runOneByOne(prepared);
    if (options.profile || options.trace)
      return runMeasured(prepared);
    if (!prepared.graph)
      prepared.graph = record(prepared, /*isMeasured=*/false);
    gpu.check(gpu.api.cuGraphLaunch(prepared.graph, streams[0]), "cuGraphLaunch");
    started = program;
  });
}

Status CudaDevice::runCommand(const std::string &program, size_t command) {
  return guarded([&] {
    PreparedProgram &prepared = find(program);
    if (command >= prepared.commands.size())
      throw Failure{failed("program '" + program + "' has no command " + std::to_string(command))};
    try {
      enqueue(prepared.commands[command], streams[0], /*withEvents=*/false);
      gpu.check(gpu.api.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
    } catch (const Failure &failure) {
      failIn(prepared, command, failure);
    }
  });
}

CUdeviceptr CudaDevice::rangeOf(uint32_t buffer, uint64_t offset, uint64_t bytes) const {
  if (buffer >= plan.buffers.size())
    throw Failure{failed("buffer " + std::to_string(buffer) + " does not exist")};
  const plan::Buffer &target = plan.buffers[buffer];
  if (offset > target.bytes || bytes > target.bytes - offset)
    throw Failure{failed("buffer '" + target.name + "' has " + std::to_string(target.bytes) +
                         " bytes, not " + std::to_string(bytes) + " at offset " +
                         std::to_string(offset))};
  return arena + target.offset + offset;
}

Status CudaDevice::write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) {
  return guarded([&] { staging->write(rangeOf(buffer, offset, bytes), data, bytes); });
}

Status CudaDevice::readLater(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  return guarded([&] { staging->readLater(rangeOf(buffer, offset, bytes), data, bytes); });
}

Status CudaDevice::read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  if (Status status = wait(); !status)
    return status;
  return guarded([&] { staging->read(rangeOf(buffer, offset, bytes), data, bytes); });
}

Status CudaDevice::wait() {
  Status status = guarded([&] { staging->wait(); });
  if (status)
    started.clear();
  if (status || started.empty())
    return status;
  Error error = status.error();
  error.message = "in program '" + started + "' or one before it: " + error.message +
                  "; run with --check-commands, which names the command";
  return error;
}

std::string CudaDevice::describe() const {
  std::string text = gpu.name + " (sm_" + std::to_string(gpu.major * 10 + gpu.minor) + ", " +
                     std::to_string(gpu.multiprocessors) + " multiprocessors), CUDA " +
                     versionText(gpu.driverVersion);
  if (!plan.kernels.empty())
    text += ", NVRTC " + nvrtcVersion(*apis.nvrtc);
  if (products)
    text += ", cuBLASLt " + products->version();
  return text;
}

std::vector<CommandTime> CudaDevice::times() const {
  std::vector<CommandTime> result;
  for (const plan::Program &program : plan.programs)
    for (const Prepared &prepared : programs.at(program.name).commands)
      if (prepared.runs)
        result.push_back({prepared.command, prepared.runs, prepared.seconds});
  return result;
}

std::vector<std::pair<std::string, std::string>> CudaDevice::facts() const {
  std::vector<std::pair<std::string, std::string>> all = {
      {"gpu", gpu.name},
      {"architecture", architectureOf(gpu.major, gpu.minor)},
      {"cuda_of_driver", versionText(gpu.driverVersion)}};
  if (std::string version = kernelModuleVersion(); !version.empty())
    all.emplace_back("driver", version);
  if (!plan.kernels.empty()) {
    all.emplace_back("nvrtc", nvrtcVersion(*apis.nvrtc));
    all.emplace_back("kernels_compiled", std::to_string(code.compiled));
    all.emplace_back("kernels_cached", std::to_string(code.cached));
    all.emplace_back("compile_ms", std::to_string(std::llround(1e3 * code.seconds)));
  }
  if (products) {
    all.emplace_back("cublaslt", products->version());
    all.emplace_back("products", std::to_string(products->distinct()));
    all.emplace_back("products_tuned", std::to_string(products->tuned()));
  }
  all.emplace_back("arena_bytes", std::to_string(plan.arenaBytes));
  all.emplace_back("allocated_bytes", std::to_string(gpu.allocatedBytes()));
  // The context, the kernels' code and other processes included.
  all.emplace_back("gpu_used_bytes", std::to_string(gpu.totalBytes() - gpu.freeBytes()));
  return all;
}

} // namespace nano::cuda
