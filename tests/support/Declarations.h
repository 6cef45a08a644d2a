// What a model file declares, for tests of passes: schedules, optimizers and parameters without
// programs, and the values of schedules.
#pragma once

#include "ir/graph/Nano.h"

#include <functional>
#include <string>

namespace nano::test {

/// The scalars, optimizers and parameters that `declare` makes with the functions of Frontend.h, as
/// lines of a module. Throws what the front end throws.
std::string declarations(std::function<void()> declare);

/// A scalar's value, in f64.
double evaluate(graph::ScalarOp scalar, double step, double iterations, double sequences,
                double world);

} // namespace nano::test
