// The interpreter's numbers as a device's bytes, and whole states as the parts that ranks hold.
#pragma once

#include "runtime/plan/Plan.h"
#include "tests/support/Interpreter.h"

#include <cstdint>
#include <vector>

namespace nano::test {

/// The elements as a buffer of `type` (any but u16) holds them, to nearest even.
std::vector<char> packed(const TensorValue &value, plan::DType type);

/// What `packed` has packed.
TensorValue unpacked(const std::vector<char> &bytes, plan::DType type,
                     const std::vector<int64_t> &shape);

/// What the rank at `place` holds of a state, from the values of whole tensors.
TensorValue localPart(const plan::State &state, int64_t place, const StateMap &values);

/// Replaces the parts of states that ranks hold, in `ranks` by place, by the whole tensors, which
/// the first then has.
void joinParts(const plan::Plan &plan, std::vector<StateMap *> ranks);

} // namespace nano::test
