// A tensor in memory, of which kernels for the CPU load and store vectors along the last dimension.
#pragma once

#include "passes/emit/KernelEmitter.h"
#include "passes/emit/VectorOps.h"

namespace nano::kernels {

/// An argument with static strides. A vector has the lanes' elements c, c + 1, … of one row; where
/// these do not lie side by side it is gathered and scattered.
struct VectorRows {
  mlir::Value flat;
  llvm::SmallVector<int64_t> strides;

  VectorRows(KernelFrame &frame, mlir::Value argument)
      : flat(frame.flat(argument)),
        strides(stridesOf(mlir::cast<mlir::MemRefType>(argument.getType()))) {}

  /// Where an element is, one index a dimension, from `flat`'s first one.
  mlir::Value place(VectorOps &v, llvm::ArrayRef<mlir::Value> indices) const {
    mlir::Value at = v.mul(indices[0], strides[0]);
    for (size_t i = 1; i < indices.size(); ++i)
      at = v.add(at, v.mul(indices[i], strides[i]));
    return at;
  }
  mlir::Value place(VectorOps &v, mlir::Value a, mlir::Value b, mlir::Value c) const {
    return place(v, {a, b, c});
  }
  /// The vector from `at` on; a null mask: all lanes.
  mlir::Value load(VectorOps &v, mlir::Value at, mlir::Value mask) const {
    return strides.back() == 1 ? v.load(flat, at, mask) : v.gather(flat, at, offsets(v), mask);
  }
  void store(VectorOps &v, mlir::Value value, mlir::Value at, mlir::Value mask) const {
    if (strides.back() == 1)
      v.store(value, flat, at, mask);
    else
      v.scatter(value, flat, at, offsets(v), mask);
  }

private:
  mlir::Value offsets(VectorOps &v) const { return v.muli(v.laneNumbers(), v.i32(strides.back())); }
};

} // namespace nano::kernels
