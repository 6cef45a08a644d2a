// The choice among commands' candidates: measured in a program's first run, with its data, because
// what attention takes depends on documents and windows.
#include "runtime/Candidates.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/Held.h"

#include <algorithm>

namespace nano::cuda {

void CudaDevice::prepareCandidates(const plan::Program &program, Prepared &prepared) {
  const plan::Command &command = *prepared.command;
  prepared.ways = waysOf(plan, command);
  prepared.isOpen = options.tune && canChoose(plan, program, communicator.world());
  for (const plan::Launch &candidate : command.candidates)
    prepared.candidates.push_back(prepare(candidate));
}

void CudaDevice::takeWays() {
  for (auto &[name, program] : programs)
    for (Prepared &each : program.commands)
      if (!each.ways.empty()) {
        each.way = chosenWay(*tuning, each.ways);
        each.isOpen &= !tuning->findWay(keyOfWays(each.ways));
      }
}

void CudaDevice::measureWays(const Prepared &prepared) {
  if (tuning->findWay(keyOfWays(prepared.ways)))
    return; // another command of the same ways has been measured
  constexpr int runs = 5;
  std::vector<std::pair<CUdeviceptr, std::vector<std::byte>>> kept;
  for (const plan::Ref &ref : updatedOperands(*prepared.command)) {
    kept.emplace_back(address(ref),
                      std::vector<std::byte>(plan.buffers[ref.buffer].bytes - ref.offset));
    staging->read(kept.back().first, kept.back().second.data(), kept.back().second.size());
  }
  auto putBack = [&] {
    for (const auto &[at, bytes] : kept)
      staging->write(at, bytes.data(), bytes.size());
    staging->wait();
  };
  auto go = [&](size_t way) {
    if (way > 0)
      launch(prepared.candidates[way - 1], streams[0]);
    else
      enqueue(prepared, streams[0], /*withEvents=*/false);
  };
  const CUevent begin = gpu.makeEvent(true), end = gpu.makeEvent(true);
  auto seconds = [&](size_t way) {
    double least = 0;
    // The first run loads the code.
    for (int i = 0; i <= runs; ++i) {
      putBack();
      gpu.check(gpu.api.cuEventRecord(begin, streams[0]), "cuEventRecord");
      go(way);
      gpu.check(gpu.api.cuEventRecord(end, streams[0]), "cuEventRecord");
      gpu.synchronize(streams[0]);
      float milliseconds = 0;
      gpu.check(gpu.api.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
      const double took = 1e-3 * double(milliseconds);
      least = i <= 1 ? took : std::min(least, took);
    }
    return least;
  };
  std::vector<RunCost> costs(prepared.ways.size());
  for (size_t way = 0; way < costs.size(); ++way)
    costs[way].seconds = seconds(way);
  const std::vector<size_t> fastest = byTime(costs);
  // A second run of what updates its operands would find others.
  const double limit = kept.empty() ? holdWays(costs, go) : 0;
  chooseWay(*tuning, prepared.ways, costs, fastest, limit, options.report);
  putBack();
}

/// Counts the joules of the ways that are nearly as fast as the fastest; the power limit if they
/// reach it.
double CudaDevice::holdWays(std::vector<RunCost> &costs, const std::function<void(size_t)> &go) {
  constexpr double busy = 2e-5; // seconds, of what makes up something of a step that is held
  double fastest = costs.front().seconds;
  for (const RunCost &each : costs)
    fastest = std::min(fastest, each.seconds);
  auto isHeld = [&](const RunCost &each) { return each.seconds <= HeldTuning::slower * fastest; };
  const auto count = std::count_if(costs.begin(), costs.end(), isHeld);
  const double spent = HeldTuning::waySeconds + HeldTuning::seconds * double(count);
  if (fastest < busy || count < 2 || heldSeconds + spent > HeldTuning::mostSeconds)
    return 0;
  const EnergyCounter counter = energy();
  if (!counter.joules)
    return 0;
  heldSeconds += spent;
  Held held(gpu, streams[0], counter);
  double limit = powerLimit;
  held.run([&] { go(0); }, costs.front().seconds, HeldTuning::waySeconds); // warms up
  for (size_t way = 0; way < costs.size(); ++way) {
    if (!isHeld(costs[way]))
      continue;
    costs[way] = held.run([&] { go(way); }, costs[way].seconds, HeldTuning::seconds);
    limit = std::max(limit, limitReached(held.watts(), counter));
  }
  return limit;
}

void CudaDevice::closeWays(PreparedProgram &prepared) {
  if (!prepared.isOpen())
    return;
  shareTuning();
  if (communicator.rank() == 0 && !options.tuneFile.empty()) {
    if (Status saved = tuning->save(); !saved)
      throw Failure{saved.error()};
    report("wrote " + options.tuneFile + ": " + std::to_string(tuning->waysSize()) +
           " choices among candidates on " + gpu.name);
  }
  takeWays();
}

} // namespace nano::cuda
