// Cuts a kernel that reads a matrix product and sums its columns into two, so that the first can be
// the product's epilogue.
#pragma once

#include "passes/fuse/SplitRowSums.h"

namespace nano {

/// True when the kernel sums anything over rows of a matrix that is seen as parts of so many rows.
bool hasColumnSums(graph::FusedOp fused);

/// Makes `parts` of `fused`, in front of it, which stays; `product` is the argument of its body
/// that stands for a product p [R, C]. `parts.sums` is the kernel, but in place of the sums over
/// R / P rows, [P, C], it yields those over each partialSumRows rows, [R / partialSumRows, C];
/// `parts.rows` adds these up. They compute what it does but for the order of the sums. Of a kernel
/// that finds the largest of rows besides, `parts.maxima` does what SplitRowMaxima.h says. Returns
/// why that cannot be, as the rest of a sentence, and makes nothing then: other reductions, several
/// sums, sums that the kernel reads itself, parts whose rows are no multiples of partialSumRows, or
/// what else no epilogue of p computes.
std::string splitColumnSums(graph::FusedOp fused, mlir::Value product, RowSumParts &parts);

} // namespace nano
