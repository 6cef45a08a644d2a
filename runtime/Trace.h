// What `--profile` writes: one step, command by command on every rank, as a trace that
// chrome://tracing and ui.perfetto.dev show.
#pragma once

#include "runtime/Device.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Work.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// The least seconds that the command takes at these rates: the longer of its bytes at the rate of
/// a copy and its operations at that of a large product of its types (of a launch: those of its
/// kernel's tensor maps, else f32); 0 where nothing is known.
double floorOf(const plan::Plan &plan, const plan::Command &command, const DeviceRates &rates);

/// JSON in the Trace Event Format: one complete event ("X") a command, named by its label, its
/// process the rank, its thread the stream, times in microseconds from the first command's start;
/// its arguments "program", "at", "kernel", "summary", "shape", "bytes", "flops", and where the
/// device has rates "floor_us", "gap_us" (time above the floor) and "of_floor" (floor over time).
/// Beside the events: "otherData" with model, plan hash, device, step, world, rates, and rank 0's
/// sums "us", "floor_us" and "gap_us"; "kernels", rank 0's same sums by kernel or kind of command,
/// the largest gap first. `ranks`: spans by rank, all by one clock.
std::string traceText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t step,
                      const std::vector<std::vector<CommandSpan>> &ranks,
                      const std::optional<DeviceRates> &rates);

} // namespace nano
