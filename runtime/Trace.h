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
/// a copy and its operations, with those that the data decided, at that of a large product of its
/// types (of a launch: those of its kernel's tensor maps, of attention that of its queries, else
/// f32); 0 where nothing is known.
double floorOf(const plan::Plan &plan, const CommandSpan &span, const DeviceRates &rates);

/// Likewise the least joules: the larger of its bytes at what a byte of a copy takes and of its
/// operations at what one of such a product takes; 0 where nothing is known.
double floorJoulesOf(const plan::Plan &plan, const CommandSpan &span, const DeviceRates &rates);

/// Where the joules of a step on one rank go, as lines for the user: the sum of its commands' and
/// of their floors, and the ten kernels, or kinds of commands, that are furthest above theirs.
/// `costs`: of the commands of `spans`, those that are missing cost nothing.
std::vector<std::string> wastes(const plan::Plan &plan, const std::vector<CommandSpan> &spans,
                                const std::vector<CommandCost> &costs, const DeviceRates &rates);

/// JSON in the Trace Event Format: one complete event ("X") a command, named by its label, its
/// process the rank, its thread the stream, times in microseconds from the first command's start;
/// its arguments "program", "at", "kernel", "summary", "shape", "bytes", "flops", and where the
/// device has rates "floor_us", "gap_us" (time above the floor) and "of_floor" (floor over time);
/// with `costs` "alone_us", "mj" and "floor_mj". Beside the events: "otherData" with model, plan
/// hash, device, step, world, rates, and rank 0's sums "us", "floor_us" and "gap_us"; "kernels",
/// rank 0's same sums by kernel or kind of command, the largest gap first. `ranks`: spans by rank,
/// all by one clock. `costs`: what runs of commands cost by themselves, or nothing.
std::string traceText(const plan::Plan &plan, const std::string &planHash,
                      const std::string &device, int64_t step,
                      const std::vector<std::vector<CommandSpan>> &ranks,
                      const std::optional<DeviceRates> &rates,
                      const std::vector<CommandCost> &costs = {});

} // namespace nano
