// nano.custom in C++: see CustomOps.td. The few that build or lower a kernel of the model's own
// include this; to all others it is any op.
#pragma once

#include "ir/graph/Nano.h"

namespace nano::graph {

/// Bytes of dynamic shared memory that a block of a kernel of the model's own may have.
inline constexpr int64_t mostCustomSharedBytes = 227 * 1024;

/// Whether C++ can call something `name`.
bool isIdentifier(llvm::StringRef name);

} // namespace nano::graph

#define GET_OP_CLASSES
#include "ir/graph/CustomOps.h.inc"
