// Where a NaN or an infinity came from: a program run command by command, with a look at everything
// that each command writes.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>

namespace nano {

/// The first number of a program's run that was not finite.
struct NonFinite {
  std::string program;
  size_t command = 0;  ///< the one that wrote it
  uint32_t buffer = 0; ///< where it appeared
  uint64_t element = 0;
  float value = 0;
};

/// Runs the program to its end, command by command, and says where the first f32, bf16 or f8 number
/// appeared that is not finite; nothing when all were. A buffer that the program writes before it
/// reads it starts as zeros, so that what lay in its memory before is not taken for its values.
/// Reads back everything that is written: slow. Errors are those of the device.
Result<std::optional<NonFinite>> runChecked(const plan::Plan &plan, Device &device,
                                            const std::string &program);

/// "buffer 'x' (models/m.cpp:12), element 7 = inf, written by program 'first', command 5 'y'
/// (models/m.cpp:20)".
std::string toString(const plan::Plan &plan, const NonFinite &found);

/// The value of the element at `data`, which need not be aligned; 0 for an integer.
float valueOf(plan::DType type, const void *data);
/// The first of `count` elements of the type that is not finite; nothing when all are.
std::optional<uint64_t> firstNonFinite(plan::DType type, const void *data, uint64_t count);

} // namespace nano
