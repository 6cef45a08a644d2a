// Runs a plan's programs on a GPU: command by command, or as a graph.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/Overload.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <thread>

namespace nano::cuda {

using plan::Command;

void CudaDevice::launch(const KernelLaunch &kernel, CUstream stream) const {
  if (kernel.blocks == 0)
    return;
  void *parameters[] = {const_cast<uint64_t *>(kernel.parameters.data()),
                        const_cast<CUtensorMap *>(kernel.maps.data())};
  gpu.check(gpu.api.cuLaunchKernel(kernel.function, kernel.blocks, 1, 1, kernel.threads, 1, 1,
                                   kernel.sharedBytes, stream, parameters, nullptr),
            "cuLaunchKernel");
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
  auto bytesOf = [](plan::DType type, int64_t count) {
    return uint64_t(count) * plan::sizeOf(type);
  };
  auto copy = [&](CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    if (bytes && to != from)
      gpu.check(api.cuMemcpyDtoDAsync(to, from, bytes, stream), "cuMemcpyDtoDAsync");
  };
  if (prepared.way > 0)
    return launch(prepared.candidates[prepared.way - 1], stream);
  std::visit(
      Overload{
          [&](const plan::Launch &) { launch(prepared.launch, stream); },
          [&](const plan::Matmul &) {
            cublasStatus_t status =
                prepared.product->enqueue(workspaceOf(withEvents ? command.stream : 0), stream);
            if (status != CUBLAS_STATUS_SUCCESS)
              throw Failure{
                  cublasLtError(*apis.cublasLt, status, "the product " + prepared.product->key())};
          },
          [&](const plan::Fill &fill) {
            if (const uint64_t bytes = bytesOf(fill.type, fill.count))
              gpu.check(api.cuMemsetD8Async(address(fill.to), 0, bytes, stream), "cuMemsetD8Async");
          },
          [&](const plan::Copy &move) {
            const CUdeviceptr to = address(move.to), from = address(move.from);
            const uint64_t bytes = bytesOf(move.type, move.count);
            if (bytes == 0 || !isHostCopy(plan, move))
              copy(to, from, bytes);
            else if (plan::isInHost(plan, plan.buffers[move.to.buffer]))
              gpu.check(api.cuMemcpyDtoHAsync(std::bit_cast<void *>(to), from, bytes, stream),
                        "cuMemcpyDtoHAsync");
            else
              gpu.check(api.cuMemcpyHtoDAsync(to, std::bit_cast<void *>(from), bytes, stream),
                        "cuMemcpyHtoDAsync");
          },
          [&](const plan::RecordEvent &record) {
            if (withEvents)
              gpu.check(api.cuEventRecord(events[record.event], stream), "cuEventRecord");
          },
          [&](const plan::WaitEvent &wait) {
            if (withEvents)
              gpu.check(api.cuStreamWaitEvent(stream, events[wait.event], 0), "cuStreamWaitEvent");
          },
          [&](const auto &) { // collectives and Shard
            const PreparedCollective &collective = prepared.collective;
            if (prepared.isExchange) {
              if (progress)
                gpu.check(api.cuMemsetD32Async(progress, prepared.number, 1, stream),
                          "cuMemsetD32Async");
              collectives->enqueue(collective, stream);
              return;
            }
            for (const CollectivePart &part : collective.parts)
              copy(part.to, part.from, bytesOf(collective.type, part.count));
          },
      },
      command.action);
}

/// `isFirst`: the libraries load the code of what they run, which counts as the start's.
/// `measures`: before a command whose ways are open, these.
void CudaDevice::runOneByOne(PreparedProgram &prepared, bool isFirst, bool measures) {
  for (size_t i = 0; i < prepared.commands.size(); ++i)
    try {
      const Phases::Clock::time_point begin = Phases::Clock::now();
      isInCommand = true;
      if (measures && prepared.commands[i].isOpen && communicator.rank() == 0)
        measureWays(prepared.commands[i]);
      enqueue(prepared.commands[i], streams[0], /*withEvents=*/false);
      const Phases::Clock::time_point enqueued = Phases::Clock::now();
      gpu.synchronize(streams[0]);
      isInCommand = false;
      if (isFirst) {
        const bool isProduct = prepared.commands[i].product != nullptr;
        phases.add(isProduct ? "first_products" : "first_others", enqueued - begin);
        phases.add("first_waits", Phases::Clock::now() - enqueued);
      }
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
}

/// Puts the program on the first `streamCount` streams, 1 or all; the others start behind the first
/// and end before it. A measured one has the marks around its commands.
void CudaDevice::play(PreparedProgram &prepared, uint32_t streamCount, bool isMeasured) {
  const DriverApi &api = gpu.api;
  const size_t count = prepared.commands.size();
  auto mark = [&](size_t index, uint32_t stream) {
    if (!isMeasured)
      return;
    if (isRecordable())
      gpu.check(api.cuEventRecordWithFlags(marks[index], streams[stream], CU_EVENT_RECORD_EXTERNAL),
                "cuEventRecordWithFlags");
    else
      gpu.check(api.cuEventRecord(marks[index], streams[stream]), "cuEventRecord");
  };
  const size_t spares = count + prepared.measuredStreams();
  mark(spares + spareMarks + 1, 0);
  if (streamCount > 1)
    gpu.check(api.cuEventRecord(joins[0], streams[0]), "cuEventRecord");
  for (uint32_t i = 1; i < streamCount; ++i)
    gpu.check(api.cuStreamWaitEvent(streams[i], joins[0], 0), "cuStreamWaitEvent");
  for (size_t i = 0, range = 0; i < count; ++i)
    try {
      uint32_t stream = streamCount == 1 ? 0 : prepared.commands[i].command->stream;
      for (; isMeasured && range < prepared.keyRanges.size() &&
             prepared.keyRanges[range].command == i;
           ++range) {
        mark(spares + spareMarks + 2 + range, stream);
        const KeptRanges &kept = prepared.keyRanges[range];
        const uint64_t bytes = sizeof(int32_t) * kept.source.queries;
        gpu.check(
            api.cuMemcpyDtoHAsync(kept.copy, address(kept.source.first), bytes, streams[stream]),
            "cuMemcpyDtoHAsync");
        gpu.check(api.cuMemcpyDtoHAsync(kept.copy + bytes, address(kept.source.last), bytes,
                                        streams[stream]),
                  "cuMemcpyDtoHAsync");
      }
      mark(i, stream);
      isInCommand = true;
      enqueue(prepared.commands[i], streams[stream], /*withEvents=*/streamCount > 1);
      isInCommand = false;
    } catch (const Failure &failure) {
      failIn(prepared, i, failure);
    }
  for (uint32_t i = 0; i < streamCount; ++i)
    mark(count + i, i);
  for (size_t i = 0; i <= spareMarks; ++i)
    mark(spares + i, 0);
  for (uint32_t i = 1; i < streamCount; ++i) {
    gpu.check(api.cuEventRecord(joins[i], streams[i]), "cuEventRecord");
    gpu.check(api.cuStreamWaitEvent(streams[0], joins[i], 0), "cuStreamWaitEvent");
  }
}

double CudaDevice::KeptRanges::mean() const {
  const auto *keys = reinterpret_cast<const int32_t *>(copy);
  return plan::meanKeys(keys, keys + source.queries, source.queries);
}

double CudaDevice::decidedFlops(const Prepared &prepared, const std::vector<double> &keys) const {
  const auto *launch = prepared.command->as<plan::Launch>();
  if (!launch)
    return 0;
  std::vector<double> own;
  for (size_t range : prepared.keyRanges)
    own.push_back(keys[range]);
  return plan::attentionFlops(plan, *launch, own);
}

/// Runs the program with an event between any two commands of a stream. The events are nodes of a
/// graph: between launches by the host there would be gaps, which would count as the commands'.
void CudaDevice::runMeasured(PreparedProgram &prepared) {
  const size_t count = prepared.commands.size();
  const uint32_t streamCount = isRecordable() ? prepared.measuredStreams() : 1;
  if (!isRecordable()) {
    play(prepared, streamCount, /*isMeasured=*/true);
  } else {
    gpu.check(gpu.api.cuGraphLaunch(prepared.graph, streams[0]), "cuGraphLaunch");
  }
  started = prepared.program->name;
  gpu.synchronize(streams[0]);
  auto seconds = [&](CUevent from, CUevent to) {
    float milliseconds = 0;
    gpu.check(gpu.api.cuEventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime");
    return 1e-3 * double(milliseconds);
  };
  // What an event takes by itself, of those behind the last command.
  const size_t spares = count + prepared.measuredStreams();
  double nothing = seconds(marks[spares], marks[spares + 1]);
  for (size_t i = 1; i < spareMarks; ++i)
    nothing = std::min(nothing, seconds(marks[spares + i], marks[spares + i + 1]));
  CUevent origin = marks[spares + spareMarks + 1];
  double begin = epochSeconds + seconds(epoch, origin);
  // The mark behind a command is the next one of its stream.
  std::vector<size_t> ends(count), next(streamCount);
  for (uint32_t i = 0; i < streamCount; ++i)
    next[i] = count + i;
  for (size_t i = count, range = prepared.keyRanges.size(); i-- > 0;) {
    size_t &following = next[streamCount == 1 ? 0 : prepared.commands[i].command->stream];
    ends[i] = std::exchange(following, i);
    for (; range > 0 && prepared.keyRanges[range - 1].command == i; --range)
      following = spares + spareMarks + 2 + range - 1;
  }
  std::vector<double> keys;
  for (const KeptRanges &ranges : prepared.keyRanges)
    keys.push_back(ranges.mean());
  for (size_t i = 0; i < count; ++i) {
    Prepared &each = prepared.commands[i];
    double start = options.trace ? seconds(origin, marks[i]) : 0;
    double own = std::max(0.0, seconds(marks[i], marks[ends[i]]) - nothing);
    each.seconds += own;
    ++each.runs;
    if (options.trace)
      spans.push_back({each.command, begin + start, own, decidedFlops(each, keys)});
  }
}

CUgraphExec CudaDevice::record(PreparedProgram &prepared, bool isMeasured) {
  const DriverApi &api = gpu.api;
  CUgraph graph = nullptr;
  const Phases::Clock::time_point begin = Phases::Clock::now();
  gpu.check(api.cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            "cuStreamBeginCapture");
  try {
    play(prepared, isMeasured ? prepared.measuredStreams() : prepared.program->streams, isMeasured);
  } catch (const Failure &) {
    api.cuStreamEndCapture(streams[0], &graph); // leaves the stream usable
    if (graph)
      api.cuGraphDestroy(graph);
    throw;
  }
  gpu.check(api.cuStreamEndCapture(streams[0], &graph), "cuStreamEndCapture");
  const Phases::Clock::time_point captured = Phases::Clock::now();
  CUgraphExec executable = gpu.instantiate(graph, streams[0]);
  phases.add("capture", captured - begin);
  phases.add("instantiate", Phases::Clock::now() - captured);
  return executable;
}

void CudaDevice::failIn(const PreparedProgram &prepared, size_t command, const Failure &failure) {
  isInCommand = false;
  throw Failure{plan::inCommand(plan, *prepared.program, command, failure.error)};
}

std::string CudaDevice::lastExchange() {
  *reinterpret_cast<uint32_t *>(progressCopy) = 0;
  if (gpu.api.cuMemcpyDtoHAsync(progressCopy, progress, sizeof(uint32_t), probes) != CUDA_SUCCESS)
    return "";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (gpu.api.cuStreamQuery(probes) != CUDA_SUCCESS) {
    if (std::chrono::steady_clock::now() >= deadline)
      return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  uint32_t number = 0;
  std::memcpy(&number, progressCopy, sizeof number);
  for (const plan::Program &program : plan.programs) {
    if (number >= 1 && number <= program.commands.size())
      return plan::placeOf(plan, program, number - 1);
    number -= std::min(number, uint32_t(program.commands.size()));
  }
  return "";
}

void CudaDevice::watch(std::chrono::nanoseconds waited) {
  if (waited.count() == 0)
    communicator.waiting(started.empty() ? "a collective"
                                         : "the collectives of program '" + started + "'");
  std::string why;
  if (std::optional<Error> failure = communicator.failure())
    why = failure->message;
  else if (options.rankTimeout.count() > 0 && waited >= options.rankTimeout)
    why = "the ranks' GPUs came to no end within " + plan::secondsText(options.rankTimeout) +
          " (--rank-timeout)";
  else
    try {
      collectives->check();
    } catch (const Failure &broken) {
      why = broken.error.message;
    }
  if (!why.empty())
    part(why);
}

void CudaDevice::part(const std::string &why) {
  std::string where = "rank " + std::to_string(communicator.rank());
  if (!isInCommand) {
    if (std::string last = lastExchange(); !last.empty())
      where += " in " + last;
    else if (!started.empty())
      where += " in program '" + started + "'";
  }
  parted = failed(where + ": " + why);
  throw Failure{*parted};
}

void CudaDevice::leave() {
  std::thread graphs([&] {
    if (gpu.tryActivate()) // else the context is gone, and its graphs with it
      gpu.destroyGraphs();
  });
  collectives->abort(parted ? parted->message
                            : "rank " + std::to_string(communicator.rank()) + " has failed");
  graphs.join();
  for (auto &[name, prepared] : programs)
    prepared.graph = nullptr;
}

template <typename Work> Status CudaDevice::guarded(Work work) {
  if (hasFailed && parted)
    return *parted;
  try {
    gpu.activate();
    work();
    return ok();
  } catch (const Failure &failure) {
    hasFailed = true;
    if (parted) {
      parted = failure.error; // now with its command
      leave();
    }
    return failure.error;
  }
}

CudaDevice::PreparedProgram &CudaDevice::find(const std::string &program) {
  auto found = programs.find(program);
  if (found == programs.end())
    throw Failure{failed("the plan has no program '" + program + "'")};
  return found->second;
}

/// Runs the program for the first time, and records its graph for the next. `onData`: on what the
/// run is about, so that times tell something.
void CudaDevice::runFirst(PreparedProgram &prepared, bool onData) {
  endProducts();
  runOneByOne(prepared, /*isFirst=*/true, /*measures=*/onData);
  if (onData)
    closeWays(prepared);
  if (!options.waitForEach && isRecordable()) {
    prepared.graph = record(prepared, /*isMeasured=*/options.profile || options.trace);
    if (prepared.hasExchange)
      collectives->haveRecorded();
  }
  prepared.hasRun = true;
}

Status CudaDevice::run(const std::string &program) {
  return guarded([&] {
    PreparedProgram &prepared = find(program);
    if (!prepared.hasRun)
      return runFirst(prepared, /*onData=*/true);
    if (options.waitForEach)
      return runOneByOne(prepared, /*isFirst=*/false);
    if (options.profile || options.trace)
      return runMeasured(prepared);
    started = program;
    if (!isRecordable())
      return play(prepared, 1, /*isMeasured=*/false);
    gpu.check(gpu.api.cuGraphLaunch(prepared.graph, streams[0]), "cuGraphLaunch");
  });
}

/// On whatever lies in the arena. Programs whose ways are to be measured wait for their data.
Status CudaDevice::prepareAhead(const std::vector<std::string> &names) {
  return guarded([&] {
    for (const std::string &name : names)
      if (PreparedProgram &prepared = find(name); !prepared.hasRun && !prepared.isOpen())
        runFirst(prepared, /*onData=*/false);
  });
}

Status CudaDevice::runCommand(const std::string &program, size_t command) {
  return guarded([&] {
    endProducts();
    PreparedProgram &prepared = find(program);
    if (command >= prepared.commands.size())
      throw Failure{failed("program '" + program + "' has no command " + std::to_string(command))};
    try {
      isInCommand = true;
      enqueue(prepared.commands[command], streams[0], /*withEvents=*/false);
      gpu.synchronize(streams[0]);
      isInCommand = false;
    } catch (const Failure &failure) {
      failIn(prepared, command, failure);
    }
  });
}

Result<std::vector<CommandCost>> CudaDevice::costs(const std::vector<std::string> &names) {
  if (const std::string why = whyNoCosts(); !why.empty())
    return badInput(why);
  std::vector<CommandCost> all;
  Status status = guarded([&] {
    endProducts();
    all = costsOf(names);
  });
  return status ? Result<std::vector<CommandCost>>(std::move(all)) : status.error();
}

CUdeviceptr CudaDevice::rangeOf(uint32_t buffer, uint64_t offset, uint64_t bytes) const {
  if (Status status = plan::checkRange(plan, buffer, offset, bytes); !status)
    throw Failure{status.error()};
  return startOf(buffer) + offset;
}

std::byte *CudaDevice::finishedOnHost(uint32_t buffer, CUdeviceptr start) {
  if (!plan::isInHost(plan, plan.buffers[buffer]))
    return nullptr;
  staging->wait();
  return std::bit_cast<std::byte *>(start);
}

Status CudaDevice::write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) {
  return guarded([&] {
    const CUdeviceptr to = rangeOf(buffer, offset, bytes);
    if (std::byte *host = finishedOnHost(buffer, to))
      std::memcpy(host, data, bytes);
    else
      staging->write(to, data, bytes);
  });
}

Status CudaDevice::clear(uint32_t buffer) {
  const uint64_t bytes = buffer < plan.buffers.size() ? plan.buffers[buffer].bytes : 0;
  return guarded([&] {
    const CUdeviceptr to = rangeOf(buffer, 0, bytes);
    if (std::byte *host = finishedOnHost(buffer, to))
      std::memset(host, 0, bytes);
    else
      gpu.check(gpu.api.cuMemsetD8Async(to, 0, bytes, streams[0]), "cuMemsetD8Async");
  });
}

Result<bool> CudaDevice::fill(const plan::State &state, uint64_t seed, uint64_t first,
                              uint64_t count) {
  if (!draws || !Draws::takes(state))
    return false;
  const uint64_t size = plan::sizeOf(state.type);
  Status status = guarded([&] {
    draws->enqueue(state, seed, first, count, rangeOf(state.buffer, first * size, count * size),
                   streams[0]);
  });
  return status ? Result<bool>(true) : status.error();
}

Status CudaDevice::readLater(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  return guarded([&] {
    const CUdeviceptr from = rangeOf(buffer, offset, bytes);
    if (const std::byte *host = finishedOnHost(buffer, from))
      std::memcpy(data, host, bytes);
    else
      staging->readLater(from, data, bytes);
  });
}

Status CudaDevice::read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
  if (Status status = wait(); !status)
    return status;
  return guarded([&] {
    const CUdeviceptr from = rangeOf(buffer, offset, bytes);
    if (const std::byte *host = finishedOnHost(buffer, from))
      std::memcpy(data, host, bytes);
    else
      staging->read(from, data, bytes);
  });
}

Status CudaDevice::wait() {
  Status status = guarded([&] {
    staging->wait();
    if (collectives)
      if (std::optional<std::string> why = collectives->whyVoid())
        part(*why);
  });
  if (status)
    started.clear();
  if (status || started.empty() || parted)
    return status;
  Error error = status.error();
  error.message = "in program '" + started + "' or one before it: " + error.message +
                  "; run with --check-commands, which names the command";
  return error;
}

} // namespace nano::cuda
