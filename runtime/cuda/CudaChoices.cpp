// The choice among commands' candidates: measured in a program's first run, with its data, because
// what attention takes depends on documents and windows.
#include "runtime/Candidates.h"
#include "runtime/cuda/CudaDevice.h"

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
  const CUevent begin = gpu.makeEvent(true), end = gpu.makeEvent(true);
  auto seconds = [&](size_t way) {
    double least = 0;
    // The first run loads the code.
    for (int i = 0; i <= runs; ++i) {
      putBack();
      gpu.check(gpu.api.cuEventRecord(begin, streams[0]), "cuEventRecord");
      if (way > 0)
        launch(prepared.candidates[way - 1], streams[0]);
      else
        enqueue(prepared, streams[0], /*withEvents=*/false);
      gpu.check(gpu.api.cuEventRecord(end, streams[0]), "cuEventRecord");
      gpu.synchronize(streams[0]);
      float milliseconds = 0;
      gpu.check(gpu.api.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
      const double took = 1e-3 * double(milliseconds);
      least = i <= 1 ? took : std::min(least, took);
    }
    return least;
  };
  chooseWay(*tuning, prepared.ways, seconds, options.report);
  putBack();
}

void CudaDevice::closeWays(PreparedProgram &prepared) {
  if (std::none_of(prepared.commands.begin(), prepared.commands.end(),
                   [](const Prepared &each) { return each.isOpen; }))
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
