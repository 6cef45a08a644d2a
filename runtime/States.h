// A plan's states on their way between files and devices, in pieces of one MiB so that no second
// copy of the model is held.
#pragma once

#include "runtime/files/FileWriter.h"
#include "runtime/files/Safetensors.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

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

/// The plan's states of one role, in the plan's order.
std::vector<const plan::State *> statesOf(const plan::Plan &plan, plan::State::Role role);

/// Writes the initial values of all states of the given roles (`Random.h` has the formulas; the
/// seed and the state's name are the keys), in the order given. `threads` threads make the values.
/// BadInput when an 8-bit float state is to start at something else than zero.
Status initializeStates(const plan::Plan &plan, const std::vector<plan::State::Role> &roles,
                        uint64_t seed, int threads, const WriteState &write);

/// Writes the states as a safetensors file through `file`, which is left unfinished.
/// With `requireFinite`, Failed with the state's name when an f32 or bf16 value is NaN or infinite.
Status storeStates(const std::vector<const plan::State *> &states, const ReadState &read,
                   bool requireFinite, FileWriter &file);

/// Writes the file's tensors into the states; `checkTensors` must have accepted them.
Status loadStates(const SafetensorsFile &file, const std::vector<const plan::State *> &states,
                  const WriteState &write);

} // namespace nano
