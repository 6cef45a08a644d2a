// The mark of loops of which several turns are written out.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace nano::kernel {

/// Attribute of loops of kernels, i64: so many turns are written out, all where there are no more.
/// CUDA C++ says so; for CPUs LLVM judges by itself.
inline constexpr llvm::StringLiteral unrollAttrName = "nano.unroll";

} // namespace nano::kernel
