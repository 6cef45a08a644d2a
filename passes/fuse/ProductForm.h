// A kernel that begins with a matrix product and ends it element by element: which `nano.fused` or
// task has this form, and which product can be given it.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace nano {

/// The product that a kernel's body begins with; null when it begins with another op.
graph::MatmulOp productOf(mlir::Block &body);

/// True when the kernel begins with a product and the operand of that number is one of its factors.
bool isFactorOfProduct(graph::FusedOp fused, unsigned operand);

/// Why no generated kernel computes the product, as the rest of a sentence; empty when one can: all
/// three matrices of bf16, A as it lies, no factor and no addend, and rows of 16 bytes and their
/// multiples.
std::string productObstacle(graph::MatmulOp product);

/// Why the ops of a body are no epilogue of `product`, which is a value of it, an argument or the
/// result of its first op; empty when they are one. All others are element-wise over its elements,
/// its columns or single numbers; what they read are whole matrices, one number a column, and f32
/// numbers; results are whole; and nothing is of 8 bits.
std::string epilogueObstacle(mlir::Block &body, mlir::Value product);

/// Of a kernel that begins with `product`: the arguments that its other ops read, in order, and
/// what it yields, each once.
llvm::SmallVector<mlir::Value> epilogueOperands(graph::MatmulOp product);
llvm::SmallVector<mlir::Value> epilogueResults(graph::MatmulOp product);

} // namespace nano
