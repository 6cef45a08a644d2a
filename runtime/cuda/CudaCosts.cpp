// What each command of a program costs by itself: microseconds and joules of a run, repeated.
#include "runtime/Candidates.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/Held.h"
#include "runtime/cuda/Rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nano::cuda {

/// Commands with the same key cost the same; empty for those that compute nothing alone.
std::string CudaDevice::keyOfCost(const Prepared &prepared) const {
  const plan::Command &command = *prepared.command;
  if (prepared.way == 0 && prepared.product)
    return prepared.product->key();
  if (const auto *launch = command.as<plan::Launch>()) {
    const KernelLaunch &own =
        prepared.way > 0 ? prepared.candidates[prepared.way - 1] : prepared.launch;
    const uint32_t kernel =
        prepared.way > 0 ? command.candidates[prepared.way - 1].kernel : launch->kernel;
    return own.blocks == 0 ? "" : fmt::format("{} {}", kernel, own.blocks);
  }
  if (prepared.way > 0)
    return fmt::format("{} {}", command.candidates[prepared.way - 1].kernel,
                       prepared.candidates[prepared.way - 1].blocks);
  if (const auto *fill = command.as<plan::Fill>())
    return fmt::format("fill {}", uint64_t(fill->count) * plan::sizeOf(fill->type));
  if (const auto *copy = command.as<plan::Copy>())
    return fmt::format("copy {} {} {}", uint64_t(copy->count) * plan::sizeOf(copy->type),
                       isHostCopy(plan, *copy), isInHost(plan, plan.buffers[copy->to.buffer]));
  return "";
}

/// What the operands that the command updates hold. Small ones, such as counters, must be as they
/// were before every run, so they have a copy beside; large ones are put back at the end: their
/// values change, and what the command costs does not.
std::vector<CudaDevice::Kept> CudaDevice::keepUpdated(const plan::Command &command) {
  constexpr uint64_t mostBytes = uint64_t(1) << 20;
  std::vector<Kept> kept;
  size_t copies = 0;
  for (const plan::Ref &ref : updatedOperands(command)) {
    const uint64_t bytes = plan.buffers[ref.buffer].bytes - ref.offset;
    if (bytes == 0)
      continue;
    Kept &each = kept.emplace_back(Kept{address(ref), 0, std::vector<std::byte>(bytes)});
    staging->read(each.at, each.bytes.data(), bytes);
    if (bytes > mostBytes)
      continue;
    if (spare.size() <= copies)
      spare.push_back(gpu.allocate(mostBytes));
    each.copy = spare[copies++];
    staging->write(each.copy, each.bytes.data(), bytes);
  }
  staging->wait();
  return kept;
}

CommandCost CudaDevice::costOf(const Prepared &prepared, Held &held) {
  constexpr double seconds = 0.3;
  const std::vector<Kept> kept = keepUpdated(*prepared.command);
  bool copies = false;
  for (const Kept &each : kept)
    copies |= each.copy != 0;
  auto putBack = [&] {
    for (const Kept &each : kept)
      if (each.copy)
        gpu.check(gpu.api.cuMemcpyDtoDAsync(each.at, each.copy, each.bytes.size(), streams[0]),
                  "cuMemcpyDtoDAsync");
  };
  auto go = [&] {
    putBack();
    enqueue(prepared, streams[0], /*withEvents=*/false);
  };
  RunCost cost = held.run(go, secondsOfRun(gpu, streams[0], go), seconds);
  if (copies) {
    const RunCost those = held.run(putBack, secondsOfRun(gpu, streams[0], putBack), seconds);
    cost.seconds = std::max(0.0, cost.seconds - those.seconds);
    cost.joules = std::max(0.0, cost.joules - those.joules);
  }
  for (const Kept &each : kept)
    staging->write(each.at, each.bytes.data(), each.bytes.size());
  staging->wait();
  return {prepared.command, cost.seconds, cost.joules};
}

/// Joules of the copy and the products whose rates are known.
void CudaDevice::measureJoules(Held &held) {
  if (!measuredRates)
    return;
  fillWithNoise();
  const std::optional<DeviceRates> found =
      measureRates(gpu, products.get(), arena, plan.arenaBytes, workspaceOf(0), streams[0], &held);
  if (!found)
    return;
  measuredRates->copyJoules = found->copyJoules;
  measuredRates->f32Joules = found->f32Joules;
  measuredRates->bf16Joules = found->bf16Joules;
  measuredRates->f8Joules = found->f8Joules;
}

std::string CudaDevice::whyNoCosts() const {
  for (const auto &[name, program] : programs)
    if (program.hasExchange)
      return "program '" + name + "' exchanges data with other ranks; run it on one rank";
  const EnergyCounter counter = energy();
  return counter.joules ? "" : "the GPU does not count joules: " + counter.name;
}

std::vector<CommandCost> CudaDevice::costsOf(const std::vector<std::string> &names) {
  std::vector<CommandCost> all;
  Held held(gpu, streams[0], energy());
  std::map<std::string, CommandCost> known;
  for (const std::string &name : names) {
    PreparedProgram &prepared = find(name);
    // The program itself warms the board up. Then a command is measured when those before it have
    // run: what lies in its operands is what it reads in a step, until they are used again.
    held.run([&] { play(prepared, 1, /*isMeasured=*/false); }, 1, HeldTuning::warmSeconds);
    for (size_t i = 0; i < prepared.commands.size(); ++i)
      try {
        const Prepared &each = prepared.commands[i];
        isInCommand = true;
        if (const std::string key = keyOfCost(each); !key.empty()) {
          auto found = known.find(key);
          if (found == known.end())
            found = known.emplace(key, costOf(each, held)).first;
          all.push_back({each.command, found->second.seconds, found->second.joules});
        }
        enqueue(each, streams[0], /*withEvents=*/false);
        gpu.synchronize(streams[0]);
        isInCommand = false;
      } catch (const Failure &failure) {
        failIn(prepared, i, failure);
      }
  }
  measureJoules(held);
  return all;
}

} // namespace nano::cuda
