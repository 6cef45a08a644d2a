// The mark of ops whose results the backward pass shall make again.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace nano::graph {

/// Attribute of ops of the training program, i64: the region that they lie in. Their results are
/// not kept for the backward pass, unless ops outside of the region read them. nano-recompute takes
/// it away.
inline constexpr llvm::StringLiteral recomputeAttrName = "nano.recompute";

} // namespace nano::graph
