// A hand-made CUDA plan of collectives, with results that are known, and ranks as threads to run
// it.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <string>
#include <vector>

namespace nano::test {

/// Program "last" on two streams: collectives of every kind and set of ranks on the second, several
/// buffers at once among them; f32 and bf16.
/// `part`: elements that a rank has of most buffers; with `largePart` collectives are of a size
/// that copy engines do.
plan::Plan ranksPlan(int world, int group, int64_t part = 4);
inline constexpr int64_t largePart = 1 << 14;

/// Writes the inputs of run number `run` on this rank, runs the program, and compares everything
/// that it writes, bit by bit: the inputs are such that no sum rounds.
void checkRanksRun(Device &device, const plan::Plan &plan, int rank, int run);

using RankBody = std::function<void(cuda::CudaDevice &device, Communicator &communicator)>;

/// Makes a device for every rank of the plan's world in a thread of its own, and calls `body` with
/// it. What making the device gave, by rank; where it failed, the others are told.
std::vector<Status> forRanks(const plan::Plan &plan, const DeviceOptions &options,
                             const cuda::Apis &apis, const std::string &cacheFolder,
                             const RankBody &body);

} // namespace nano::test
