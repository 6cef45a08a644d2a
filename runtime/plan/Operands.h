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

/// What runs on a stream, for traces: "compute", "communication", "copy"; "stream 3" and so on.
std::string nameOfStream(uint32_t stream);
/// The stream of copies: commands, and what goes between the host and a device.
inline constexpr uint32_t copyStream = 2;

/// Every place that the command reads or writes, `read` and `written` as its kind says; of a launch
/// as the plan says, segment by segment. A product's D is one where beta is not zero, its scales
/// where it has any. A place that is read and written by different operands appears twice.
std::vector<Ref> operandsOf(const Command &command);

/// Of each kernel of the plan, whether a command of its programs launches it, or may launch it
/// instead of what it does.
std::vector<bool> launchedKernels(const Plan &plan);

} // namespace nano::plan
