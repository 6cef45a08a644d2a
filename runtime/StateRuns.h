// Which elements of which tensors a rank holds, and which of them it writes to a checkpoint.
//
// Files know tensors by the names and shapes that states have where one rank holds all of them
// ("embed.weight.momentum"); a rank of several may hold parts of many in one buffer
// (plan::Sharding).
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/files/Safetensors.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// One rank among the ranks of a run.
struct Seat {
  int rank = 0, world = 1, group = 1; ///< group: Plan::group
};
Seat seatOf(const plan::Plan &plan, const Communicator &communicator);

/// Elements that lie one after the other in a tensor and in a rank's part of a state.
struct StateRun {
  const plan::State *state = nullptr;
  uint64_t local = 0; ///< the first element's place in the rank's part
  std::string tensor;
  std::vector<int64_t> shape; ///< of the whole tensor
  uint64_t first = 0;         ///< the first element's place in the tensor
  uint64_t count = 0;
};

/// The tensors that these states are made of.
TensorTable tensorsOf(const std::vector<const plan::State *> &states);

/// Everything that the rank holds of these states, in their order.
std::vector<StateRun> heldRuns(const std::vector<const plan::State *> &states, const Seat &seat);

/// What the rank writes of these states: ranks that hold the same share it out among them, so that
/// the runs of all ranks cover every element of every tensor once, and every rank of the same
/// holdings writes about as many bytes.
std::vector<StateRun> ownRuns(const std::vector<const plan::State *> &states, const Seat &seat);

/// Number of elements of a shape.
uint64_t elementsOf(const std::vector<int64_t> &shape);

} // namespace nano
