// What a fused kernel can hold: which ops, over which space, and where each reads its operands.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/ReduceOps.h"

#include <array>
#include <cstdint>

namespace nano::fuse {

/// True for ops that can lie in a kernel: element-wise ones, broadcasts, rotations, reductions,
/// gathers, and reshapes that keep the last dimension of a matrix or make a vector a row.
bool isFusible(mlir::Operation *op);

/// True for a reshape of a vector, not a long one, to the one row that is reduced.
bool isVectorAsRow(mlir::Operation *op);

/// Ops that are copied into each consumer: what they compute is cheaper than a tensor's way through
/// memory.
bool isCheap(mlir::Operation *op);

/// True for a reduction that leaves columns: [P, R, C] → [P, C].
bool isColumnReduce(mlir::Operation *op);

/// The elements before, in and behind the dimensions that a column reduction combines.
std::array<int64_t, 3> columnSizes(graph::ReduceOp reduce);

/// Rows × columns that a kernel iterates over: all leading dimensions × the last one.
struct Space {
  int64_t rows = 1, columns = 1;
  int64_t elements() const { return rows * columns; }
  bool operator==(const Space &other) const = default;
};

/// The space of a fusible op: that of its result, of a reduction that of its operand.
Space spaceOf(mlir::Operation *op);

/// True when `use` reads its operand at the place that it computes: the same element, or the value
/// of the same row.
bool readsInPlace(mlir::OpOperand &use);

} // namespace nano::fuse
