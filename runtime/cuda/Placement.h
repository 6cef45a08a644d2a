// Which GPU a rank runs on.
#pragma once

#include "base/Status.h"
#include "runtime/comm/Communicator.h"

#include <string>
#include <vector>

namespace nano::cuda {

/// A rank's GPU.
struct Placement {
  int ordinal = 0;         ///< among those that its process sees
  bool isShared = false;   ///< some GPU has several ranks, so that NCCL cannot join them
  bool isFirstHere = true; ///< no rank of a smaller number sees the same GPUs
};

/// Ranks that see the same GPUs, as the threads of one process or the processes of one machine do,
/// take them in the order of their numbers; a process that sees one GPU takes that one. Every rank
/// calls it with the identifiers of the GPUs that it sees. `share`: where the ranks are more, they
/// start again at the first GPU; else that is a BadInput that names the ranks.
Result<Placement> placeOnGpu(Communicator &communicator, const std::vector<std::string> &gpus,
                             bool share);

} // namespace nano::cuda
