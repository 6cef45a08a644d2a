// What `--profile` writes: one step, command by command, as a trace that chrome://tracing and
// ui.perfetto.dev show.
#pragma once

#include "runtime/Device.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// What a command moves and computes at least. Bytes: every operand once, as its Ref or its sizes
/// say; a launch whose operands say nothing has none. Operations: 2·m·n·k·batch of a product.
struct CommandWork {
  double bytes = 0, flops = 0;
};
CommandWork workOf(const plan::Command &command);

/// The least seconds that the command takes at these rates: the longer of its bytes at the rate of
/// a copy and its operations at that of a large product of its types; 0 where nothing is known.
double floorOf(const plan::Command &command, const DeviceRates &rates);

/// JSON in the Trace Event Format: one complete event ("X") a command, named by its label, its
/// process the program's, its thread the stream's, times in microseconds from the first command's
/// start; its arguments "at", "kernel", "summary", "shape", "bytes", "flops", and where the device
/// has rates "floor_us", "gap_us" (time above the floor) and "of_floor" (floor over time). Beside
/// the events: "otherData" with model, plan hash, device, step, rates, and the sums "us",
/// "floor_us" and "gap_us"; "kernels", the same sums by kernel or kind of command, the largest gap
/// first.
std::string traceText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t step,
                      const std::vector<CommandSpan> &spans,
                      const std::optional<DeviceRates> &rates);

} // namespace nano
