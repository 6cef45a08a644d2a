// A plan's states on their way between files and devices, in pieces of one MiB so that no second
// copy of the model is held.
#pragma once

#include "base/Status.h"
#include "runtime/StateRuns.h"
#include "runtime/files/FileWriter.h"
#include "runtime/files/StoredTensors.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nano {

/// Copies `bytes` bytes of a state, from byte `offset` on, out of the place where it lives.
using ReadState =
    std::function<Status(const plan::State &state, uint64_t offset, void *data, uint64_t bytes)>;
/// Copies them into it.
using WriteState = std::function<Status(const plan::State &state, uint64_t offset, const void *data,
                                        uint64_t bytes)>;

/// Makes all of a state zero.
using ClearState = std::function<Status(const plan::State &state)>;

/// Gives elements of a state their initial values where it lives: `count` of them from element
/// `first` of what is held. False: it was left undone. May be empty.
using FillState = std::function<Result<bool>(const plan::State &state, uint64_t seed,
                                             uint64_t first, uint64_t count)>;

/// Hears what a rank is at, for others that wait for it: "reading 'x' from a/params.safetensors".
/// May be empty.
using Say = std::function<void(const std::string &what)>;

/// The plan's states of one role, in the plan's order.
std::vector<const plan::State *> statesOf(const plan::Plan &plan, plan::State::Role role);

/// Whether a state starts as another does.
inline bool isCopy(const plan::State &state) {
  return state.init.kind == plan::Init::Kind::Copy ||
         state.init.kind == plan::Init::Kind::Transpose;
}

/// Writes the initial values of the rank's part of all states of the given roles (`Random.h` has
/// the formulas; the seed and the state's name are the keys), in the order given, those that start
/// at zero before the others, then those that `fill` fills; copies are left to `copyStates`.
/// `threads` threads make the values.
/// BadInput when an 8-bit float state is to start at something else than zero.
Status initializeStates(const plan::Plan &plan, const Seat &seat,
                        const std::vector<plan::State::Role> &roles, uint64_t seed, int threads,
                        const WriteState &write, const ClearState &clear, const Say &say = {},
                        const FillState &fill = {});

/// Writes states that start as copies, in an order in which each finds its source, from what that
/// holds by now: after the others have their values, from wherever. A transposed one needs its
/// bytes in memory.
Status copyStates(const plan::Plan &plan, std::vector<const plan::State *> copies,
                  const ReadState &read, const WriteState &write, const Say &say = {});

/// Writes these elements as a safetensors file through `file`, which is left unfinished: runs of
/// whole tensors under their names, others as stretches (`StoredTensors.h`); larger elements first,
/// so that all are aligned, otherwise as given. With `requireFinite`, Failed with the state's name
/// when a value is NaN or infinite.
Status storeRuns(std::vector<StateRun> runs, const ReadState &read, bool requireFinite,
                 FileWriter &file);

/// Writes the rank's part of the states from stored tensors; `checkTensors` must have accepted
/// them. What no tensor covers becomes zero. Two tensors are read at a time, on threads of their
/// own; `write` and `say` are called on this one, tensors in about the order of
/// the states. The error is that of the first tensor that has one. With `requireFinite`, BadInput,
/// naming file, tensor and index, for a value that is NaN or infinite.
Status loadStates(const TensorSource &stored, const std::vector<const plan::State *> &states,
                  const Seat &seat, const WriteState &write, const ClearState &clear,
                  const Say &say = {}, bool requireFinite = true);

} // namespace nano
