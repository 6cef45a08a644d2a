// A tensor of three dimensions in memory, of which kernels for the CPU load and store vectors along
// the last one.
#pragma once

#include "passes/emit/KernelEmitter.h"
#include "passes/emit/VectorOps.h"

namespace nano::kernels {

/// An argument [A, B, C] with static strides. A vector has the lanes' elements c, c + 1, … of one
/// row; where these do not lie side by side it is gathered and scattered.
struct VectorRows {
  mlir::Value flat;
  llvm::SmallVector<int64_t> strides;

  VectorRows(KernelFrame &frame, mlir::Value argument)
      : flat(frame.flat(argument)),
        strides(stridesOf(mlir::cast<mlir::MemRefType>(argument.getType()))) {}

  /// Where element (a, b, c) is, from `flat`'s first one.
  mlir::Value place(VectorOps &v, mlir::Value a, mlir::Value b, mlir::Value c) const {
    return v.add(v.add(v.mul(a, strides[0]), v.mul(b, strides[1])), v.mul(c, strides[2]));
  }
  /// The vector from `at` on; a null mask: all lanes.
  mlir::Value load(VectorOps &v, mlir::Value at, mlir::Value mask) const {
    return strides[2] == 1 ? v.load(flat, at, mask) : v.gather(flat, at, offsets(v), mask);
  }
  void store(VectorOps &v, mlir::Value value, mlir::Value at, mlir::Value mask) const {
    if (strides[2] == 1)
      v.store(value, flat, at, mask);
    else
      v.scatter(value, flat, at, offsets(v), mask);
  }

private:
  mlir::Value offsets(VectorOps &v) const { return v.muli(v.laneNumbers(), v.i32(strides[2])); }
};

} // namespace nano::kernels
