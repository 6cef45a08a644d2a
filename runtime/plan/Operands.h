// What a command of a plan is, reads and writes.
#pragma once

#include "runtime/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace nano::plan {

/// "launch", "matmul", "all_reduce", "reduce_scatter", "all_gather", "shard", "fill", "copy",
/// "record" or "wait".
const char *nameOf(const Command::Action &action);
/// True when ranks exchange data in it.
bool isCollective(const Command &command);

/// What an all-reduce, reduce-scatter, all-gather or shard moves, and among whom; an all-reduce's
/// parts stay where they are. Nothing for other commands.
std::optional<Exchange> exchangeOf(const Command &command);
/// True for a record or a wait: nothing is computed.
bool isEvent(const Command &command);

/// True for what a device's copy engine does: copies, fills and shards.
bool isCopy(const Command &command);

/// What runs on a stream, for traces: "compute", "communication", "copy", "to host", "from host";
/// "stream 5" and so on.
std::string nameOfStream(uint32_t stream);
/// The stream of copies: commands, and what goes between the host and a device.
inline constexpr uint32_t copyStream = 2;

/// Every place that the command reads or writes, `read` and `written` as its kind says; of a launch
/// as the plan says, segment by segment. A product's D is one where beta is not zero, its scales
/// where it has any. A place that is read and written by different operands appears twice.
std::vector<Ref> operandsOf(const Command &command);

/// What a command touches of an operand: no byte before its start, nor behind so many.
struct Reached {
  Ref ref;
  uint64_t bytes = 0; ///< gaps between rows counted
};

/// operandsOf the command, each with what of it the command may read or write at most: of a launch
/// as its kernel says, of a collective on the number of ranks that makes it largest. A command of a
/// valid plan; one that is not yet known to be valid has reaches that are as wrong as its numbers.
std::vector<Reached> reachedBy(const Plan &plan, const Command &command);
/// Of a launch alone.
std::vector<Reached> reachedBy(const Plan &plan, const Launch &launch);

/// Bytes from the first element of `batch` matrices of rows × columns elements, `leading` and
/// `stride` elements apart, to the end of the last one; saturates.
uint64_t matrixBytes(DType type, uint64_t rows, uint64_t columns, int64_t leading, int64_t batch,
                     int64_t stride);

/// How far a kernel reaches in a launch of so many iterations; null where it takes fewer.
const Kernel::Reach *reachOf(const Kernel &kernel, int64_t iterations);

/// Of each kernel of the plan, whether a command of its programs launches it, or may launch it
/// instead of what it does.
std::vector<bool> launchedKernels(const Plan &plan);

} // namespace nano::plan
