// The device library as text: the headers of codegen/device, and of ir/kernel/shapes, which they
// include. Of MLIR it knows nothing.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace nano::codegen {

/// Its headers, sorted by the names under which they include each other.
std::vector<plan::Source> deviceLibrary();

} // namespace nano::codegen
